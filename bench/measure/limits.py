"""What the machine allows: bytes and operations of a model's work against the roofs of the run."""
import json
import os
import pathlib
import struct

from measure import gguf


class ModelFacts:
    """The numbers of a decoder that the limits need."""

    def __init__(self, weight_bytes, linear, head, layers, heads, kv_heads, head_dim, int8):
        self.weight_bytes = weight_bytes  # read once a step, the head included
        self.linear = linear  # elements of the linear layers, without the head
        self.head = head  # elements of the head
        self.layers, self.heads, self.kv_heads, self.head_dim = layers, heads, kv_heads, head_dim
        self.int8 = int8  # block formats multiply in int8

    @property
    def kv_bytes_per_token(self):  # 16-bit cache
        return self.layers * 2 * self.kv_heads * self.head_dim * 2

    def prefill_flop(self, length):
        """Operations a token of a prompt, causal attention included, head left out."""
        return 2 * self.linear + 4 * (length / 2) * self.heads * self.head_dim * self.layers

    def decode_flop(self, context):
        return 2 * (self.linear + self.head) + 4 * context * self.heads * self.head_dim * self.layers


def from_gguf(path):
    values, _, tensors = gguf.read_header(path)
    name = values["general.architecture"]
    get = lambda key: values.get(f"{name}.{key}")  # noqa: E731
    heads = get("attention.head_count")
    sizes = {t[0]: t for t in tensors}
    matrices = [t for t in tensors if t[0].startswith("blk.") and len(t[1]) == 2]
    head = sizes.get("output.weight") or sizes["token_embd.weight"]
    int8 = sum(t[3] for t in matrices if t[2] not in (0, 1, 30)) > 0
    return ModelFacts(sum(t[3] for t in matrices) + head[3],
                      sum(t[1][0] * t[1][1] for t in matrices), head[1][0] * head[1][1],
                      get("block_count"), heads, get("attention.head_count_kv") or heads,
                      get("attention.key_length") or get("embedding_length") // heads, int8)


def from_hf(path):
    """Of a checkpoint in 16 bits; other directories give None."""
    config = json.loads((pathlib.Path(path) / "config.json").read_text())
    if config.get("quantization_config"):
        return None
    d, layers, heads = (config[k] for k in ("hidden_size", "num_hidden_layers",
                                            "num_attention_heads"))
    kv_heads = config.get("num_key_value_heads") or heads
    head_dim = config.get("head_dim") or d // heads
    linear = layers * (2 * d * heads * head_dim + 2 * d * kv_heads * head_dim +
                       3 * d * config["intermediate_size"])
    head = d * config["vocab_size"]
    return ModelFacts(2 * (linear + head), linear, head, layers, heads, kv_heads, head_dim, False)


def facts_of(path):
    """None when the file does not say enough."""
    try:
        return from_hf(path) if os.path.isdir(path) else from_gguf(path)
    except (KeyError, TypeError, ValueError, OSError, struct.error):
        return None


def limit_of(work, facts, roofs):
    """The best rate that bytes and arithmetic allow in this work's unit, or None: start and memory
    have no such limit, and without roofs nothing has."""
    if not facts or not roofs or not work.limit:
        return None
    rate = 1e9 * (roofs["int8_gop_s"] if facts.int8 else
                  max(roofs["bf16_gflop_s"], roofs["f32_gflop_s"]))
    prompt, new, streams = work.prompt + work.prefix, work.new, work.streams
    context = prompt + new / 2
    # What a step reads, weights and KV, is what a cache would have to hold until the next.
    step_bytes = facts.weight_bytes + streams * context * facts.kv_bytes_per_token
    size = min(roofs["read_gb_s"], key=lambda s: abs(int(s) - step_bytes / 2**20))
    bandwidth = 1e9 * roofs["read_gb_s"][size]
    if not rate or not bandwidth:
        return None
    step = max(step_bytes / bandwidth, streams * facts.decode_flop(context) / rate)
    prefill = work.computed_prompt * facts.prefill_flop(prompt) / rate
    if work.limit == "prefill":
        return rate / facts.prefill_flop(prompt)
    if work.limit == "decode":
        return streams / step
    seconds = streams * prefill + new * step  # of `streams` requests
    return streams * (new if work.limit == "output" else 1) / seconds
