#!/usr/bin/env python3
"""Split the model.safetensors of a Hugging Face directory into shards with an index.

    shard_checkpoint.py --hf DIR --out NEW_DIR [--shards 3]

Needs no packages. The tensors' bytes are copied as they are; the other files are linked.
"""
import argparse
import json
import pathlib
import struct


def read_header(path):
    """name -> {dtype, shape, data_offsets}, and where the data begin."""
    with path.open("rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
    return header, 8 + size


def write_shard(source, data_begin, names, header, path):
    entries, at = {"__metadata__": {"format": "pt"}}, 0
    for name in names:
        begin, end = header[name]["data_offsets"]
        entries[name] = {**header[name], "data_offsets": [at, at + end - begin]}
        at += end - begin
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            begin, end = header[name]["data_offsets"]
            source.seek(data_begin + begin)
            out.write(source.read(end - begin))


def shard(hf, out, num_shards):
    header, data_begin = read_header(hf / "model.safetensors")
    names = [name for name in header if name != "__metadata__"]
    out.mkdir(parents=True)
    for file in hf.iterdir():
        if file.is_file() and file.name != "model.safetensors" and not file.name.startswith("."):
            (out / file.name).symlink_to(file.resolve())
    weight_map = {}
    with (hf / "model.safetensors").open("rb") as source:
        for i in range(num_shards):
            file = f"model-{i + 1:05d}-of-{num_shards:05d}.safetensors"
            # Interleaved, so that the tensors of one layer lie in several files.
            write_shard(source, data_begin, names[i::num_shards], header, out / file)
            weight_map.update(dict.fromkeys(names[i::num_shards], file))
    total = sum(header[name]["data_offsets"][1] - header[name]["data_offsets"][0]
                for name in names)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hf", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--shards", type=int, default=3)
    arguments = parser.parse_args()
    shard(arguments.hf, arguments.out, arguments.shards)
