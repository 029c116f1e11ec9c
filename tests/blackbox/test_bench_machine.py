"""`octavo bench roofline` and `octavo bench startup` on a real model, and on dummy weights."""

import json
import re

import pytest
from helpers import ROOT, default_model as model
from test_bench_offline import SMALL, bench

KIT = ROOT / "tests/golden/llama"  # 2 layers, 128 tokens of context


def test_roofline_says_what_binds_each_phase(tmp_path):
    path = tmp_path / "roofline.json"
    done = bench("roofline", "--model", model(), *SMALL, "--input-len", 64, "--output-len", 8,
                 "--num-iters", 2, "--output-json", path)
    assert done.returncode == 0, done.stderr
    result = json.loads(path.read_text())
    memory = result["machine"]["levels"][-1]
    assert memory["name"] == "memory" and memory["one_thread_gb_s"] > 0.1
    assert result["limits"]["read_gb_s"] > 0.1 and result["weight_bytes"] > 1e6
    decode, prefill = result["phases"]["decode"], result["phases"]["prefill"]
    assert prefill["num_steps"] == 2 and prefill["num_tokens"] == 128  # the warm-up is left out
    assert decode["num_steps"] == decode["num_tokens"] == 14  # the prefill made the first token
    for phase in (prefill, decode):
        assert 0 < phase["share_of_limit"] < 3
        assert sum(op["share_of_step"] for op in phase["ops"].values()) <= 1.001
        assert phase["ops"]["rope"]["bound_by"] is None
    assert decode["ops"]["lm_head"]["bound_by"] == "memory"
    assert re.search(r"^decode: 14 steps of 1\.0 tokens; .* % reached$", done.stdout, re.M)
    assert re.search(r"^  memory, \d+ MiB +GB/s +[\d.]+ +[\d.]+$", done.stdout, re.M)


def test_roofline_runs_on_dummy_weights():
    done = bench("roofline", "--model", KIT, "--load-format", "dummy", "--kv-cache-memory-bytes",
                 "4M", "--input-len", 16, "--output-len", 4, "--batch-size", 2)
    assert done.returncode == 0, done.stderr
    # Two at once, unless the second prompt came a step later.
    steps, tokens = re.search(r"^decode: (\d+) steps of ([\d.]+) tokens", done.stdout, re.M).groups()
    assert int(steps) >= 6 and 1 <= float(tokens) <= 2


def test_startup_prints_and_saves_both_kinds(tmp_path):
    path = tmp_path / "startup.json"
    done = bench("startup", "--model", KIT, "--kv-cache-memory-bytes", "4M", "--num-iters-cold", 2,
                 "--num-iters-warm", 3, "--output-json", path)
    assert done.returncode == 0, done.stderr
    result = json.loads(path.read_text())
    assert len(result["cold_startup_times"]) == 2 and len(result["warm_startup_times"]) == 3
    assert result["warm_compilation_times"] == [0, 0, 0]
    assert all(0 < t < 60 for t in result["cold_startup_times"] + result["warm_startup_times"])
    assert list(result["cold_startup_percentiles"]) == ["10", "25", "50", "75", "90", "99"]
    assert re.search(r"^Cold: \d+ files of the model \([\d.]+ MB\) dropped from the page cache; \d+ % "
                     r"stayed in memory\.$", done.stdout, re.M)
    titles = [line for line in done.stdout.splitlines() if line.isupper() or line.startswith("===")]
    assert titles == ["=" * 60, "STARTUP TIME BENCHMARK RESULTS", "=" * 60, "COLD STARTUP:",
                      "WARM STARTUP:", "=" * 60]


@pytest.mark.parametrize("args, status, text", [
    (["roofline", "--batch-size", "0"], 2, "--batch-size must be 1 to"),
    (["roofline", "--input-len", "510"], 2, "max_model_len is 512"),
    (["roofline", "--frobnicate"], 2, "--frobnicate"),
    (["startup", "--num-iters-warm", "0"], 2, "--num-iters-warm must be 1 to"),
    (["startup", "--num-iters-cold", "x"], 2, "--num-iters-cold"),
    (["startup", "--kv-cache-memory-bytes", "1"], 1, "error"),
])
def test_what_cannot_be_measured_is_said(args, status, text):
    done = bench(args[0], "--model", model(), *SMALL, *args[1:])
    assert done.returncode == status and text in done.stderr, done.stderr
    assert "reached" not in done.stdout and "RESULTS" not in done.stdout


def test_startup_without_a_model_is_an_error():
    done = bench("startup", "--model", "/nonexistent")
    assert done.returncode == 1 and "no model at /nonexistent" in done.stderr
