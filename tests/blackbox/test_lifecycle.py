"""Start lines, readiness, drain, signals, engine death."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from helpers import ROOT, Server, binary, default_model, wait_for
from test_cases_i_load import LONG, open_request, running

POOL = ("--kv-cache-memory-bytes", "192M", "--max-model-len", "1024")


@pytest.fixture
def own_server():
    """Factory of servers for one test."""
    started = []

    def start(*flags, **kwargs):
        started.append(Server(*POOL, *flags, **kwargs))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def test_start_lines_and_readiness(own_server):
    server = own_server()
    log = server.log_text()
    for line in ("KV cache size:", "Starting vLLM server on http://127.0.0.1:",
                 "Available routes are:", "Route: /v1/chat/completions, Methods: POST",
                 "Started server process [", "Application startup complete."):
        assert line in log, line
    assert "NO API KEY" not in log
    for path in ("/health", "/ping", "/live", "/ready"):
        answer = server.get(path)
        assert (answer.status, answer.body) == (200, b""), path
    assert server.post("/ping", b"").status == 200
    assert "version" in server.get("/version").json
    models = server.get("/v1/models").json["data"]
    assert models[0]["object"] == "model" and models[0]["max_model_len"] == 1024


def kv_cache_tokens(server):
    found = re.search(r"KV cache size: ([\d,]+) tokens", server.log_text())
    return int(found.group(1).replace(",", ""))


@pytest.mark.parametrize("name,stored", [("fp8", "fp8_e4m3"), ("fp8_e5m2", "fp8_e5m2")])
def test_a_cache_of_one_byte_numbers_holds_twice_the_tokens(own_server, name, stored):
    wide = own_server("--kv-cache-dtype", "bfloat16")
    small = own_server("--kv-cache-dtype", name)
    assert f"Using {stored} data type to store kv cache" in small.log_text()
    assert "data type to store kv cache" not in wide.log_text()
    assert kv_cache_tokens(small) >= 2 * kv_cache_tokens(wide)
    assert f'cache_dtype="{name}"' in small.get("/metrics").text
    answer = small.post("/v1/completions", {"prompt": "The capital of France is", "max_tokens": 8,
                                            "temperature": 0})
    assert answer.status == 200 and "Paris" in answer.json["choices"][0]["text"]


@pytest.mark.parametrize("name", ["float32", "fp8_inc", "nvfp4", "int8_per_token_head", "FP8"])
def test_a_cache_type_that_is_not_built_is_a_start_error(name):
    run = subprocess.run([binary(), "serve", default_model(), "--kv-cache-dtype", name, *POOL],
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 2
    assert "--kv-cache-dtype" in run.stderr and name in run.stderr and "fp8_e5m2" in run.stderr


def test_a_port_in_use_is_one_clear_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run = subprocess.run([binary(), "serve", default_model(), "--port", str(port), *POOL],
                             capture_output=True, text=True, timeout=60)
    assert run.returncode not in (0, -11, -6)
    output = run.stdout + run.stderr
    assert str(port) in output and "in use" in output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_exits_with_0(own_server, number):
    server = own_server()
    server.signal(number)
    assert server.wait_exit(10) == 0
    assert "[shutdown] API server: shutdown triggered" in server.log_text()


def test_bl_100_sigterm_lets_streams_finish_and_refuses_new_work(own_server):
    server = own_server()
    stream = server.stream("/v1/completions", {**LONG, "max_tokens": 300})
    events = iter(stream)
    next(events)
    server.signal()
    wait_for(lambda: server.get("/ready").status == 503, what="/ready is 503")
    assert server.get("/health").status == 200
    refused = server.post("/v1/completions", {"prompt": "Hi", "max_tokens": 1})
    assert refused.status == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.headers["connection"] == "close"
    rest = list(events)
    assert rest[-1] == "[DONE]"
    assert rest[-2]["choices"][0]["finish_reason"] == "length"
    assert server.wait_exit(20) == 0


def test_a_second_signal_aborts(own_server):
    server = own_server()
    stream = server.stream("/v1/completions", {**LONG, "max_tokens": 900})
    events = iter(stream)
    next(events)
    server.signal()
    wait_for(lambda: server.get("/ready").status == 503, what="/ready is 503")
    start = time.monotonic()
    server.signal()
    rest = list(events)
    assert rest[-1] == "[DONE]"
    assert rest[-2]["choices"][0]["finish_reason"] == "abort"
    assert server.wait_exit(10) == 0
    assert time.monotonic() - start < 8


def test_a_shutdown_timeout_of_zero_aborts_at_once(own_server):
    server = own_server("--shutdown-timeout", "0")
    raw = open_request(server, {**LONG, "max_tokens": 900})
    wait_for(lambda: running(server) == 1, what="the request runs")
    server.signal()
    body = raw.receive_all().split(b"\r\n\r\n", 1)[1]
    assert json.loads(body)["choices"][0]["finish_reason"] == "abort"
    assert server.wait_exit(10) == 0


def test_engine_death_answers_everybody_and_exits_with_1(own_server):
    server = own_server(env={"OCTAVO_FAULT": "kill@60"})
    waiting = [open_request(server, {**LONG, "max_tokens": 400, "stream": i % 2 == 0})
               for i in range(4)]
    replies = [raw.receive_all() for raw in waiting]
    if all(b"[DONE]" in r or b'"length"' in r for r in replies) and server.process.poll() is None:
        pytest.skip("this build has no fault hook")
    for i, reply in enumerate(replies):
        assert b"error" in reply, reply[-300:]
        if i % 2:
            assert reply.startswith(b"HTTP/1.1 500 ")
        else:
            assert b"data: [DONE]" in reply
    assert server.wait_exit(5) == 1


def test_a_server_can_outlive_its_engine(own_server):
    server = own_server(env={"OCTAVO_FAULT": "kill@60", "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": "1"})
    answer = server.post("/v1/completions", {**LONG, "max_tokens": 400})
    if answer.status == 200:
        pytest.skip("this build has no fault hook")
    assert answer.status == 500 and answer.error["type"] == "InternalServerError"
    time.sleep(5.5)  # without the variable it ends within 5 s
    for path, status in (("/health", 503), ("/ping", 503), ("/live", 503), ("/ready", 503),
                         ("/version", 200), ("/v1/models", 200), ("/metrics", 200)):
        assert server.get(path).status == status, path
    assert server.post("/v1/completions", {"prompt": "Hi", "max_tokens": 1}).status == 500
    server.signal()
    assert server.wait_exit(10) in (0, 1)


def test_a_model_that_does_not_fit_is_named_in_the_log_and_on_stderr():
    run = subprocess.run([binary(), "serve", default_model(), "--port", "0", "--max-model-len",
                          "8192", "--kv-cache-memory-bytes", "10M"],
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert "ERROR" in run.stdout and "EngineCore failed to start." in run.stdout
    assert "Engine core initialization failed. See root cause above." in run.stdout
    assert "To serve at least one request" in run.stderr
    assert "'max_model_len': 8192, 'kv_cache_memory_bytes': 10485760}" in run.stdout


def test_a_stuck_engine_is_answered_for_when_the_server_ends(own_server):
    server = own_server(env={"OCTAVO_FAULT": "stall@20"})
    streamed = open_request(server, {**LONG, "max_tokens": 400, "stream": True})
    plain = open_request(server, {**LONG, "max_tokens": 400})
    streamed.receive_until(b"data: ")
    time.sleep(1)
    if server.metrics().value("vllm:generation_tokens_total") > 60:
        pytest.skip("this build has no fault hook")
    server.signal()
    wait_for(lambda: server.get("/ready").status == 503, what="/ready is 503")
    server.signal()
    events = streamed.receive_all()
    assert b'data: {"error":' in events and b"data: [DONE]" in events, events[-300:]
    reply = plain.receive_all()
    assert reply.startswith(b"HTTP/1.1 500 ") and b'"error"' in reply
    assert server.wait_exit(15) == 1


def test_a_reader_of_stdout_that_stops_delays_nobody():
    process = subprocess.Popen(
        [binary(), "serve", default_model(), "--port", "0", "--enable-log-requests", *POOL],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        for line in process.stdout:
            found = re.search(rb"Starting vLLM server on http://\S*:(\d+)", line)
            if found:
                break
        port = int(found.group(1))
        path = "/health?" + "x" * 400

        def ask(method, path, body=None):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            return answer.status

        def ready():
            try:
                return ask("GET", "/ready") == 200
            except OSError:
                return False

        wait_for(ready, timeout=30, what="/ready")
        for _ in range(600):  # four times what a pipe holds
            assert ask("GET", path) == 200
        body = json.dumps({"prompt": "Hi", "max_tokens": 2})
        assert ask("POST", "/v1/completions", body) == 200
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=20)  # reads again
        assert process.returncode == 0
        assert rest.count(b'" 200 OK') >= 600
        assert b"[shutdown] EngineCore: request processing complete" in rest
    finally:
        process.kill()
        process.wait()


def test_threads_have_names(own_server):
    server = own_server("--num-threads", "2")
    server.complete("Hi", max_tokens=2)
    tasks = Path(f"/proc/{server.process.pid}/task")
    names = {path.read_text().strip() for path in tasks.glob("*/comm")}
    assert names >= {"octavo", *(f"octavo-{role}" for role in (
        "http", "worker", "engine", "compute", "output", "log"))}, names


def test_unix_socket(own_server, tmp_path):
    path = tmp_path / "octavo.sock"
    process = subprocess.Popen(
        [binary(), "serve", default_model(), "--uds", str(path), *POOL],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def answers():
            try:
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(str(path))
                    client.sendall(b"GET /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    return client.recv(100).startswith(b"HTTP/1.1 200")
            except OSError:
                return False

        wait_for(answers, timeout=30, what="the socket answers")
    finally:
        process.terminate()
        assert process.wait(timeout=15) == 0
    assert not path.exists()


def test_a_log_reader_that_has_gone_does_not_end_the_start():
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = subprocess.Popen(
        [binary(), "serve", str(ROOT / "tests/golden/llama"), "--port", "0",
         "--num-gpu-blocks-override", "24"], stdout=subprocess.DEVNULL, stderr=write_end)
    os.close(write_end)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
    finally:
        process.kill()
        process.wait()


def test_a_request_whose_constraints_leave_no_token_is_the_clients_mistake(start_server):
    server = start_server()
    answer = server.post("/v1/completions", {
        "prompt": "a", "max_tokens": 1, "min_tokens": 1, "allowed_token_ids": [5],
        "stop_token_ids": [5]})
    assert answer.status == 400
    assert answer.json["error"]["param"] == "allowed_token_ids"


def test_bl_114_a_stopped_process_answers_nothing_and_goes_on_afterwards(own_server):
    """A prober sees its own time-out, and a process that was only asleep does not count that time
    against itself."""
    server = own_server()
    stream = open_request(server, {**LONG, "max_tokens": 200, "stream": True})
    stream.receive_until(b"data: ")
    server.signal(signal.SIGSTOP)
    stat = Path(f"/proc/{server.process.pid}/stat")
    wait_for(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", what="it is stopped")
    try:
        for path in ("/live", "/health", "/ready"):
            with pytest.raises(TimeoutError):
                server.get(path, timeout=0.5)
    finally:
        server.signal(signal.SIGCONT)
    for path in ("/live", "/health", "/ready"):
        assert server.get(path, timeout=5).status == 200
    assert b'"length"' in stream.receive_until(b"[DONE]")
    stream.close()
    assert server.complete("Hi", max_tokens=1)["usage"]["completion_tokens"] == 1


@pytest.mark.slow
def test_bl_114_live_fails_when_the_engine_stalls(own_server):
    """/live says 503 once a step has taken 30 s while work waits; /health and /ready stay."""
    server = own_server("--shutdown-timeout", "0", env={"OCTAVO_FAULT": "stall@20"})
    raw = open_request(server, {**LONG, "max_tokens": 400, "stream": True})
    raw.receive_until(b"data: ")
    start = time.monotonic()
    time.sleep(1)
    if server.metrics().value("vllm:generation_tokens_total") > 60:
        pytest.skip("this build has no fault hook")
    while server.get("/live").status == 200:
        assert server.get("/health").status == 200
        assert time.monotonic() - start < 35
        time.sleep(0.2)
    assert time.monotonic() - start > 25
    raw.close()
