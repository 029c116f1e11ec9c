"""Public reports, section I: disconnects, aborts, load."""

import contextlib
import http.client
import json
import resource
import socket
import subprocess
import sys
import threading
import time

import pytest
from helpers import parallel, wait_for

LONG = {"prompt": "Once upon a time", "max_tokens": 4000, "ignore_eos": True, "temperature": 0}


def running(server):
    return server.metrics().value("vllm:num_requests_running")


def generated(server):
    return server.metrics().value("vllm:generation_tokens_total")


def ended(server):
    return server.metrics().value("vllm:request_success_total")


def open_request(server, body):
    """A POST to /v1/completions whose answer nobody has read yet; the socket."""
    raw = server.raw()
    data = json.dumps(body).encode()
    raw.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
             b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
    return raw


@pytest.mark.parametrize("stream", [True, False])
def test_bl_092_a_closed_socket_ends_the_request(server, stream):
    aborts = server.metrics().value("vllm:request_success_total", finished_reason="abort")
    raw = open_request(server, {**LONG, "stream": stream})
    wait_for(lambda: running(server) == 1, what="the request runs")
    time.sleep(0.3)
    raw.close()
    wait_for(lambda: running(server) == 0, timeout=2, what="running is 0")
    before = generated(server)
    time.sleep(0.2)
    assert generated(server) == before
    after = server.metrics().value("vllm:request_success_total", finished_reason="abort")
    assert after == aborts + 1


def test_bl_094_a_queued_request_that_is_closed_never_runs(start_server):
    server = start_server("--max-num-seqs", "1")
    long_one = open_request(server, {**LONG, "max_tokens": 900, "stream": True})
    wait_for(lambda: running(server) == 1, what="A runs")
    prompts = server.metrics().value("vllm:prompt_tokens_total")
    queued = open_request(server, {**LONG, "prompt": "The queued one " * 20, "max_tokens": 5})
    wait_for(lambda: server.metrics().value("vllm:num_requests_waiting") == 1, what="B waits")
    queued.close()
    wait_for(lambda: server.metrics().value("vllm:num_requests_waiting") == 0, timeout=2,
             what="B has left the queue")
    long_one.close()
    answer = server.complete("C follows", max_tokens=2, ignore_eos=True)
    assert answer["usage"]["completion_tokens"] == 2
    server.wait_idle()
    moved = server.metrics().value("vllm:prompt_tokens_total") - prompts
    assert moved == answer["usage"]["prompt_tokens"], "B's prompt was never computed"




NUM_SLOW = 50
LONG_PROMPT = 218 * 16 + 1  # one token more than full blocks: the only one to compute


def open_echo_stream(server, token):
    """A stream of more bytes than a kernel's socket buffers take: the echo of long prompts, which
    are one prompt to the prefix cache."""
    raw = server.raw(receive_buffer=4096)
    data = json.dumps({"prompt": [[token] * LONG_PROMPT] * 16, "max_tokens": 1,
                       "echo": True, "stream": True}).encode()
    raw.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
             b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
    return raw


@pytest.mark.parametrize("write_timeout_ms", [
    5000, pytest.param(60_000, marks=[pytest.mark.slow, pytest.mark.timeout(200)])])
