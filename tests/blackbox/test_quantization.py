"""`--quantization`: what a checkpoint says, what packs it, and what is refused at start."""

import json
import shutil

import pytest
from helpers import ROOT

KIT = ROOT / "tests/golden/llama"


@pytest.fixture
def declared(tmp_path):
    """A copy of a tiny checkpoint whose config.json declares a method."""
    def make(**quantization_config):
        copy = tmp_path / "declared"
        shutil.copytree(KIT, copy)
        config = json.loads((copy / "config.json").read_text())
        config["quantization_config"] = quantization_config
        (copy / "config.json").write_text(json.dumps(config))
        return str(copy)

    return make


def start_error(start_server, model, *flags):
    with pytest.raises(AssertionError) as failure:
        start_server(*flags, model=model, length=256)
    return str(failure.value)


def test_a_flag_that_differs_from_the_checkpoint_names_both(start_server, declared):
    model = declared(quant_method="gptq", bits=4, group_size=32)
    text = start_error(start_server, model, "--quantization", "awq")
    assert "--quantization awq" in text and "quantised with gptq" in text


def test_a_dtype_that_the_method_lacks_names_both(start_server, declared):
    model = declared(quant_method="awq", bits=4, group_size=32)
    text = start_error(start_server, model, "--dtype", "float32")
    assert "--dtype float32" in text and "quantised with awq" in text


def test_an_unknown_method_is_named_beside_the_known_ones(start_server, declared):
    text = start_error(start_server, declared(quant_method="bitsandbytes"))
    assert '"bitsandbytes"' in text and "awq, compressed-tensors, fp8, gptq" in text


def test_a_flag_without_a_method_lists_what_packs(start_server):
    text = start_error(start_server, str(KIT), "-q", "gptq")
    assert "--quantization gptq" in text and "fp8, int8, q4" in text


def test_a_declared_checkpoint_without_packed_modules_runs_as_it_is(start_server, declared):
    server = start_server(model=declared(quant_method="fp8"), length=256)
    assert server.get("/octavo/config").json["model"]["quantization"] == "fp8"
    server.stop()


def test_a_scheme_of_the_kv_cache_makes_auto_fp8(start_server, declared):
    scheme = {"type": "float", "num_bits": 8, "strategy": "tensor", "symmetric": True}
    model = declared(quant_method="compressed-tensors", kv_cache_scheme=scheme)
    for flags, dtype in ([], "fp8_e4m3"), (["--kv-cache-dtype", "bfloat16"], "bfloat16"):
        server = start_server(*flags, model=model, length=256)
        assert server.get("/octavo/config").json["cache"]["kv_cache_dtype"] == dtype
        server.stop()


def test_a_scheme_of_the_kv_cache_that_is_not_read_is_named(start_server, declared):
    model = declared(quant_method="compressed-tensors",
                     kv_cache_scheme={"type": "int", "num_bits": 8})
    text = start_error(start_server, model)
    assert "kv_cache_scheme.type" in text and "--kv-cache-dtype bfloat16" in text


@pytest.mark.parametrize("method,stored", [("int8", "Q8_0"), ("q4", "Q4_1"), ("fp8", "F8G128")])
def test_an_unquantised_checkpoint_is_packed_at_load(start_server, method, stored):
    def answer(*flags):
        server = start_server(*flags, model=str(KIT), length=256)
        model = server.get("/octavo/config").json["model"]
        choice = server.post("/v1/completions", {
            "prompt": list(range(3, 40)), "max_tokens": 4, "temperature": 0,
            "prompt_logprobs": 0}).json["choices"][0]
        log = server.log_text()
        server.stop()
        scores = [next(iter(entry.values()))["logprob"]
                  for entry in choice["prompt_logprobs"][1:]]
        return model, scores, log

    plain, exact, _ = answer()
    packed, scores, log = answer("--quantization", method)
    assert plain["quantization"] is None
    assert packed["quantization"] == method
    assert packed["weight_format"] == stored
    assert packed["weight_bytes"] < plain["weight_bytes"]
    assert f"Quantization: {method}; linear layers as {stored}" in log
    # Another model, but a near one: the logprobs of random tokens spread over several nats.
    differences = [abs(a - b) for a, b in zip(exact, scores)]
    assert 0 < sum(differences) / len(differences) < {"int8": 0.1, "fp8": 0.5, "q4": 1.5}[method]
