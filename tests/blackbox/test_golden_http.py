"""The golden kits as a client sees them: texts, ids, logprobs and perplexity over HTTP.

The engine-level comparison (every variant, the rms rule) is tests/golden/engine_golden_test.cc; here
the same references must come out of the wire: tokenizer, template, sampling, prompt_logprobs, JSON.
"""

import json
import math
import os
from pathlib import Path

import pytest
from helpers import ROOT, Server, parallel

GOLDEN = ROOT / "tests/golden"
TOLERANCE = {"float32": 2 * 2e-4, "bfloat16": 2 * 0.16}  # of one logprob (tests/golden/README.md)
VARIANTS = {
    "plain": ("--kv-cache-memory-bytes", "32M"),
    "no-cache": ("--kv-cache-memory-bytes", "32M", "--no-enable-prefix-caching"),
    "chunks-of-16": ("--kv-cache-memory-bytes", "32M", "--max-num-batched-tokens", "16",
                     "--max-num-seqs", "16"),
}


def kit(name):
    return json.loads((GOLDEN / name / "expected.json").read_text())


def ask(server, prompt, steps, **extra):
    """(text, ids, logprobs, prompt logprobs by position) of one greedy continuation."""
    body = dict(max_tokens=steps, temperature=0, ignore_eos=True, return_token_ids=True, **extra)
    if "messages" in prompt:
        answer = server.post("/v1/chat/completions",
                             {"messages": prompt["messages"], "logprobs": True, **body})
        assert answer.status == 200, answer.text
        choice = answer.json["choices"][0]
        logprobs = [entry["logprob"] for entry in choice["logprobs"]["content"]]
        return choice["message"]["content"], choice["token_ids"], logprobs, answer.json
    answer = server.post("/v1/completions", {"prompt": prompt["text"], "logprobs": 1, **body})
    assert answer.status == 200, answer.text
    choice = answer.json["choices"][0]
    return choice["text"], choice["token_ids"], choice["logprobs"]["token_logprobs"], answer.json


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["llama", "llama-rope-scaled", "qwen2", "qwen3"])
def test_kit_in_float32(name, variant):
    expected = kit(name)
    server = Server(*VARIANTS[variant], "--dtype", "float32", model=str(GOLDEN / name))
    try:
        outputs = parallel(lambda p: ask(server, p, expected["steps"]), expected["prompts"])
        for prompt, (text, ids, logprobs, _) in zip(expected["prompts"], outputs):
            want = prompt["continuation"]
            assert ids == want["ids"], prompt["name"]
            assert text == want["text"], prompt["name"]
            for got, reference in zip(logprobs, want["logprobs"]):
                assert abs(got - reference) <= TOLERANCE["float32"], prompt["name"]
        assert server.metrics().value("vllm:num_preemptions_total") == 0
    finally:
        server.stop()


@pytest.mark.parametrize("name", ["llama", "llama-rope-scaled", "qwen2", "qwen3"])
def test_kit_that_preempts(name):
    """All prompts three times in one call, so that they arrive together whatever the machine does:
    17 usable blocks cannot hold what they grow to."""
    expected = kit(name)
    prompts = [p for p in expected["prompts"] if "text" in p] * 3
    server = Server("--num-gpu-blocks-override", "18", "--max-model-len", "256", "--dtype",
                    "float32", "--no-enable-prefix-caching", model=str(GOLDEN / name))
    try:
        answer = server.post("/v1/completions", {
            "prompt": [p["text"] for p in prompts], "max_tokens": expected["steps"],
            "temperature": 0, "ignore_eos": True, "return_token_ids": True})
        assert answer.status == 200, answer.text
        for prompt, choice in zip(prompts, answer.json["choices"], strict=True):
            assert choice["token_ids"] == prompt["continuation"]["ids"], prompt["name"]
        server.wait_idle()
        assert server.metrics().value("vllm:num_preemptions_total") > 0
    finally:
        server.stop()


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_prompt_logprobs_of_a_kit(name):
    expected = kit(name)
    server = Server(*VARIANTS["plain"], "--dtype", "float32", model=str(GOLDEN / name))
    try:
        for prompt in expected["prompts"]:
            if "text" not in prompt:
                continue
            answer = server.post("/v1/completions", {
                "prompt": prompt["text"], "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0,
                "return_token_ids": True})
            choice = answer.json["choices"][0]
            assert choice["prompt_token_ids"] == prompt["ids"], prompt["name"]
            got = choice["prompt_logprobs"]
            assert got[0] is None
            for entry, token, reference in zip(got[1:], prompt["ids"][1:],
                                               prompt["prompt_logprobs"][1:]):
                assert abs(entry[str(token)]["logprob"] - reference) <= TOLERANCE["float32"]
    finally:
        server.stop()


