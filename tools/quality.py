#!/usr/bin/env python3
"""Perplexity and KL divergence of each weight format, as a Markdown table and JSON.

    tools/quality.py --reference HF_DIR [--llama-perplexity PATH] [--octavo build/release/octavo]
                     [--text FILE ...] [--json OUT.json] MODEL[:FLAG=VALUE...] ...

The text is that of tests/golden/smollm2/perplexity.json, in the same windows, or with --text the
files given, joined, in windows of 512 as far as they fill them: the more text, the smaller the
standard error of diff. Every token but a window's first is scored given that window alone, through
/v1/completions with prompt_logprobs.
  ppl        as served (int8 or bf16 dot products)
  ppl f32    the same weights with --dtype float32: dequantised, all arithmetic and KV in f32
  diff       of the two, with the standard error of the paired tokens: what the fast arithmetic
             costs. The goal is at most 0.5 %
  KL         mean over tokens of KL(reference || format), nats; the reference is HF_DIR in float32.
             Taken over the reference's --listed likeliest tokens as far as the other lists them
             too, the rest as one event: a lower bound, short by little
  KL f32     the same of the format in f32 arithmetic: what the format itself costs
  same top   share of tokens where both have the same likeliest token
  half       perplexity of the second half of each window, as llama-perplexity counts: octavo's, and
             llama.cpp's on the same file (only where a tool is given)
A model may carry flags of its own, after a colon: DIR:--quantization=int8. A method that does not
run in float32 (gptq, awq, compressed-tensors, fp8) wants a checkpoint of the same values in F32
beside it, DIR:f32=DIR-f32, made by whoever packed it (tests/tools/make_quantized_tensors.py).
"""
import argparse
import hashlib
import http.client
import json
import math
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """One `octavo serve`, ended with the `with` block."""

    def __init__(self, octavo, model, flags, threads):
        self.port = free_port()
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [octavo, "serve", model, "--port", str(self.port), "--num-threads", str(threads),
             "--kv-cache-memory-bytes", "192M", "--max-model-len", "1024",
             "--max-logprobs", "256",
             "--served-model-name", "m", "--no-enable-prefix-caching", *flags],
            stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        deadline = time.time() + 180
        while time.time() < deadline and self.process.poll() is None:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/ready")
                if connection.getresponse().status == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.05)
        self.__exit__()
        self.log.seek(0)
        sys.exit("octavo did not become ready:\n" + self.log.read().decode(errors="replace"))

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)

    def post(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            sys.exit(f"{path}: {answer.status} {data[:500]!r}")
        return json.loads(data)


class Text:
    """What is scored: files' bytes, tokens in a window, windows (None: as many as they fill)."""

    def __init__(self, files):
        if files:
            self.pieces = [pathlib.Path(file).read_bytes() for file in files]
            self.window, self.count = 512, None
            return
        kit = json.loads((ROOT / "tests/golden/smollm2/perplexity.json").read_text())
        begin, end = kit["text"]["bytes"]
        file = pathlib.Path("/usr/share/common-licenses", kit["text"]["file"])
        self.pieces = [file.read_bytes()[begin:end]]
        if hashlib.sha256(self.pieces[0]).hexdigest() != kit["text"]["sha256_of_bytes"]:
            sys.exit("the text is not that of perplexity.json")
        self.window, self.count = kit["window"], len(kit["windows"])

    def windows(self, server):
        """The token ids of each window."""
        ids = []
        for piece in self.pieces:
            ids += server.post("/tokenize", {"model": "m", "prompt": piece.decode(),
                                             "add_special_tokens": False})["tokens"]
        size = self.window
        if self.count is None:
            self.count = len(ids) // size
        if self.count == 0:
            sys.exit(f"the text has {len(ids)} tokens, less than one window of {size}")
        return [ids[i * size:(i + 1) * size] for i in range(self.count)]


def score(args, model, flags, text):
    """Per window and token: (logprob of the token, {id: logprob} of the likeliest)."""
    with Server(args.octavo, model, flags, args.threads) as server:
        scores = []
        for window in text.windows(server):
            choice = server.post("/v1/completions", {
                "model": "m", "prompt": window, "max_tokens": 1, "temperature": 0,
                "prompt_logprobs": args.listed})["choices"][0]
            rows = choice["prompt_logprobs"][1:]
            scores.append([
                (row[str(token)]["logprob"], {int(k): v["logprob"] for k, v in row.items()})
                for token, row in zip(window[1:], rows)])
    return scores


def perplexity(scores, first=0):
    means = [sum(s[0] for s in window[first:]) / len(window[first:]) for window in scores]
    return math.exp(-sum(means) / len(means))


def difference(served, exact):
    """Relative difference of the perplexities, and its standard error over paired tokens."""
    pairs = [e[0] - s[0] for window, other in zip(served, exact) for s, e in zip(window, other)]
    return perplexity(served) / perplexity(exact) - 1, statistics.stdev(pairs) / len(pairs) ** 0.5


def divergence(reference, other):
    """Mean KL(reference || other), and the share of equal likeliest tokens."""
    total, same, count = 0.0, 0, 0
    for ref_window, window in zip(reference, other):
        for (_, ref), (_, got) in zip(ref_window, window):
            ref_rest = got_rest = 1.0
            kl = 0.0
            for token in ref.keys() & got.keys():
                p, q = math.exp(ref[token]), math.exp(got[token])
                kl += p * (ref[token] - got[token])
                ref_rest -= p
                got_rest -= q
            if ref_rest > 1e-6 and got_rest > 1e-6:
                kl += ref_rest * math.log(ref_rest / got_rest)
            total += kl
            same += max(ref, key=ref.get) == max(got, key=got.get)
            count += 1
    return total / count, same / count


def peer_perplexity(args, model, text):
    """llama-perplexity's final estimate over the same windows; None for a model it cannot read."""
    if not args.llama_perplexity or not model.endswith(".gguf"):
        return None
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(b"".join(text.pieces))
        file.flush()
        run = subprocess.run(
            [args.llama_perplexity, "-m", model, "-f", file.name, "-c", str(text.window),
             "-b", str(text.window), "-t", str(args.threads), "--chunks", str(text.count)],
            capture_output=True, text=True, timeout=1800)
    found = re.search(r"Final estimate: PPL = ([\d.]+)", run.stdout + run.stderr)
    return float(found.group(1)) if found else None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL[:FLAG=VALUE...]")
    parser.add_argument("--reference", required=True)
    parser.add_argument("--octavo", default=str(ROOT / "build/release/octavo"))
    parser.add_argument("--llama-perplexity")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--listed", type=int, default=256, help="logprobs a token, at most 256")
    parser.add_argument("--text", nargs="+", metavar="FILE")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    text = Text(args.text)

    reference = score(args, args.reference, ["--dtype", "float32"], text)
    print(f"reference: perplexity {perplexity(reference):.4f} in float32")
    print("| weights | ppl | ppl f32 | diff | KL | KL f32 | same top | half | half, llama.cpp |")
    print("|---|---|---|---|---|---|---|---|---|")
    results = []
    for spec in args.models:
        model, *flags = spec.split(":")
        wide = [flag.removeprefix("f32=") for flag in flags if flag.startswith("f32=")]
        flags = [flag for flag in flags if not flag.startswith("f32=")]
        name = pathlib.Path(model).stem + "".join(" " + flag for flag in flags)
        served = score(args, model, flags, text)
        exact = score(args, wide[0] if wide else model, flags + ["--dtype", "float32"], text)
        row = {"name": name, "ppl": perplexity(served), "ppl_f32": perplexity(exact),
               "half": perplexity(served, text.window // 2),
               "half_peer": peer_perplexity(args, model, text)}
        row["diff"], row["diff_error"] = difference(served, exact)
        row["kl"], row["same_top"] = divergence(reference, served)
        row["kl_f32"], _ = divergence(reference, exact)
        peer = f"{row['half_peer']:.4f}" if row["half_peer"] else "–"
        print(f"| {name} | {row['ppl']:.4f} | {row['ppl_f32']:.4f} | "
              f"{100 * row['diff']:+.2f} ± {100 * row['diff_error']:.2f} % | {row['kl']:.5f} | "
              f"{row['kl_f32']:.5f} | {100 * row['same_top']:.1f} % | {row['half']:.4f} | {peer} |",
              flush=True)
        results.append(row)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
