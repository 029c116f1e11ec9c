"""Public reports, section K: what a load generator counts and what it times."""

import json
import subprocess

import pytest
from helpers import binary
from stub_openai import Script, StubServer


def bench(stub, tmp_path, *flags):
    """The printed text and the detailed result of one run."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"question {i}"}) + "\n" for i in range(8)))
    words = ["--base-url", stub.url, "--dataset-name", "custom", "--dataset-path", prompts,
             "--skip-chat-template", "--skip-tokenizer-init", "--disable-tqdm", "--save-result",
             "--save-detailed", "--result-dir", tmp_path, "--result-filename", "r.json", *flags]
    done = subprocess.run([binary(), "bench", "serve", *map(str, words)], capture_output=True,
                          text=True, timeout=60, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, json.loads((tmp_path / "r.json").read_text())


@pytest.mark.parametrize("tokens_per_chunk", [1, 2, 8])
def test_bl_112_several_tokens_in_one_chunk(tmp_path, tokens_per_chunk):
    chunks, num_prompts = 4, 6
    num_tokens = chunks * tokens_per_chunk
    script = Script(ttft=0.05, itl=0.02, chunks=chunks, tokens_per_chunk=tokens_per_chunk)
    with StubServer(script) as stub:
        _, result = bench(stub, tmp_path, "--num-prompts", num_prompts, "--max-concurrency", 3,
                          "--percentile-metrics", "ttft,tpot,itl,e2el")
    assert result["output_lens"] == [num_tokens] * num_prompts, "the server's usage"
    assert result["total_output_tokens"] == num_tokens * num_prompts
    tpots = []
    for ttft, itls, latency in zip(result["ttfts"], result["itls"], result["latencies"]):
        assert len(itls) == chunks - 1, "one gap between two chunks, whatever they carry"
        assert 0 < ttft <= latency
        assert ttft + sum(itls) == pytest.approx(latency, abs=1e-6)
        tpots.append((latency - ttft) / (num_tokens - 1))
    assert result["mean_tpot_ms"] == pytest.approx(1000 * sum(tpots) / num_prompts, rel=1e-6)
    assert result["mean_tpot_ms"] <= result["mean_itl_ms"] + 1e-9
    assert result["mean_ttft_ms"] <= result["mean_e2el_ms"] <= 1000 * result["duration"]


def test_bl_113_refused_requests_are_counted_apart(tmp_path):
    with StubServer(Script(ttft=0.1, itl=0.001, chunks=2, fail_every=3)) as stub:
        text, result = bench(stub, tmp_path, "--num-prompts", 9, "--max-concurrency", 1,
                             "--metric-percentiles", "1,99")
    assert (result["completed"], result["failed"]) == (6, 3)
    assert "Failed requests:" in text
    assert result["output_lens"].count(0) == 3
    assert sum(1 for error in result["errors"] if error) == 3
    # A refused request is answered at once: it would show at the low end.
    assert result["p1_ttft_ms"] >= 100
    assert result["request_throughput"] == pytest.approx(6 / result["duration"])
