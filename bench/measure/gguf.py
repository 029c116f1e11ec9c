"""GGUF headers: read what limits need, and write files of dummy weights. Layout: the format's
public description (version 3, little endian)."""
import os
import pathlib
import struct

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q",
           11: "<q", 12: "<d"}
STRING, ARRAY, U32, F32 = 8, 9, 4, 6
# ggml type: (name, elements a block, bytes a block)
TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20),
         6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 10: ("Q2_K", 256, 84),
         11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
         14: ("Q6_K", 256, 210), 30: ("BF16", 1, 2)}
ALIGNMENT = 32


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def scalar(self, fmt):
        value = struct.unpack_from(fmt, self.data, self.at)[0]
        self.at += struct.calcsize(fmt)
        return value

    def string(self):
        length = self.scalar("<Q")
        self.at += length
        return bytes(self.data[self.at - length:self.at]).decode("utf-8", "replace")

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            element, count = self.scalar("<I"), self.scalar("<Q")
            if element == STRING:
                for _ in range(count):
                    self.string()
            else:
                self.at += count * struct.calcsize(SCALARS[element])
            return count  # nobody here needs the elements
        return self.scalar(SCALARS[kind])


def read_header(path):
    """({key: value, of an array its length}, {key: its bytes from the type on},
    [(name, dims, type, bytes)])."""
    with open(path, "rb") as file:
        data = file.read(min(os.path.getsize(path), 64 << 20))
    reader = Reader(data)
    if data[:4] != b"GGUF" or (reader.scalar("<I"), reader.scalar("<I"))[1] < 2:
        raise ValueError(f"{path} is no GGUF file of version 2 or 3")
    num_tensors, num_keys = reader.scalar("<Q"), reader.scalar("<Q")
    values, raw = {}, {}
    for _ in range(num_keys):
        key = reader.string()
        begin = reader.at
        values[key] = reader.value(reader.scalar("<I"))
        raw[key] = data[begin:reader.at]
    tensors = []
    for _ in range(num_tensors):
        name = reader.string()
        dims = [reader.scalar("<Q") for _ in range(reader.scalar("<I"))]
        kind, _ = reader.scalar("<I"), reader.scalar("<Q")
        tensors.append((name, dims, kind, tensor_bytes(dims, kind)))
    return values, raw, tensors


def tensor_bytes(dims, kind):
    _, elements, size = TYPES[kind]
    count = 1
    for dim in dims:
        count *= dim
    return count // elements * size


def llama_tensors(shape, kind, embedding_kind):
    """Names, dims and types of a llama with untied head, of shape {"hidden", "layers", "heads",
    "kv_heads", "ffn", "vocab"}."""
    d, ffn, head = shape["hidden"], shape["ffn"], shape["hidden"] // shape["heads"]
    kv = head * shape["kv_heads"]
    tensors = [("token_embd.weight", [d, shape["vocab"]], embedding_kind),
               ("output_norm.weight", [d], 0), ("output.weight", [d, shape["vocab"]], kind)]
    for i in range(shape["layers"]):
        tensors += [(f"blk.{i}.{name}.weight", dims, k) for name, dims, k in (
            ("attn_norm", [d], 0), ("attn_q", [d, d], kind), ("attn_k", [d, kv], kind),
            ("attn_v", [d, kv], kind), ("attn_output", [d, d], kind), ("ffn_norm", [d], 0),
            ("ffn_gate", [d, ffn], kind), ("ffn_up", [d, ffn], kind),
            ("ffn_down", [ffn, d], kind))]
    return tensors


def dummy_bytes(kind, num_bytes, seed):
    """Weights near zero in whole blocks: random quants under a small scale. One stretch is
    repeated; speed does not depend on the values."""
    name, elements, size = TYPES[kind]
    if name == "F32":
        return struct.pack("<f", 1.0) * (num_bytes // 4)
    if name not in ("Q4_0", "Q8_0"):
        raise ValueError(f"dummy weights are made in Q4_0 and Q8_0, not {name}")
    import random
    rng = random.Random(seed)
    scale = struct.pack("<e", 0.002)
    stretch = b"".join(scale + rng.randbytes(size - 2) for _ in range(1 << 14))
    return (stretch * (num_bytes // len(stretch) + 1))[:num_bytes]


def write_dummy(path, base, shape, kind=2, embedding_kind=8, context=32768):
    """A llama of `shape` with dummy weights at `path`; tokenizer and all other keys come from the
    GGUF file `base`, whose vocabulary it must share."""
    values, raw, _ = read_header(base)
    if values.get("general.architecture") != "llama":
        raise ValueError(f"{base} is no llama")
    shape = {**shape, "vocab": values["tokenizer.ggml.tokens"]}
    for key, value in {"block_count": shape["layers"], "context_length": context,
                       "embedding_length": shape["hidden"], "feed_forward_length": shape["ffn"],
                       "attention.head_count": shape["heads"],
                       "attention.head_count_kv": shape["kv_heads"],
                       "rope.dimension_count": shape["hidden"] // shape["heads"],
                       "vocab_size": shape["vocab"]}.items():
        raw[f"llama.{key}"] = struct.pack("<II", U32, value)
    raw.pop("general.alignment", None)
    for key in ("llama.attention.key_length", "llama.attention.value_length"):
        raw.pop(key, None)
    tensors = llama_tensors(shape, kind, embedding_kind)
    text = lambda s: struct.pack("<Q", len(s.encode())) + s.encode()  # noqa: E731
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(raw))
    head += b"".join(text(key) + value for key, value in raw.items())
    offset = 0
    for name, dims, k in tensors:
        head += text(name) + struct.pack("<I", len(dims))
        head += b"".join(struct.pack("<Q", dim) for dim in dims) + struct.pack("<IQ", k, offset)
        offset += -(-tensor_bytes(dims, k) // ALIGNMENT) * ALIGNMENT
    partial = pathlib.Path(f"{path}.part")
    with open(partial, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT))
        for i, (_, dims, k) in enumerate(tensors):
            size = tensor_bytes(dims, k)
            data = dummy_bytes(k, min(size, 8 << 20) // 4 * 4, i % 4)
            unit = len(data) // TYPES[k][2] * TYPES[k][2]  # whole blocks
            data = data[:unit]
            for written in range(0, size, unit):
                file.write(data[:size - written])
            file.write(bytes(-size % ALIGNMENT))
    partial.rename(path)
