"""`octavo bench repeat`: two servers in alternation, against deterministic stubs."""

import json
import re
import subprocess

import pytest
from helpers import binary
from stub_openai import Script, StubServer


def repeat(*words, timeout=60):
    return subprocess.run([binary(), "bench", "repeat", *map(str, words)], capture_output=True,
                          text=True, timeout=timeout, env={"PATH": "/usr/bin:/bin"})


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"question {i}"}) + "\n" for i in range(8)))
    return ["--dataset-name", "custom", "--dataset-path", path, "--skip-chat-template",
            "--skip-tokenizer-init", "--disable-tqdm", "--num-prompts", 4, "--max-concurrency", 4]


def verdicts(folder):
    comparison = json.loads((folder / "report.json").read_text())
    return {m["metric"]: m["against_A"]["B"]["verdict"] for m in comparison["metrics"]}


def records(folder, side):
    return [json.loads(path.read_text()) for path in sorted((folder / side).glob("*.record.json"))]


def test_a_slower_server_is_worse_and_a_faster_one_better(tmp_path, prompts):
    quick = Script(ttft=0.02, itl=0.002, chunks=3)
    slow = Script(ttft=0.15, itl=0.04, chunks=3)
    for name, a, b, expected in [("x", quick, slow, "worse"), ("y", slow, quick, "better")]:
        with StubServer(a) as stub_a, StubServer(b) as stub_b:
            done = repeat("--base-url", stub_a.url, "--against", stub_b.url, *prompts,
                          "-n", 7, "--result-dir", tmp_path / name)  # one may be disturbed
        assert done.returncode == 0, done.stderr
        found = verdicts(tmp_path / name)
        for metric in ("median_ttft_ms", "median_tpot_ms", "median_itl_ms", "request_throughput"):
            assert found[metric] == expected, (metric, found)


def test_equal_servers_are_not_distinguishable(tmp_path, prompts):
    script = Script(ttft=0.06, itl=0.01, chunks=4)
    with StubServer(script) as stub_a, StubServer(script) as stub_b:
        done = repeat("--base-url", stub_a.url, "--against", stub_b.url, *prompts,
                      "--result-dir", tmp_path, "--min-effect", 25)
    assert done.returncode == 0, done.stderr
    assert set(verdicts(tmp_path).values()) == {"not distinguishable"}


def test_runs_alternate_are_saved_and_shown(tmp_path, prompts):
    with StubServer(Script(ttft=0.005, itl=0, chunks=2)) as stub_a, \
            StubServer(Script(ttft=0.005, itl=0, chunks=2, models=("other",))) as stub_b:
        done = repeat("--base-url", stub_a.url, "--against", stub_b.url, *prompts, "-n", 2,
                      "--result-dir", tmp_path)
        posts = [len(stub.posts("/v1/completions")) for stub in (stub_a, stub_b)]
    assert done.returncode == 0, done.stderr
    assert posts == [12, 12]  # a warm-up round and two measured ones
    lines = re.findall(r"^(warm-up-\d+|round-\d+), (A|B): ", done.stdout, re.M)
    assert lines == [("warm-up-1", "B"), ("warm-up-1", "A"), ("round-001", "A"),
                     ("round-001", "B"), ("round-002", "B"), ("round-002", "A")]
    a, b = records(tmp_path, "a"), records(tmp_path, "b")
    assert [r["session"]["round"] for r in a] == [r["session"]["round"] for r in b] == [1, 2]
    assert [r["session"]["place"] for r in a] == [1, 2]
    assert {r["session"]["side"] for r in b} == {"B"}
    assert len({r["session"]["id"] for r in a + b}) == 1
    hashes = [[r["dataset"]["prompts_sha256"] for r in side] for side in (a, b)]
    assert hashes[0] == hashes[1] and hashes[0][0] != hashes[0][1]  # each round its own prompts
    assert "Serving Benchmark Result" in (tmp_path / "a" / "round-001.txt").read_text()
    assert done.stdout.endswith((tmp_path / "report.md").read_text())
    assert "| server.served\\_names.0 | \"stub-model\" | \"other\" |" in done.stdout  # listed
    assert "<svg" in (tmp_path / "report.html").read_text()
    again = subprocess.run([binary(), "bench", "compare", tmp_path / "a", tmp_path / "b",
                            "--variable", "server"], capture_output=True, text=True, timeout=30)
    assert again.returncode == 0 and again.stdout == (tmp_path / "report.md").read_text()


def test_failures_are_shown(tmp_path, prompts):
    with StubServer(Script(ttft=0, itl=0, chunks=2)) as stub_a, \
            StubServer(Script(ttft=0, itl=0, chunks=2, fail_every=2)) as stub_b:
        done = repeat("--base-url", stub_a.url, "--against", stub_b.url, *prompts, "-n", 3,
                      "--warm-up-rounds", 0, "--same-seed", "--result-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "B: 6 of 12 requests failed" in done.stdout
    assert re.search(r"^\| Requests/s \|.*\(requests failed\) \|$", done.stdout, re.M)
    hashes = {r["dataset"]["prompts_sha256"] for r in records(tmp_path, "a") + records(tmp_path, "b")}
    assert len(hashes) == 1


def test_what_cannot_be_done(tmp_path, prompts):
    for words, what in [([], "--against"), (["--against", "nonsense"], "http://"),
                        (["--against", "http://h", "-n", 0], "--rounds"),
                        (["--against", "http://h", "--result-filename", "x"], "--result-filename"),
                        (["--against", "http://h", "--request-rate", 0], "--request-rate")]:
        done = repeat(*words)
        assert done.returncode == 2 and what in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 2
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "old.json").write_text("{}")
    done = repeat("--against", "http://127.0.0.1:1", *prompts, "--result-dir", tmp_path)
    assert done.returncode == 1 and "not empty" in done.stderr
    with StubServer(Script(ttft=0, itl=0, chunks=1)) as stub:
        done = repeat("--base-url", stub.url, "--against", "http://127.0.0.1:1", *prompts,
                      "--result-dir", tmp_path / "dead", "--warm-up-rounds", 0)
    assert done.returncode == 1 and "round-001, B" in done.stderr
    assert "the runs so far are in" in done.stderr
    assert "-n, --rounds" in repeat("--help").stdout
