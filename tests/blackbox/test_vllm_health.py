"""scripts/vllm-health (the same program as `octavo health`) against stubs of every bad manner, and
against octavo."""

import json
import os
import socket
import subprocess
import time

import pytest
from helpers import ROOT, binary
from raw_server import RawServer
from stub_openai import Script, StubServer

LAUNCHER = ROOT / "scripts" / "vllm-health"
METRICS = """# HELP vllm:num_requests_running x
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a}\\"b"} 2.0
vllm:num_requests_waiting{engine="0"} 1.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:generation_tokens_total{engine="0"} 1234.0
"""
OLD_METRICS = METRICS.replace("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
LLAMA_METRICS = """llamacpp:requests_processing 3
llamacpp:requests_deferred 0
llamacpp:kv_cache_usage_ratio 0.5
llamacpp:tokens_predicted_total 77
"""


def text(body, status=200):
    return (status, "text/plain", body.encode())


def obj(value, status=200):
    return (status, "application/json", json.dumps(value).encode())


def vllm_routes(**others):
    routes = {"/health": text(""), "/version": obj({"version": "0.33.0"}),
              "/load": obj({"server_load": 3}), "/metrics": text(METRICS)}
    routes.update({"/" + name: value for name, value in others.items()})
    return routes


def health(*flags, env=None, timeout=30):
    return subprocess.run([LAUNCHER, *map(str, flags)], capture_output=True, text=True,
                          timeout=timeout,
                          env={"PATH": "/usr/bin:/bin", "OCTAVO_BINARY": binary(), **(env or {})})


def probe(url, *flags, **kwargs):
    """Exit status and the JSON object."""
    done = health("--url", url, "--json", *flags, **kwargs)
    assert done.stderr == "" and done.stdout.count("\n") == 1
    report = json.loads(done.stdout)
    assert report["exit_status"] == done.returncode
    assert report["passed"] == (done.returncode == 0)
    return done.returncode, {check["check"]: check for check in report["checks"]}, report


def probe_routes(routes, *flags, **kwargs):
    with StubServer(Script(routes=routes)) as stub:
        return probe(stub.url, *flags, **kwargs)


def test_a_healthy_vllm_passes_with_get_only():
    with StubServer(Script(routes=vllm_routes())) as stub:
        status, checks, report = probe(stub.url)
        assert status == 0
        asked = [(r["method"], r["path"]) for r in stub.requests]
    assert asked == [("GET", path) for path in
                     ("/health", "/version", "/v1/models", "/load", "/metrics")]
    assert report["format"] == "octavo-health/1" and not report["timed_out"]
    assert checks["version"]["data"] == {"version": "0.33.0"}
    assert checks["models"]["data"] == {"count": 1, "ids": ["stub-model"]}
    assert checks["load"]["data"] == {"server_load": 3.0}
    metrics = checks["metrics"]["data"]
    assert metrics["missing"] == [] and metrics["truncated"] is False
    assert metrics["values"]["running"] == {"series": "vllm:num_requests_running", "value": 2.0}
    assert metrics["values"]["generation_tokens"]["value"] == 1234.0


def test_a_healthy_llama_server_passes():
    routes = {"/health": obj({"status": "ok"}), "/metrics": text(LLAMA_METRICS)}
    status, checks, _ = probe_routes(routes)
    assert status == 0
    assert checks["version"]["verdict"] == checks["load"]["verdict"] == "not_offered"
    assert checks["metrics"]["data"]["values"]["kv_cache_usage"] == {
        "series": "llamacpp:kv_cache_usage_ratio", "value": 0.5}
    status, checks, _ = probe_routes(routes, "--check", "version")
    assert status == 1 and checks["version"]["verdict"] == "failed"  # asked for by name


def test_octavo_passes_every_check(server):
    every = ["health", "version", "models", "load", "metrics", "live", "ready"]
    status, checks, _ = probe(server.url, *[word for name in every for word in ("--check", name)])
    assert status == 0, checks
    assert list(checks) == every
    assert checks["metrics"]["data"]["missing"] == []
    assert health("--url", server.url).stdout.endswith("\n")
    before = server.metrics().value("vllm:generation_tokens_total")
    status, checks, _ = probe(server.url, "--check", "generate")
    assert status == 0 and checks["generate"]["request"] == "POST /v1/completions"
    assert "one request of one token" in checks["generate"]["detail"]
    assert server.metrics().value("vllm:generation_tokens_total") == before + 1


@pytest.mark.parametrize("code", [204, 400, 401, 403, 404, 429, 500, 502, 503])
def test_every_status_but_200_is_a_finding(code):
    status, checks, _ = probe_routes({"/health": (code, "text/plain", b"")}, "--check", "health")
    assert status == 1 and checks["health"]["verdict"] == "failed"
    assert checks["health"]["status"] == code


def test_a_redirect_is_not_followed():
    def act(connection, _):
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: /\x1b[31melsewhere\r\n"
                           b"Content-Length: 0\r\n\r\n")

    with RawServer(act) as server:
        status, checks, _ = probe(server.url, "--check", "health")
        assert len(server.requests) == 1
    assert status == 1 and "not followed" in checks["health"]["detail"]
    assert "\x1b" not in checks["health"]["detail"]


@pytest.mark.parametrize("check, path, answer, why", [
    ("version", "/version", text("<html>"), "no JSON"),
    ("version", "/version", obj(["0.1"]), "no JSON object"),
    ("version", "/version", obj({"version": 3}), "version"),
    ("models", "/v1/models", obj({"data": []}), "no model"),
    ("models", "/v1/models", obj({"data": [{"id": 5}, 7]}), "no model"),
    ("models", "/v1/models", obj({"object": "list"}), "data"),
    ("models", "/v1/models", text("[" * 100000), "no JSON"),
    ("load", "/load", obj({"server_load": "3"}), "server_load"),
    ("load", "/load", text('{"server_load": 1e999}'), ""),
    ("metrics", "/metrics", text("<html>hello</html>\n"), "none of the known"),
    ("metrics", "/metrics", text(""), "none of the known"),
    ("metrics", "/metrics", text("vllm:num_requests_running nonsense\n"), "none of the known"),
])
def test_wrong_content_is_a_finding(check, path, answer, why):
    status, checks, _ = probe_routes({path: answer}, "--check", check)
    assert status == 1 and checks[check]["verdict"] == "failed"
    assert why in checks[check]["detail"]


def test_a_missing_series_is_missing_and_not_zero():
    body = "".join(line + "\n" for line in METRICS.splitlines() if "waiting" not in line)
    status, checks, _ = probe_routes({"/metrics": text(body)}, "--check", "metrics")
    data = checks["metrics"]["data"]
    assert status == 0 and data["missing"] == ["waiting"] and data["values"]["waiting"] is None
    _, checks, _ = probe_routes({"/metrics": text(OLD_METRICS)}, "--check", "metrics")
    assert checks["metrics"]["data"]["values"]["kv_cache_usage"]["series"] == (
        "vllm:gpu_cache_usage_perc")


def test_only_the_first_256_kib_of_metrics_are_read():
    filler = "other_metric{x=\"1\"} 1\n" * 20000
    body = METRICS.splitlines()[2] + "\n" + filler + "vllm:num_requests_waiting 9\n"
    status, checks, _ = probe_routes({"/metrics": text(body)}, "--check", "metrics")
    data = checks["metrics"]["data"]
    assert status == 0 and data["truncated"] is True and data["bytes_read"] == 256 * 1024
    assert "waiting" in data["missing"] and data["values"]["running"]["value"] == 2.0


def test_a_huge_answer_is_cut_off():
    def act(connection, _):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b'{"x": "' + b"y" * 65536)

    with RawServer(act) as server:
        start = time.monotonic()
        status, checks, _ = probe(server.url, "--check", "models", "--check", "health")
    assert time.monotonic() - start < 5
    assert status == 1 and "larger than" in checks["models"]["detail"]
    assert checks["health"]["verdict"] == "passed"  # only its status counts