def test_bl_097_slow_readers_cost_only_themselves(start_server, write_timeout_ms):
    server = start_server("--max-num-seqs", "64", "--write-timeout-ms", str(write_timeout_ms),
                          length=4096)
    line = "=" * 64
    token = server.tokenize(line)[0]
    assert len(server.detokenize([token])) * LONG_PROMPT * 16 > 3_500_000
    plain = server.complete_text("A normal one", max_tokens=8, ignore_eos=True)
    server.complete([token] * LONG_PROMPT, max_tokens=1)  # into the prefix cache
    ended_before = ended(server)
    descriptors = server.num_descriptors()
    before = server.rss_bytes()
    stop = threading.Event()
    slow = [open_echo_stream(server, token) for _ in range(NUM_SLOW)]

    def read_slowly():
        while not stop.wait(0.5):
            for raw in slow:
                with contextlib.suppress(OSError):
                    raw.socket.recv(50)  # 100 bytes a second

    reader = threading.Thread(target=read_slowly)
    reader.start()
    peak = 0
    try:
        wait_for(lambda: server.num_descriptors() >= descriptors + NUM_SLOW, what="all are in")
        wait_for(lambda: ended(server) >= ended_before + NUM_SLOW * 16, timeout=60,
                 what="all tokens are made")
        end = time.monotonic() + write_timeout_ms / 1000 + 10
        num_normal = 0
        while server.num_descriptors() > descriptors + 2:
            assert time.monotonic() < end, "the slow readers are not cut"
            start = time.monotonic()
            text = server.complete_text("A normal one", max_tokens=8, ignore_eos=True)
            assert text == plain
            assert time.monotonic() - start < 2
            num_normal += 1
            peak = max(peak, server.rss_bytes() - before)
            time.sleep(0.05)
    finally:
        stop.set()
        reader.join()
        for raw in slow:
            raw.close()
    # --max-buffered-response-bytes for each, twice while a buffer grows; the KV pool's pages, which
    # are touched when blocks are first handed out.
    assert peak < NUM_SLOW * 2 * (4 << 20) + (192 << 20)
    assert num_normal > 0
    server.wait_idle()


# Polls until its input ends, in a process of its own: beside 32 busy threads of Python a check would
# wait for the interpreter, not for the server.
POLL = """
import http.client, json, select, sys, time
slowest, failures = 0.0, []
while not select.select([sys.stdin], [], [], 0.2)[0]:
    for path in ("/health", "/metrics"):
        start = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status != 200:
            failures.append(path)
        slowest = max(slowest, time.monotonic() - start)
print(json.dumps([slowest, failures]))
"""


def test_bl_098_ten_thousand_idle_connections(server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 10_000
    if hard != resource.RLIM_INFINITY and hard < wanted + 500:
        wanted = hard - 500
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted + 500), hard))
    descriptors = server.num_descriptors()

    def short(index):
        if index % 10:
            return server.get("/v1/models").status
        return server.post("/v1/completions", {"prompt": "Hi", "max_tokens": 1}).status

    idle = []
    with subprocess.Popen([sys.executable, "-c", POLL, str(server.port)], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as poller:
        try:
            for _ in range(wanted):
                connection = socket.socket()
                connection.connect(("127.0.0.1", server.port))
                idle.append(connection)
            statuses = parallel(short, range(2000), workers=32)
        finally:
            said, _ = poller.communicate(timeout=120)
            for connection in idle:
                connection.close()
    slowest, failures = json.loads(said)
    assert not failures
    assert 0 < slowest < 1.0, f"the slowest check took {slowest:.2f} s"
    assert set(statuses) <= {200, 429, 503} and statuses.count(200) > 1900
    wait_for(lambda: server.num_descriptors() <= descriptors + 2, timeout=20,
             what="descriptors are back")


def test_bl_099_silent_streams_get_comments(start_server):
    server = start_server("--max-num-seqs", "1", "--sse-keep-alive-interval", "1", length=2048)
    first = open_request(server, {**LONG, "max_tokens": 2000, "stream": True})
    wait_for(lambda: running(server) == 1, what="A runs")
    second = open_request(server, {**LONG, "max_tokens": 2, "stream": True})
    seen = b""
    with contextlib.suppress(TimeoutError):
        second.socket.settimeout(8)
        while b": keep-alive\n\n" not in seen:
            chunk = second.socket.recv(65536)
            assert chunk
            seen += chunk
    assert b": keep-alive\n\n" in seen
    first.close()
    assert b"[DONE]" in second.receive_until(b"[DONE]")
    second.close()


def test_many_clients_of_one_connection_each(server):
    def run(index):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        try:
            for _ in range(3):
                body = json.dumps({"prompt": f"{index}", "max_tokens": 2}).encode()
                connection.request("POST", "/v1/completions", body=body,
                                   headers={"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200
        finally:
            connection.close()

    parallel(run, range(32), workers=32)