@pytest.fixture(scope="module")
def hf_model():
    path = os.environ.get("OCTAVO_TEST_HF")
    if not path:
        pytest.skip("OCTAVO_TEST_HF names no HF-format SmolLM2 (./run-tests makes one)")
    return path


def perplexity_of(model, *flags):
    """Perplexity of the kit's text, and the kit."""
    expected = json.loads((GOLDEN / "smollm2/perplexity.json").read_text())
    begin, end = expected["text"]["bytes"]
    text = Path("/usr/share/common-licenses", expected["text"]["file"]).read_bytes()[begin:end]
    server = Server("--kv-cache-memory-bytes", "192M", "--max-model-len", "2048", *flags,
                    model=model)
    try:
        tokens = server.post("/tokenize", {"prompt": text.decode(),
                                           "add_special_tokens": False}).json["tokens"]
        size = expected["window"]
        means = []
        for start in range(0, len(tokens) - size + 1, size):
            window = tokens[start:start + size]
            answer = server.post("/v1/completions", {
                "prompt": window, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0})
            assert answer.status == 200, answer.text
            scores = answer.json["choices"][0]["prompt_logprobs"]
            means.append(-sum(entry[str(token)]["logprob"]
                              for entry, token in zip(scores[1:], window[1:])) / (size - 1))
        assert len(means) == len(expected["windows"])
        return math.exp(sum(means) / len(means)), expected
    finally:
        server.stop()


@pytest.mark.parametrize("dtype,relative", [("bfloat16", 1e-2), ("float32", 1e-4)])
def test_perplexity_of_smollm2_through_prompt_logprobs(hf_model, dtype, relative):
    perplexity, expected = perplexity_of(hf_model, "--dtype", dtype)
    assert abs(perplexity / expected["perplexity"] - 1) <= relative


@pytest.mark.slow
def test_what_packing_at_load_costs_in_perplexity(hf_model):
    """Bounds against a change for the worse: measured were -0.04 % for int8, +0.2 % for q4 (the
    weights had been Q4_1 once) and +0.3 % for fp8 (docs/performance.md)."""
    wide, _ = perplexity_of(hf_model, "--dtype", "bfloat16")
    for method, bound in (("int8", 0.01), ("q4", 0.01), ("fp8", 0.01)):
        perplexity, _ = perplexity_of(hf_model, "--quantization", method)
        print(f"{method}: perplexity {perplexity:.4f}, bfloat16 {wide:.4f}")
        assert perplexity != wide
        assert perplexity / wide - 1 <= bound


@pytest.mark.slow
def test_what_one_byte_keys_and_values_cost_in_perplexity(hf_model):
    """E4M3 keeps its goal of 1 % (measured +0.72 %); E5M2 has a bound against a change for the worse
    (measured +2.32 %). docs/decisions/0008 says where they come from."""
    wide, _ = perplexity_of(hf_model, "--dtype", "bfloat16")
    found = {name: perplexity_of(hf_model, "--dtype", "bfloat16", "--kv-cache-dtype", name)[0]
             for name in ("fp8", "fp8_e5m2")}
    for name, perplexity in found.items():
        print(f"{name}: perplexity {perplexity:.4f}, bfloat16 {wide:.4f}, "
              f"{100 * (perplexity / wide - 1):+.2f} %")
    assert found["fp8"] != wide
    assert found["fp8"] / wide - 1 <= 0.01
    assert found["fp8_e5m2"] / wide - 1 <= 0.04
