"""`octavo bench latency` and `octavo bench throughput`: the engine in the bench's own process."""

import json
import re
import statistics
import subprocess

import pytest
from helpers import binary, default_model as model

SMALL = ["--kv-cache-memory-bytes", "64M", "--max-model-len", "512"]


def bench(*args):
    return subprocess.run([binary(), "bench", *map(str, args)], capture_output=True, text=True,
                          timeout=100)


def test_latency_prints_and_saves_the_same_figures(tmp_path):
    path = tmp_path / "latency.json"
    done = bench("latency", "--model", model(), *SMALL, "--input-len", 8, "--output-len", 4,
                 "--batch-size", 2, "--num-iters-warmup", 1, "--num-iters", 5, "--output-json", path)
    assert done.returncode == 0, done.stderr
    result = json.loads(path.read_text())
    assert list(result) == ["model_id", "avg_latency", "latencies", "percentiles"]
    assert result["model_id"] == str(model()) and len(result["latencies"]) == 5
    assert all(value > 0 for value in result["latencies"])
    assert result["avg_latency"] == pytest.approx(statistics.mean(result["latencies"]))
    assert result["percentiles"]["50"] == pytest.approx(statistics.median(result["latencies"]))
    lines = done.stdout.splitlines()
    assert float(re.fullmatch(r"Avg latency: (\S+) seconds", lines[0])[1]) == result["avg_latency"]
    assert [line.split("%")[0] for line in lines[1:]] == ["10", "25", "50", "75", "90", "99"]
    assert path.read_text().startswith('{\n    "model_id"')


def test_throughput_counts_what_it_asked_for(tmp_path):
    path = tmp_path / "throughput.json"
    done = bench("throughput", model(), *SMALL, "--num-prompts", 3, "--num-warmups", 1,
                 "--random-input-len", 16, "--random-output-len", 5, "--n", 2, "--output-json", path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "When dataset path is not set, it will default to random dataset"
    rates = re.fullmatch(r"Throughput: (\S+) requests/s, (\S+) total tokens/s, (\S+) output tokens/s",
                         lines[1])
    assert lines[2] == "Total num prompt tokens:  48"
    assert lines[3] == "Total num output tokens:  30"
    result = json.loads(path.read_text())
    assert list(result) == ["model_id", "elapsed_time", "num_requests", "total_num_tokens",
                            "requests_per_second", "tokens_per_second"]
    assert result["num_requests"] == 3 and result["total_num_tokens"] == 78
    assert result["requests_per_second"] == pytest.approx(3 / result["elapsed_time"])
    assert float(rates[3]) == pytest.approx(30 / result["elapsed_time"], rel=0.01, abs=0.01)


def test_throughput_reads_prompts_from_files(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text(json.dumps({"prompt": "hello there"}) + "\n")
    counts = {}
    for backend in ("vllm", "vllm-chat"):
        done = bench("throughput", model(), *SMALL, "--num-prompts", 2, "--backend", backend,
                     "--dataset-name", "custom", "--dataset-path", path, "--output-len", 4,
                     "--skip-chat-template", "--disable-detokenize", "--prequeue-requests")
        assert done.returncode == 0, done.stderr
        counts[backend] = int(re.search(r"Total num prompt tokens:  (\d+)", done.stdout)[1])
        assert "Total num output tokens:  8\n" in done.stdout
    assert 0 < counts["vllm"] < counts["vllm-chat"]  # the template adds its own


def test_an_async_run_counts_what_was_asked_for():
    done = bench("throughput", model(), *SMALL, "--num-prompts", 2, "--random-input-len", 8,
                 "--random-output-len", 3, "--n", 2, "--async-engine")
    assert done.returncode == 0, done.stderr
    assert "Total num output tokens:  6\n" in done.stdout  # of each prompt once


@pytest.mark.parametrize("args, status, text", [
    (["latency", "--frobnicate", "3"], 2, "--frobnicate"),
    (["latency", "--use-beam-search"], 2, "octavo has no beam search"),
    (["latency", "--profile"], 2, "bench roofline"),
    (["latency", "--batch-size", "0"], 2, "--batch-size must be 1 to"),
    (["latency", "--input-len", "510"], 2, "max_model_len is 512"),
    (["throughput", "--random-input-len", "600", "--num-prompts", "1"], 1, "max_model_len is 512"),
    (["throughput", "--num-prompts", "0"], 2, "--num-prompts"),
    (["throughput", "--lora-path", "x"], 2, "no LoRA"),
    (["throughput", "--backend", "hf"], 2, "another engine"),
    (["throughput", "--backend", "x"], 2, "vllm, vllm-chat"),
    (["throughput", "--dataset-name", "random-mm"], 2, "images"),
    (["throughput", "--dataset-name", "random-rerank"], 2, "invalid choice"),
    (["throughput", "--async-engine", "--prequeue-requests"], 2, "not supported with"),
    (["throughput", "--hf-max-batch-size", "3"], 2, "--backend hf"),
    (["throughput", "--nonsense"], 2, "octavo bench throughput: error: unrecognized arguments: "
                                      "--nonsense"),
    (["latency", "--block-size", "x"], 2, "octavo bench latency: error: argument --block-size"),
])
def test_what_cannot_be_measured_is_said(args, status, text):
    done = bench(args[0], "--model", model(), *SMALL, *args[1:])
    assert done.returncode == status and text in done.stderr, done.stderr
    assert "Throughput" not in done.stdout and "latency:" not in done.stdout


@pytest.mark.parametrize("command", ["latency", "throughput", "startup", "roofline"])
def test_help_of_the_engines_flags_measures_nothing(command):
    done = bench(command, "--help=ModelConfig")
    assert done.returncode == 0 and "--max-model-len" in done.stdout, done.stderr
    assert "Throughput" not in done.stdout and "latency:" not in done.stdout


def test_a_result_that_cannot_be_written_is_a_failure(tmp_path):
    done = bench("latency", model(), *SMALL, "--num-iters", 1, "--num-iters-warmup", 0, "--output-len",
                 1, "--output-json", tmp_path / "none" / "x.json")
    assert done.returncode == 1 and "cannot write" in done.stderr
