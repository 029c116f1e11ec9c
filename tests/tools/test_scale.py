"""bench/scale.py without measuring: arguments, tables, curves, and how a queue is measured."""
import argparse
import asyncio
import http.server
import json
import pathlib
import sys
import threading
import time
import xml.etree.ElementTree

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import scale  # noqa: E402
from measure import engines, gguf, limits, machine  # noqa: E402


def test_arguments(tmp_path, capsys):
    program, model = tmp_path / "octavo", tmp_path / "m.gguf"
    program.write_text("")
    program.chmod(0o755)
    model.write_bytes(b"GGUF")
    for argv, said in ((["--curves", "sideways"], "sideways is no curve"),
                       (["--curves", ","], "no curve is named"),
                       (["--octavo", "/does/not/exist"], "cannot be run"),
                       (["--octavo", str(program), "--model", str(model)], "is no GGUF file")):
        with pytest.raises(SystemExit):
            scale.parse_arguments(["--out", str(tmp_path), *argv])
        assert said in capsys.readouterr().err


def test_every_curve_has_points_axes_and_a_measurement():
    assert set(scale.POINTS) == set(scale.QUICK) == set(scale.AXES)
    for curve in scale.POINTS:
        assert callable(getattr(scale.Scale, curve))
    assert scale.POINTS["sequences"][-1] == 1024 and scale.POINTS["queue"][-1] == 100_000


def test_dummy_shapes_are_of_their_size():
    for name, low, high in (("1B", 1.0e9, 1.5e9), ("3B", 2.8e9, 3.4e9), ("8B", 7e9, 8.5e9)):
        tensors = gguf.llama_tensors({**scale.SHAPES[name], "vocab": 49152}, 2, 8)
        elements = sum(dims[0] * (dims[1] if len(dims) > 1 else 1) for _, dims, _ in tensors)
        assert low < elements < high, name
        assert all(dims[0] % 32 == 0 for _, dims, _ in tensors)


def test_writes_tables_and_curves(tmp_path):
    point = lambda p, void, **f: {"curve": "context", "point": p, "void": void,  # noqa: E731
                                  "foreign_cores": 0.0, "figures": f}
    record = {"machine": machine.describe(), "threads": 2, "max_foreign": 0.1, "roofs": None,
              "models": {"model": "m.gguf"}, "versions": {"octavo": "1"}, "commands": ["x"],
              "notes": ["size: no room"],
              "points": [point(128, True, decode_ms=9.0), point(128, False, decode_ms=2.0, limit_ms=1.0),
                         point(32000, True, decode_ms=50.0)]}
    scale.write(record, tmp_path)
    text = (tmp_path / "scale.md").read_text()
    assert "| 128 | 2 | 1 | 50 % |" in text and "| 32,000 | void | void | – |" in text
    assert "- Missing: size: no room" in text
    xml.etree.ElementTree.fromstring((tmp_path / "scale-context.svg").read_text())
    assert json.loads((tmp_path / "scale.json").read_text())["threads"] == 2


class Handler(http.server.BaseHTTPRequestHandler):
    """Streams without end; keeps the others waiting, or answers them with `refuse`."""
    protocol_version = "HTTP/1.1"
    waiting = 0
    refuse = False

    def log_message(self, *args):
        pass

    def do_GET(self):
        body = f'vllm:num_requests_waiting{{engine="0"}} {Handler.waiting}.0\n'.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            if not body.get("stream"):
                Handler.waiting += len(body["prompt"])
                if self.refuse:
                    self.send_error(503)
                return time.sleep(2)
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for _ in range(200):
                self.wfile.write(b"c\r\ndata: {\"x\":1\r\n2\r\n}\n\r\n")
                time.sleep(0.01)
        except OSError:
            pass  # the client has gone


@pytest.fixture
def url():
    Handler.waiting, Handler.refuse = 0, False
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_measures_streams_while_prompts_wait(url):
    cost = asyncio.run(scale.behind_a_queue(url, 1200, "seed", 0.3))
    assert Handler.waiting == 1200
    assert 0.1 < cost < 20  # 16 streams of at most 100 tokens/s


def test_a_refused_queue_is_an_error(url):
    Handler.refuse = True
    with pytest.raises(RuntimeError, match="was answered: HTTP/1.1 503"):
        asyncio.run(scale.behind_a_queue(url, 3000, "seed", 0.3))


def test_limits_of_dummies_need_no_file():
    assert limits.facts_of("/does/not/exist") is None


def test_a_server_that_ends_says_why(tmp_path):
    program = tmp_path / "octavo"
    program.write_text("#!/bin/sh\necho first >&2\necho 'max_num_seqs is too large' >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(engines.Failed, match="ended with 3: max_num_seqs is too large"):
        engines.Octavo(program, 1, {"one": "192M"}).start("m.gguf", "one")


@pytest.mark.parametrize("wall_s, times", [(1, 3), (scale.RETRY_S + 1, 1)])
def test_a_void_point_is_tried_again_when_it_is_short(monkeypatch, wall_s, times):
    class Meter:
        def __init__(self, pids):
            pass

        def stop(self):
            return {"foreign_cores": 2.0, "wall_s": wall_s}

    monkeypatch.setattr(machine, "ForeignMeter", Meter)
    monkeypatch.setattr(machine, "wait_until_quiet", lambda *_: True)
    args = argparse.Namespace(tries=3, quiet_wait=0, max_foreign=0.1)
    taken = scale.Scale(args)
    taken.take(engines.Octavo("octavo", 1, {}), "context", 128, lambda _: {"decode_ms": 1.0})
    assert [p["void"] for p in taken.points] == [True] * times
