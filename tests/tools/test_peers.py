"""bench/peers.py without a peer: statistics, limits, parsing, table and picture, and the client and
the runner against a small server of our own."""
import http.server
import json
import pathlib
import signal
import struct
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import peers  # noqa: E402
from measure import client, engines, gguf, limits, machine, report, stats, svg, works  # noqa: E402


def test_percentile_and_spread():
    assert stats.percentile([3, 1, 2], 50) == 2 and stats.percentile([], 50) is None
    assert stats.percentile(list(range(101)), 99) == 99
    assert stats.spread([]) is None
    assert stats.spread([4, 1, 3]) == {"median": 3, "min": 1, "max": 4, "n": 3}


def test_paired_bootstrap_cancels_what_moves_both():
    theirs = [100, 200, 50, 120, 80, 160, 90]
    ours = [2 * x for x in theirs]
    ratio, low, high = stats.bootstrap_ratio(ours, theirs)
    assert (ratio, low, high) == (2, 2, 2)
    _, low, high = stats.bootstrap_ratio(ours, theirs, paired=False)
    assert low < 1.8 and high > 2.2
    assert stats.bootstrap_ratio([3], [2]) == (1.5, 1.5, 1.5)
    assert stats.bootstrap_ratio([], [2]) is None
    assert stats.bootstrap_ratio(ours, theirs, seed=5) == stats.bootstrap_ratio(ours, theirs, seed=5)


SHAPE = {"hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "ffn": 96}


def write_base(path, vocab=7):
    text = lambda s: struct.pack("<Q", len(s)) + s.encode()  # noqa: E731
    tokens = b"".join(text(f"t{i}") for i in range(vocab))
    keys = [("general.architecture", struct.pack("<I", 8) + text("llama")),
            ("llama.rope.freq_base", struct.pack("<If", 6, 1e5)),
            ("llama.attention.key_length", struct.pack("<II", 4, 999)),
            ("tokenizer.ggml.tokens", struct.pack("<IIQ", 9, 8, vocab) + tokens)]
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) +
                     b"".join(text(k) + v for k, v in keys))


