#!/usr/bin/env python3
"""Octavo beside llama.cpp's server on the same GGUF, interleaved in one run.

    bench/floors.py --peer PATH_OF_llama-server [--octavo build/release/octavo] [--model M.gguf]
                    [--rounds 3] [--threads 2] [--json OUT.json]

Each round starts one server, measures, stops it, and does the same with the other: A B A B ...
Measured over HTTP with random token ids, greedy, ignore_eos:
  decode   1 stream, 128 in, 128 out: tokens/s between first and last token
  prefill  512 in, 1 out: 512 / time to first token (best of 3 in a round)
  burst    16 at once, 128 in, 128 out: all output tokens / wall
  ready    exec to the first 200 of the readiness route;  rss: VmHWM after the work
Prints medians with (min-max) and the ratio of medians; foreign CPU use is reported, not hidden.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, command, ready_path, port):
        self.port = port
        self.started = time.time()
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            if self.process.poll() is not None:
                sys.exit(f"{command[0]} ended with {self.process.returncode}")
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
                connection.request("GET", ready_path)
                if connection.getresponse().status == 200:
                    break
            except OSError:
                pass
            if time.time() - self.started > 120:
                self.process.kill()
                sys.exit(f"{command[0]}: not ready after 120 s")
            time.sleep(0.005)
        self.ready_s = time.time() - self.started

    def peak_rss_mib(self):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
        return 0.0

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def stream(port, prompt, max_tokens):
    """(seconds to first token, seconds to last, tokens) of one streamed completion."""
    body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": True,
                       "ignore_eos": True, "cache_prompt": False,
                       "stream_options": {"include_usage": True}})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    start = time.perf_counter()
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        sys.exit(f"status {answer.status}: {answer.read()[:300]}")
    first = last = None
    tokens = 0
    for line in answer:
        if not line.startswith(b"data: {"):
            continue
        chunk = json.loads(line[6:])
        usage = chunk.get("usage")
        if usage:
            tokens = usage["completion_tokens"]
        if chunk.get("choices"):
            now = time.perf_counter()
            first = first or now
            last = now
    connection.close()
    return first - start, last - start, tokens


def prompt(rng, length):
    return [rng.randrange(100, 40000) for _ in range(length)]


def measure(server, rng):
    stream(server.port, prompt(rng, 32), 8)  # warm up
    first, last, tokens = stream(server.port, prompt(rng, 128), 128)
    result = {"decode": (tokens - 1) / (last - first)}
    result["prefill"] = max(512 / stream(server.port, prompt(rng, 512), 1)[0] for _ in range(3))
    outcomes, threads = [], []
    start = time.perf_counter()
    for _ in range(16):
        p = prompt(rng, 128)
        threads.append(threading.Thread(target=lambda p=p: outcomes.append(stream(server.port, p, 128))))
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    result["burst"] = sum(o[2] for o in outcomes) / (time.perf_counter() - start)
    result["ready_s"] = server.ready_s
    result["rss_mib"] = server.peak_rss_mib()
    return result


def busy_ticks():
    fields = list(map(int, open("/proc/stat").readline().split()[1:9]))
    return sum(fields) - fields[3] - fields[4]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--octavo", default=str(ROOT / "build/release/octavo"))
    cache = os.environ.get("OCTAVO_CACHE", os.path.expanduser("~/.cache/octavo"))
    parser.add_argument("--model", default=f"{cache}/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json")
    args = parser.parse_args()

    results = {"octavo": [], "peer": []}
    for round_index in range(args.rounds):
        for who in ("octavo", "peer"):
            port = free_port()
            if who == "octavo":
                command = [args.octavo, "serve", args.model, "--port", str(port), "--num-threads",
                           str(args.threads), "--kv-cache-memory-bytes", "192M"]
                ready = "/ready"
            else:
                command = [args.peer, "-m", args.model, "--host", "127.0.0.1", "--port", str(port),
                           "-t", str(args.threads), "-tb", str(args.threads), "-c", "16384",
                           "-np", "16"]
                ready = "/health"
            server = Server(command, ready, port)
            try:
                rng = random.Random(1000 + round_index)
                before, started = busy_ticks(), time.time()
                own_before = sum(os.times()[:2])
                figures = measure(server, rng)
                with open(f"/proc/{server.process.pid}/stat") as stat:
                    parts = stat.read().rsplit(")", 1)[1].split()
                served = (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
                busy = (busy_ticks() - before) / os.sysconf("SC_CLK_TCK")
                own = sum(os.times()[:2]) - own_before
                figures["foreign_cores"] = max(0.0, (busy - served - own) / (time.time() - started))
                results[who].append(figures)
                print(f"round {round_index} {who}: " +
                      ", ".join(f"{k} {v:.2f}" for k, v in figures.items()), flush=True)
            finally:
                server.stop()

    print("\n| figure | octavo | peer | ratio |\n|---|---|---|---|")
    for key in ("decode", "prefill", "burst", "ready_s", "rss_mib", "foreign_cores"):
        cells, medians = [], []
        for who in ("octavo", "peer"):
            values = [r[key] for r in results[who]]
            medians.append(statistics.median(values))
            cells.append(f"{medians[-1]:.2f} ({min(values):.2f}-{max(values):.2f})")
        ratio = f"{medians[0] / medians[1]:.2f}" if medians[1] else "-"
        print(f"| {key} | {cells[0]} | {cells[1]} | {ratio} |")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