def test_many_models_stay_bounded():
    names = [{"id": f"model-{i}-" + "x" * 300} for i in range(500)]
    with StubServer(Script(routes={"/v1/models": obj({"data": names})})) as stub:
        done = health("--url", stub.url, "--json", "--check", "models")
    data = json.loads(done.stdout)["checks"][0]["data"]
    assert data["count"] == 500 and len(data["ids"]) == 20 and len(done.stdout) < 8192


@pytest.mark.parametrize("bytes_sent, why", [
    (b"", "without an answer"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "cut off"),
    (b"HTTP/1.1 200 OK\r\nConten", "cut off"),
    (b"220 mail.example ESMTP\r\n", "not HTTP"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", "not HTTP"),
    (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100000, "too large"),
])
def test_broken_answers_are_findings(bytes_sent, why):
    def act(connection, _):
        connection.sendall(bytes_sent)
        connection.shutdown(socket.SHUT_WR)  # half closed
        time.sleep(0.2)

    with RawServer(act) as server:
        status, checks, _ = probe(server.url, "--check", "health")
    assert status == 1 and why in checks["health"]["detail"]


def test_the_timeout_is_for_the_whole_run_and_beats_other_findings():
    def act(connection, head):
        if b"GET /health" in head:
            connection.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
            return
        for _ in range(100):  # a byte now and then must not prolong it
            connection.sendall(b"H")
            time.sleep(0.05)

    with RawServer(act) as server:
        start = time.monotonic()
        status, checks, report = probe(server.url, "--timeout", "0.5")
        assert 0.4 < time.monotonic() - start < 3
    assert status == 124 and report["timed_out"] is True
    assert checks["health"]["verdict"] == "failed"
    assert checks["metrics"]["verdict"] in ("not_run", "timed_out", "failed")


def test_a_server_that_never_answers_times_out():
    with RawServer(lambda connection, _: time.sleep(3)) as server:
        status, checks, _ = probe(server.url, "--timeout", "0.3")
    assert status == 124
    assert checks["health"]["verdict"] == "timed_out" and checks["models"]["verdict"] == "not_run"


def test_refused_and_unknown_names():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, not listening: refused
        status, checks, _ = probe(f"http://127.0.0.1:{unused.getsockname()[1]}")
    assert status == 1 and "refused" in checks["health"]["detail"]
    status, checks, _ = probe("http://no-such-host.invalid:8000", "--check", "health", "--timeout", 5)
    assert status in (1, 124)  # 124 where the resolver itself does not answer
    assert "resolved" in checks["health"]["detail"] or status == 124


def test_the_right_model_is_checked():
    status, checks, _ = probe_routes({}, "--check", "models", "--model", "stub-model")
    assert status == 0
    status, checks, _ = probe_routes({}, "--check", "models", "--model", "other")
    assert status == 1 and "'other' is not served" in checks["models"]["detail"]


def test_the_key_is_sent_and_never_shown(tmp_path):
    key = "sk-very-secret"
    (tmp_path / "key").write_text(key + "\n")
    routes = {"/version": obj({"version": f"you said {key}"})}
    for flags, env in ((["--api-key-file", tmp_path / "key"], {}), ([], {"VLLM_API_KEY": key}),
                       ([], {"OPENAI_API_KEY": key})):
        with StubServer(Script(routes=routes)) as stub:
            done = health("--url", stub.url, "--json", "--check", "version", *flags, env=env)
            assert stub.requests[0]["headers"]["Authorization"] == f"Bearer {key}"
        assert key not in done.stdout + done.stderr and "you said ***" in done.stdout
    done = health("--url", "http://user:hush@h/", env={})
    assert done.returncode == 2 and "hush" not in done.stderr
    done = health(env={"VLLM_API_KEY": "bad\nkey"})
    assert done.returncode == 2 and "bad" not in done.stderr


def test_text_of_the_server_cannot_drive_a_terminal():
    evil = "\x1b]0;title\x07\r\nfake line\u202e"
    with StubServer(Script(routes={"/version": obj({"version": evil})})) as stub:
        done = health("--url", stub.url, "--check", "version")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2
    assert all(ord(c) < 127 and (c == "\n" or ord(c) >= 32) for c in done.stdout)


@pytest.mark.parametrize("flags", [
    ["--check", "nonsense"], ["--timeout", "0"], ["--timeout", "inf"], ["--timeout", "x"],
    ["--url", "localhost:8000"], ["--url", "http://h/?key=1"], ["--nonsense"], ["extra"],
    ["--api-key-file", "/no/such/file"], ["--url"],
])
def test_a_bad_command_line_is_2(flags):
    done = health(*flags)
    assert done.returncode == 2 and done.stdout == "" and "error:" in done.stderr


def test_help_needs_no_server():
    done = health("--help")
    assert done.returncode == 0 and "exit status" in done.stdout and "--timeout" in done.stdout


def test_it_writes_nothing(tmp_path):
    with StubServer(Script(routes=vllm_routes())) as stub:
        done = subprocess.run([binary(), "health", "--url", stub.url], cwd=tmp_path, timeout=30,
                              capture_output=True, env={"PATH": os.environ["PATH"],
                                                        "HOME": str(tmp_path)})
    assert done.returncode == 0 and list(tmp_path.iterdir()) == []