def test_dummy_gguf_reads_back(tmp_path):
    base, dummy = tmp_path / "base.gguf", tmp_path / "dummy.gguf"
    write_base(base)
    gguf.write_dummy(dummy, base, SHAPE, context=512)
    values, _, tensors = gguf.read_header(dummy)
    assert values["llama.block_count"] == 2 and values["llama.context_length"] == 512
    assert values["tokenizer.ggml.tokens"] == 7 and "llama.attention.key_length" not in values
    sizes = {name: size for name, _, _, size in tensors}
    assert len(tensors) == 3 + 9 * 2
    assert sizes["blk.1.ffn_down.weight"] == 96 * 64 // 32 * 18
    padded = sum(-(-size // 32) * 32 for size in sizes.values())
    assert 0 < dummy.stat().st_size - padded < 4096  # the header
    facts = limits.facts_of(dummy)
    linear = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96)
    assert (facts.linear, facts.head, facts.int8, facts.head_dim) == (linear, 7 * 64, True, 16)
    with pytest.raises(ValueError, match="is no GGUF"):
        (tmp_path / "other").write_bytes(b"PK\3\4" + bytes(64))
        gguf.read_header(tmp_path / "other")
    assert limits.facts_of(tmp_path / "none.gguf") is None


# SmolLM2-135M in bf16: 213 MFLOP a token without the head and attention.
SMOLLM2 = limits.ModelFacts(268_959_744, 106_168_320, 28_311_552, 30, 9, 3, 64, False)
ROOFS = {"read_gb_s": {"256": 40.5, "90": 60.0}, "f32_gflop_s": 360, "bf16_gflop_s": 989,
         "int8_gop_s": 1900, "isa": "avx512", "n": 1}


def test_limits_follow_the_arithmetic():
    assert SMOLLM2.kv_bytes_per_token == 23_040
    assert SMOLLM2.prefill_flop(512) == pytest.approx(230e6, rel=0.01)
    limit = lambda work: limits.limit_of(work, SMOLLM2, ROOFS)  # noqa: E731
    assert limit(works.decode()) == pytest.approx(148, rel=0.01)
    assert limit(works.prefill(512)) == pytest.approx(4300, rel=0.01)
    assert limit(works.prefill(2048)) == pytest.approx(3495, rel=0.01)
    assert limit(works.burst(64)) == pytest.approx(1980, rel=0.05)
    # Arithmetic alone allows 10.6; from 26 sequences on, weights and KV bytes take longer.
    assert limit(works.serve(32)) == pytest.approx(9.34, rel=0.01)
    # A file that a cache holds is read faster, but not beside the KV of a long context.
    small = limits.ModelFacts(85 << 20, 106_168_320, 28_311_552, 30, 9, 3, 64, True)
    short, long = (works.Work("", "", "load", (), 1, n, 32, limit="decode") for n in (128, 8192))
    assert limits.limit_of(short, small, ROOFS) == pytest.approx(60e9 / 92.4e6, rel=0.01)
    assert limits.limit_of(long, small, ROOFS) == pytest.approx(40.5e9 / 278.3e6, rel=0.01)
    assert limit(works.SINGLE["start"]) is None
    assert limits.limit_of(works.decode(), SMOLLM2, None) is None
    assert limits.limit_of(works.decode(), None, ROOFS) is None


def test_works_are_selected_by_name_and_size():
    assert [w.key for w in works.parse("burst-16, decode,prefill,decode,peak,start")] == [
        "start", "decode", "prefill-512", "prefill-2048", "peak", "burst-16"]
    assert len(works.parse(works.DEFAULT)) == 11
    for bad in ("", "decode,fly", "burst-0", "decode-3", "burst-x"):
        with pytest.raises(ValueError):
            works.parse(bad)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\nexit 3\n")
    path.chmod(0o755)
    return path


def test_arguments(program, tmp_path, capsys):
    model = tmp_path / "m.gguf"
    model.write_bytes(b"x")
    fine = ["--octavo", str(program), "--model", f"q4={model}"]
    args = peers.parse_arguments([*fine, "--peer", f"a=llama-bench:{program}@q4", "--peer",
                                  "v=url:http://127.0.0.1:8000"])
    assert args.peer == [("a", "llama-bench", str(program), ["q4"]),
                         ("v", "url", "http://127.0.0.1:8000", None)]
    for bad, said in (
            (["--peer", "nothing"], "is not NAME=KIND:TARGET"),
            (["--peer", f"a=torch:{program}"], "is no kind of peer"),
            (["--peer", "a=llama-server:/does/not/exist"], "cannot be run"),
            (["--peer", "a=url:http://example.com"], "is no http URL of this machine"),
            (["--peer", f"octavo=llama-bench:{program}"], "cannot be called"),
            (["--peer", f"a=llama-bench:{program}@q9"], "there is no model q9"),
            (["--peer", f"a=llama-bench:{program}", "--peer", f"a=ik-bench:{program}"], "same name"),
            (["--model", "q5=/does/not/exist"], "does not exist"),
            (["--model", str(model)], "is not LABEL=PATH"),
            (["--works", "fly"], "fly is no work"),
            (["--rounds", "0"], "is not between"),
            (["--octavo", "/does/not/exist"], "cannot be run")):
        with pytest.raises(SystemExit) as stopped:
            peers.parse_arguments([*fine, *bad])
        assert stopped.value.code == 2 and said in capsys.readouterr().err


def a_run():
    samples = []
    for round_index, (ours, theirs) in enumerate(((100, 50), (120, 60), (110, 0))):
        for engine, value in (("octavo", ours), ("<peer> & co", theirs)):
            samples.append({"model": "bf16", "work": "decode", "engine": engine,
                            "round": round_index, "void": value == 0, "foreign_cores": 0.02,
                            "wall_s": 1, "figures": {"decode_tok_s": value}})
            samples.append({"model": "bf16", "work": "start", "engine": engine,
                            "round": round_index, "void": False, "foreign_cores": 0.01,
                            "wall_s": 1, "figures": {"first_completion_s": value / 100 + 0.1}})
    return {"machine": machine.describe(), "threads": 2, "rounds": 3, "max_foreign": 0.1,
            "engines": ["octavo", "<peer> & co"], "models": {"bf16": "m.gguf"}, "versions": {"octavo": "1.2"},
            "roofs": ROOFS,
            "notes": ["something"], "commands": ["run this"], "samples": samples}


def test_table_and_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "facts_of", lambda path: SMOLLM2)
    run = a_run()
    table = report.summarise(run, works.parse("decode,start"), {"bf16": "anywhere"})
    decode = next(e for e in table if e["work"] == "decode")
    assert decode["ratio"] == (2, 2, 2) and decode["engines"]["<peer> & co"]["n"] == 2
    start = next(e for e in table if e["work"] == "start")
    assert start["ratio"][0] == pytest.approx(0.6 / 1.2)  # slower is below 1
    report.write(run, table, tmp_path / "o.json", tmp_path / "o.md", tmp_path / "o.svg")
    text = (tmp_path / "o.md").read_text()
    assert "| bf16 | decode, 1 stream, 128 + 128 | tok/s | 148 | 110 (100–120, 3) | 55.0" in text
    assert "2.00 (2.00–2.00) <peer> & co" in text and "1 void" in text and "- Missing: some" in text
    assert json.loads((tmp_path / "o.json").read_text())["table"][0]["model"] == "bf16"
    tree = xml.etree.ElementTree.fromstring((tmp_path / "o.svg").read_text())
    said = [e.text for e in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert "<peer> & co" in said and "74 %" in said


def test_a_cell_of_void_samples_says_so():
    run = a_run()
    for sample in run["samples"]:
        sample["void"] = sample["engine"] != "octavo"
    table = report.summarise(run, works.parse("decode"), {"bf16": "none"})
    assert table[0]["ratio"] is None and table[0]["void"] == ["<peer> & co"]
    assert "| void | – | – |" in report.markdown(run, table)


def test_curves_are_well_formed():
    drawn = svg.curves("a < b", "c", "x", "y", {"one": [(1, 5.0), (1024, 0.01)], "two": [(3, 0)]})
    tree = xml.etree.ElementTree.fromstring(drawn)
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}circle"))) == 2
    xml.etree.ElementTree.fromstring(svg.curves("nothing", "", "x", "y", {}))
    assert svg.ticks(1, 1024)[-1] == 1024 and svg.ticks(3, 3) == [2, 4]
    assert (svg.short(32768), svg.short(2000), svg.short(0.5)) == ("32.8k", "2k", "0.5")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fail = False

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.answer(b'{"data":[{"id":"tiny"}]}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.fail:
            return self.answer(b'{"error":"no"}', 500)
        assert body["model"] == "tiny" and body["ignore_eos"]
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for _ in range(body["max_tokens"]):
            time.sleep(0.001)
            self.event({"choices": [{"text": "x"}]})
        self.event({"choices": [], "usage": {"completion_tokens": body["max_tokens"]}})
        self.chunk(b"data: [DO")  # an event may be cut anywhere
        self.chunk(b"NE]\n\n")
        self.chunk(b"")

    def event(self, data):
        self.chunk(b"data: " + json.dumps(data).encode() + b"\n\n")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def answer(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def url():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    Handler.fail = False


def test_measures_a_running_server(url):
    engine = engines.UrlServer("here", None, url)
    assert engine.model == "tiny" and engine.owner is not None
    assert not engine.takes("m", "p", works.SINGLE["start"])
    assert engine.measure(works.decode(), "", "1")["decode_tok_s"] > 1
    load = engine.measure(works.burst(4), "", "1")
    assert load["out_tok_s"] > 4 and load["ttft_p50_ms"] > 0 and load["itl_p50_ms"] >= 0
    assert engine.measure(works.prefix(2), "", "1")["req_s"] > 0
    assert engine.measure(works.SINGLE["memory"], "", "1")["idle_mib"] > 1
    Handler.fail = True
    with pytest.raises(engines.Failed, match="status 500"):
        engine.measure(works.prefill(8), "", "1")


def test_prompts_differ_and_share_their_prefix():
    one, two = client.random_prompts(2, 8, "seed", prefix=4)
    assert one[:4] == two[:4] and one[4:] != two[4:] and len(one) == 12
    assert client.random_prompts(1, 8, "other")[0] != one[4:]


def test_a_server_that_ends_or_is_no_server(program):
    engine = engines.Octavo(program, 2, {"one": "1M", "many": "1M"})
    with pytest.raises(engines.Failed, match="ended with 3"):
        engine.start("model", "one")
    with pytest.raises(engines.Failed, match="v1/models"):
        engines.UrlServer("gone", None, f"http://127.0.0.1:{engines.free_port()}")
    bench = engines.LlamaBench("bench", None, program, 2, True)
    with pytest.raises(engines.Failed, match="ended with 3"):
        bench.measure(works.decode(), program, "1")


def test_reads_what_a_bench_program_prints(tmp_path):
    path = tmp_path / "bench"
    path.write_text('#!/bin/sh\necho \'[{"avg_ts": 5, "samples_ts": [3, 9, 4]}]\'\n')
    path.chmod(0o755)
    bench = engines.LlamaBench("ik", None, path, 2, True)
    assert bench.measure(works.decode(), path, "1") == {"decode_tok_s": 4}
    assert str(tmp_path) not in bench.commands[0]
    assert "-gp 128,128" in bench.commands[0] and "-rtr 1" in bench.commands[0]
    assert bench.measure(works.prefill(512), path, "1") == {"prefill_tok_s": 4}
    assert not bench.takes("m", path, works.burst(4)) and not bench.takes("m", tmp_path, works.decode())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_stopped_writes_what_it_has(url, program, tmp_path, number):
    out = tmp_path / "o.json"
    with subprocess.Popen(
            [sys.executable, BENCH / "peers.py", "--octavo", program, "--bench-kernels", program,
             "--peer", f"here=url:{url}", "--works", "decode", "--rounds", "1000", "--quiet-wait",
             "0", "--max-foreign", "9", "--json", out, "--model", f"m={tmp_path}"],
            stdout=subprocess.PIPE, text=True,
            # As in the background of a shell without job control.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) as run:
        while "here decode" not in run.stdout.readline():
            assert run.poll() is None
        run.send_signal(number)
        run.communicate(timeout=60)
    record = json.loads(out.read_text())
    assert run.returncode == 0 and record["samples"][0]["engine"] == "here"
    assert any(note.startswith("stopped in round") for note in record["notes"])


def test_foreign_cores_leave_out_our_own_work():
    meter = machine.ForeignMeter([])
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass
    load = meter.stop()
    assert load["foreign_cores"] <= machine.busy_seconds() and load["wall_s"] >= 0.3
