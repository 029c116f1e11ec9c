#!/usr/bin/env python3
"""Writes tests/golden/bench/*.json: what Python's random and numpy give for fixed seeds.

    make_bench_vectors.py OUT_DIR [NAME=TOKENIZER_DIR ...]

Needs numpy; with tokenizers (Hugging Face folders) also transformers, and then writes the prompts of
the data sets `random` and `prefix_repetition`, computed here from their description.
"""
import json
import math
import pathlib
import random
import sys

import numpy as np

SEEDS = [0, 1, 42, 4294967295]
RANGES = [(0, 1), (0, 2), (5, 12), (0, 49152), (0, 151669), (1000, 1049), (0, 4294967295)]


def python_vectors(seed):
    rng = random.Random(seed)
    out = {"random": [rng.random() for _ in range(3)],
           "below": [[n, [rng.randrange(n) for _ in range(4)]] for n in (1, 2, 10, 1000, 2**40)]}
    items = list(range(20))
    rng.shuffle(items)
    out["shuffle"] = items
    out["choice"] = [rng.choice(range(7)) for _ in range(6)]
    out["choices"] = rng.choices(range(1000), k=6)
    return out


def generator_vectors(seed):
    rng = np.random.default_rng(seed)
    return [[low, high, rng.integers(low, high, size=5).tolist()] for low, high in RANGES]


def permutation_vectors(seed):
    """Also the order of rows of the hub library (datasets): Dataset.shuffle is the permutation."""
    rng = np.random.default_rng(seed)
    return [rng.permutation(size).tolist() for size in (1, 7, 40)]


def legacy_vectors(seed):
    rng = np.random.RandomState(seed)
    out = {"randint": [[low, high, rng.randint(low, high, size=5).tolist()]
                       for low, high in RANGES]}
    out["gamma"] = [[shape, scale, [rng.gamma(shape, scale) for _ in range(6)]]
                    for shape, scale in ((1.0, 0.5), (0.3, 2.0), (2.5, 0.1), (100.0, 1.0))]
    out["sample"] = [[n, k, rng.choice(n, size=k, replace=False).tolist()]
                     for n, k in ((5, 3), (40, 40))]
    return out


def percentile_vectors():
    rng = np.random.default_rng(7)
    out = []
    for size in (1, 2, 3, 10, 101, 500):
        values = rng.exponential(0.3, size=size).tolist()
        if size == 10:
            values[3] = values[7]
        out.append({"values": values, "mean": float(np.mean(values)), "std": float(np.std(values)),
                    "median": float(np.median(values)),
                    "percentiles": [[p, float(np.percentile(values, p))]
                                    for p in (0, 1, 25, 50, 75, 90, 95, 99, 99.9, 100)]})
    return out


def length_stable(tokenizer, ids, length, draw):
    for tries in range(11):
        text = tokenizer.decode(ids)
        ids = tokenizer.encode(text, add_special_tokens=False)
        if tries == 10 or len(ids) == length:
            return text, ids
        ids = ids + draw(length - len(ids)) if len(ids) < length else ids[:length]


def random_prompts(tokenizer, seed, count, input_len, output_len, prefix_len, ratio):
    rng = np.random.default_rng(seed)
    inner = max(0, input_len - tokenizer.num_special_tokens_to_add())
    inputs = rng.integers(math.floor(inner * (1 - ratio)), math.ceil(inner * (1 + ratio)) + 1,
                          size=count)
    low = max(1, math.floor(output_len * (1 - ratio)))
    outputs = rng.integers(low, max(1, math.ceil(output_len * (1 + ratio))) + 1, size=count)
    offsets = rng.integers(0, tokenizer.vocab_size, size=count)
    allowed = [i for i in range(tokenizer.vocab_size) if i not in set(tokenizer.all_special_ids)]
    draw = lambda n: rng.integers(0, tokenizer.vocab_size, size=n).tolist()  # noqa: E731
    prefix = []
    if prefix_len:
        picked = rng.integers(0, len(allowed), size=prefix_len)
        _, prefix = length_stable(tokenizer, [allowed[i] for i in picked], prefix_len, draw)
    out = []
    for i in range(count):
        ids = prefix + [allowed[(int(offsets[i]) + i + j) % len(allowed)]
                        for j in range(int(inputs[i]))]
        text, ids = length_stable(tokenizer, ids, prefix_len + int(inputs[i]), draw)
        out.append([text, len(ids), int(outputs[i])])
    return out


def prefix_prompts(tokenizer, seed, count, num_prefixes, prefix_len, suffix_len):
    random.seed(seed)
    np.random.seed(seed)
    draw = lambda n: np.random.randint(0, tokenizer.vocab_size, size=n).tolist()  # noqa: E731
    out = []
    for _ in range(num_prefixes):
        _, prefix = length_stable(tokenizer, draw(prefix_len), prefix_len, draw)
        for _ in range(count // num_prefixes):
            _, suffix = length_stable(tokenizer, draw(suffix_len), suffix_len, draw)
            out.append([tokenizer.decode(prefix + suffix), len(prefix) + len(suffix)])
    random.shuffle(out)
    return out


def prompt_vectors(folder):
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(folder)
    kits = [{"seed": seed, "count": 6, "input_len": 40, "output_len": 10, "prefix_len": prefix,
             "ratio": ratio,
             "prompts": random_prompts(tokenizer, seed, 6, 40, 10, prefix, ratio)}
            for seed, prefix, ratio in ((0, 0, 0.0), (1, 12, 0.5))]
    prefixed = {"seed": 3, "count": 7, "num_prefixes": 2, "prefix_len": 20, "suffix_len": 15,
                "prompts": prefix_prompts(tokenizer, 3, 7, 2, 20, 15)}
    return {"vocab_size": tokenizer.vocab_size, "random": kits, "prefix_repetition": prefixed}


def main():
    out = pathlib.Path(sys.argv[1])
    generators = {"python": {str(s): python_vectors(s) for s in SEEDS},
                  "generator": {str(s): generator_vectors(s) for s in SEEDS},
                  "permutation": {str(s): permutation_vectors(s) for s in SEEDS},
                  "legacy": {str(s): legacy_vectors(s) for s in SEEDS}}
    (out / "generators.json").write_text(json.dumps(generators) + "\n")
    (out / "percentiles.json").write_text(json.dumps(percentile_vectors()) + "\n")
    for word in sys.argv[2:]:
        name, folder = word.split("=", 1)
        (out / f"prompts_{name}.json").write_text(json.dumps(prompt_vectors(folder)) + "\n")


main()
