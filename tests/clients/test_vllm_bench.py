"""vLLM's own `vllm bench serve` and ours, on the same scripted stub and the same octavo server: equal
counts, figures within 2 %, the same keys in the result, the same labels in the block."""

import json
import os
import re
import subprocess

import pytest
from helpers import binary
from stub_openai import Script, StubServer

# What lies in ours alone: the record of conditions, and the client's own cost.
OURS = {"octavo", "record"}
COUNTS = ("completed", "failed", "total_input_tokens", "total_output_tokens", "num_prompts")
TIMES = ("mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "mean_itl_ms",
         "median_itl_ms", "duration", "request_throughput", "output_throughput")


def run(command, url, tokenizer, folder, *flags):
    done = subprocess.run(
        [*command, "bench", "serve", "--backend", "openai", "--base-url", url, "--endpoint",
         "/v1/completions", "--tokenizer", tokenizer, "--dataset-name", "random", "--ignore-eos",
         "--seed", "3", "--disable-tqdm", "--save-result", "--result-dir", str(folder),
         "--result-filename", "r.json", *map(str, flags)],
        capture_output=True, text=True, timeout=300, cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, json.loads((folder / "r.json").read_text())


def labels(block):
    inside = block[block.index("Serving Benchmark Result"):]
    return [label for label in re.findall(r"^([A-Z0-9][^:\n]+):\s+\S+ *$", inside, re.M)
            if not label.startswith("Client CPU")]


@pytest.fixture
def both(vllm, tokenizer, tmp_path):
    def run_both(url, *flags):
        results = []
        for name, command in (("vllm", [vllm]), ("octavo", [binary()])):
            folder = tmp_path / name
            folder.mkdir()
            results.append(run(command, url, tokenizer, folder, *flags))
        return results

    return run_both


def test_the_same_on_a_scripted_stub(both):
    script = Script(ttft=0.25, itl=0.04, chunks=16, prompt_tokens=32)
    with StubServer(script) as stub:
        (their_block, theirs), (our_block, ours) = both(
            stub.url, "--model", "stub-model", "--random-input-len", 32, "--random-output-len", 16,
            "--num-prompts", 24, "--max-concurrency", 4, "--percentile-metrics", "ttft,tpot,itl,e2el")
        sent = [post["body"] for post in stub.posts("/v1/completions")]
    for key in COUNTS:
        assert ours[key] == theirs[key], key
    for key in TIMES:
        assert ours[key] == pytest.approx(theirs[key], rel=0.02), key
    assert set(ours) - OURS == set(theirs), set(ours) ^ set(theirs)
    assert labels(our_block) == labels(their_block)
    # Prompts and parameters too: the first half of the requests is theirs.
    half = len(sent) // 2
    assert sorted(body["prompt"] for body in sent[:half]) == sorted(
        body["prompt"] for body in sent[half:])
    for theirs_body, ours_body in zip(sent[:half], sent[half:], strict=True):
        assert {k: v for k, v in theirs_body.items() if k != "prompt"} == {
            k: v for k, v in ours_body.items() if k != "prompt"}


def test_the_same_counts_on_octavo(both, octavo):
    (_, theirs), (_, ours) = both(
        f"http://127.0.0.1:{octavo.port}", "--model",
        octavo.get("/v1/models").json["data"][0]["id"], "--random-input-len", 64,
        "--random-output-len", 32, "--num-prompts", 16, "--max-concurrency", 2)
    for key in COUNTS:
        assert ours[key] == theirs[key], key
