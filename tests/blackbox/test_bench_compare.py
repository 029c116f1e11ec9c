"""`octavo bench compare` on runs against the deterministic stub."""

import json
import re
import subprocess

import pytest
from helpers import binary
from stub_openai import Script, StubServer


def bench(*words, timeout=60):
    return subprocess.run([binary(), "bench", *map(str, words)], capture_output=True, text=True,
                          timeout=timeout, env={"PATH": "/usr/bin:/bin"})


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"question {i}"}) + "\n" for i in range(4)))
    return ["--dataset-name", "custom", "--dataset-path", path, "--skip-chat-template",
            "--skip-tokenizer-init", "--disable-tqdm", "--num-prompts", 4, "--max-concurrency", 4]


@pytest.fixture(scope="module")
def folders(tmp_path_factory, prompts):
    """slow/ and fast/: three runs each; other/: three with another load."""
    root = tmp_path_factory.mktemp("runs")
    for name, ttft, more in [("slow", 0.25, []), ("fast", 0.03, []),
                             ("other", 0.03, ["--temperature", 0])]:
        with StubServer(Script(ttft=ttft, itl=0.002, chunks=3)) as stub:
            for i in range(3):
                done = bench("serve", "--base-url", stub.url, *prompts, *more, "--save-result",
                             "--result-dir", root / name, "--result-filename", f"{i}.json")
                assert done.returncode == 0, done.stderr
    return root


def verdict(comparison, metric):
    return next(m for m in comparison["metrics"] if m["metric"] == metric)["against_A"]["B"]


def test_three_runs_each(folders, tmp_path):
    done = bench("compare", folders / "slow", folders / "fast", "--json", tmp_path / "c.json",
                 "--html", tmp_path / "c.html")
    assert done.returncode == 0, done.stderr
    comparison = json.loads((tmp_path / "c.json").read_text())
    assert comparison["is_compared"] and comparison["undeclared"] == []
    assert verdict(comparison, "median_ttft_ms")["verdict"] == "better"
    assert verdict(comparison, "request_throughput")["verdict"] == "better"
    assert 0.1 < verdict(comparison, "median_ttft_ms")["ratio"] < 0.7
    assert re.search(r"^\| Median TTFT, ms \| .* \| better \|$", done.stdout, re.M)
    page = (tmp_path / "c.html").read_text()
    assert page.count("<svg ") == page.count("</svg>") > 5
    assert not re.search(r"<script|https?://|src=|@import|url\(", page)
    back = bench("compare", folders / "fast", folders / "slow")
    assert re.search(r"^\| Median TTFT, ms \| .* \| worse \|$", back.stdout, re.M)
    again = bench("compare", folders / "slow", folders / "fast")
    assert again.stdout == done.stdout


def test_one_run_each(folders):
    done = bench("compare", folders / "slow/0.json", folders / "fast/0.json")
    assert done.returncode == 0
    rows = [line for line in done.stdout.splitlines() if re.match(r"\| (Mean|Median|P99|Req)", line)]
    assert rows and all("not distinguishable (one run each)" in row for row in rows)


def test_another_load_is_refused_unless_declared(folders):
    done = bench("compare", folders / "slow", folders / "other")
    assert done.returncode == 1
    assert "| load.extra\\_body.temperature | (none) | 0.0 |" in done.stdout
    assert "not declared with --variable: 1" in done.stderr and "better" not in done.stdout
    done = bench("compare", folders / "slow", folders / "other", "--variable", "temperature")
    assert done.returncode == 0 and "## Declared" in done.stdout


def test_a_run_without_a_record_is_refused(folders, tmp_path):
    bare = tmp_path / "bare.json"
    bare.write_text((folders / "slow/0.json").read_text())
    done = bench("compare", bare, folders / "fast")
    assert done.returncode == 1 and "no record of the run" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    (tmp_path / "bare.record.json").write_text('{"format": "octavo-run-record/1", "x": NaN}')
    done = bench("compare", bare, folders / "fast")
    assert done.returncode == 1 and "bare.record.json" in done.stderr and "'x'" in done.stderr


@pytest.mark.parametrize("words, what", [
    ([], "two sides"),
    (["a"], "two sides"),
    (["a", "b", "--min-effect", "200"], "--min-effect"),
    (["a", "b", "--seed", "-1"], "--seed"),
    (["a", "b", "--nope"], "--nope"),
])
def test_usage_errors(words, what):
    done = bench("compare", *words)
    assert done.returncode == 2 and what in done.stderr and len(done.stderr.splitlines()) == 2


def test_help_and_missing_files():
    assert "--variable" in bench("compare", "--help").stdout
    done = bench("compare", "/nowhere/a.json", "/nowhere/b.json")
    assert done.returncode == 1 and "no such file" in done.stderr
