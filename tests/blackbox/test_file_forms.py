"""One model in other forms of file: shards, GGUF version 2, other quantisations."""

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT, default_model

PROMPT = "The capital of France is"
CACHE = Path(os.environ.get("OCTAVO_CACHE", Path.home() / ".cache/octavo"))
HF = Path(os.environ.get("OCTAVO_TEST_HF", CACHE / "smollm2-135m-hf"))


def greedy(server):
    return server.complete(PROMPT, max_tokens=12, logprobs=2)["choices"][0]


def shard(hf, out):
    subprocess.run([sys.executable, ROOT / "tests/tools/shard_checkpoint.py", "--hf", hf, "--out",
                    out], check=True)


@pytest.fixture
def one_server(start_server):
    """Starts a server of this form and stops it at once with its answer in hand."""
    def answer(model, *flags):
        server = start_server(*flags, model=str(model), length=256)
        try:
            return greedy(server)
        finally:
            server.stop()

    return answer


@pytest.mark.parametrize("hf", [HF, ROOT / "tests/golden/qwen2"], ids=["smollm2", "tiny"])
def test_a_sharded_checkpoint_gives_the_same_bits(one_server, tmp_path, hf):
    if not (hf / "model.safetensors").exists():
        pytest.skip(f"no checkpoint at {hf}")
    shard(hf, tmp_path / "sharded")
    whole = one_server(hf)
    assert one_server(tmp_path / "sharded") == whole


def test_a_missing_shard_is_one_clear_error(start_server, tmp_path):
    shard(ROOT / "tests/golden/qwen2", tmp_path / "sharded")
    (tmp_path / "sharded/model-00002-of-00003.safetensors").unlink()
    with pytest.raises(AssertionError) as failure:
        start_server(model=str(tmp_path / "sharded"), length=256)
    assert "model-00002-of-00003.safetensors" in str(failure.value)


def test_gguf_version_2_gives_the_same_bits(one_server, tmp_path):
    """Version 3 differs by allowing big-endian files; the layout is that of version 2."""
    copy = tmp_path / "v2.gguf"
    shutil.copyfile(default_model(), copy)
    with copy.open("r+b") as file:
        magic, version = struct.unpack("<4sI", file.read(8))
        assert (magic, version) == (b"GGUF", 3)
        file.seek(4)
        file.write(struct.pack("<I", 2))
    assert one_server(copy) == one_server(default_model())


def mean_logprob(model, start_server):
    """Of the tokens of a plain English text."""
    server = start_server(model=str(model), length=256)
    text = ("The sun rose over the hills, and the birds began to sing. Anna opened the window and "
            "looked at the garden, where her brother was already watering the flowers.")
    scores = server.complete(text, max_tokens=0, echo=True, logprobs=0)["choices"][0]["logprobs"]
    server.stop()
    values = scores["token_logprobs"][1:]
    return sum(values) / len(values)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0"])
def test_files_of_llama_quantize(start_server, tmp_path, kind):
    """With OCTAVO_LLAMA_QUANTIZE = the path of llama.cpp's llama-quantize."""
    tool = os.environ.get("OCTAVO_LLAMA_QUANTIZE")
    if not tool:
        pytest.skip("OCTAVO_LLAMA_QUANTIZE is not set")
    model = tmp_path / f"{kind}.gguf"
    subprocess.run([tool, "--allow-requantize", default_model(), model, kind, "2"], check=True,
                   capture_output=True)
    near = 0.3 if kind == "Q4_0" else 0.1  # the file it is made from is of 4 bits itself
    assert mean_logprob(model, start_server) == pytest.approx(
        mean_logprob(default_model(), start_server), abs=near)
