#!/usr/bin/env python3
"""How Octavo's cost a token grows: with sequences, context, prompts in the queue, model size.

    bench/scale.py --out DIR [--curves sequences,context,queue,size] [--quick]

Writes scale.json, scale.md and a picture of each curve into DIR. Curves:
    sequences  1 to 1,024 streams at once, 32 + 64 ids: cost of a decoded token
    context    128 to 32k ids before 32 new ones, one stream: cost of a prompt and of a decoded token
    queue      0 to 100,000 prompts waiting behind 16 streams: cost of a decoded token
    size       1B, 3B and 8B in 4 bits: cost of a decoded token, and its share of the limit
Models with dummy weights (context, size) are written as Q4_0 GGUF files into --work-dir, with the
tokenizer of --model, and removed at the end: 0.1 to 4.8 GB. --quick takes few and small points.
A point during which other processes used more than --max-foreign cores is void; it is tried again
when it was short. Each curve's seconds are printed and recorded.
"""
import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from measure import client, engines, gguf, limits, machine, report, roofs, svg, works  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = {"135M": {"hidden": 576, "layers": 30, "heads": 9, "kv_heads": 3, "ffn": 1536},
          "1B": {"hidden": 2048, "layers": 16, "heads": 32, "kv_heads": 8, "ffn": 8192},
          "3B": {"hidden": 3072, "layers": 28, "heads": 24, "kv_heads": 8, "ffn": 8192},
          "8B": {"hidden": 4096, "layers": 32, "heads": 32, "kv_heads": 8, "ffn": 14336}}
POINTS = {"sequences": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
          "context": (128, 512, 2048, 8192, 16384, 32000),
          "queue": (0, 100, 1000, 10_000, 100_000), "size": ("1B", "3B", "8B")}
QUICK = {"sequences": (1, 16, 64), "context": (128, 1024, 4096), "queue": (0, 1000),
         "size": ("1B",)}
AXES = {"sequences": ("sequences at once", "ms a token"), "context": ("ids of context", "ms a token"),
        "queue": ("prompts waiting, + 1", "ms a token"),
        "size": ("MB of weights a token", "ms a token")}
RUNNING = 16  # sequences in front of the queue
RETRY_S = 45  # a void point that took longer is not tried again: the curves keep their time
PROMPTS_A_REQUEST = 500


def mebibytes(size_bytes):
    """As octavo's flag wants it, with a tenth to spare, and 192 MiB at least."""
    return f"{max(192, int(size_bytes * 1.1) // 2**20 + 16)}M"


class Scale:
    def __init__(self, args):
        self.args = args
        self.points, self.notes = [], []
        self.roofs = None
        self.commands, self.seconds = [], {}

    def note(self, text):
        self.notes.append(text)
        print(f"! {text}", flush=True)

    @contextlib.contextmanager
    def server(self, path, kv_bytes, *flags):
        engine = engines.Octavo(self.args.octavo, self.args.threads, {"one": mebibytes(kv_bytes)},
                                ("--no-enable-prefix-caching", *flags))
        try:
            engine.start(path, "one")
            client.run_load(engine.url, "", client.random_prompts(1, 16, "warm"), 1, 4)
            yield engine
        finally:
            self.commands += [c for c in engine.commands if c not in self.commands]
            engine.stop()

    def run(self, curve, folder):
        began = time.monotonic()
        try:
            getattr(self, curve)((QUICK if self.args.quick else POINTS)[curve], folder)
        except (engines.Failed, RuntimeError, OSError, TimeoutError, EOFError) as error:
            self.note(f"{curve}: {type(error).__name__}: {error}")
        self.seconds[curve] = round(time.monotonic() - began)
        print(f"{curve}: {self.seconds[curve]} s", flush=True)

    def take(self, engine, curve, point, measure, facts=None, work=None):
        """One point: measured again while others disturb it, at most --tries times."""
        for attempt in range(self.args.tries):
            machine.wait_until_quiet(engine.pids(), self.args.quiet_wait, self.args.max_foreign)
            meter = machine.ForeignMeter(engine.pids())
            cpu = machine.cpu_seconds(engine.pids())
            figures = measure(f"{curve}/{point}/{attempt}")
            # Beside others this tells more than the clock does.
            load = {**meter.stop(), "cpu_s": round(machine.cpu_seconds(engine.pids()) - cpu, 2)}
            void = load["foreign_cores"] > self.args.max_foreign
            if work and (limit := limits.limit_of(work, facts, self.roofs)):
                figures["limit_ms"] = 1e3 / limit
            self.points.append({"curve": curve, "point": point, "void": void, **load,
                                "figures": {k: round(v, 5) for k, v in figures.items()}})
            shown = ", ".join(f"{k} {v:.3f}" for k, v in figures.items())
            print(f"{curve} {point}: {shown}; CPU {load['cpu_s']:.2f} s, others {load['foreign_cores']:.2f} cores"
                  f"{' (void)' if void else ''}", flush=True)
            if not void:
                return
            if load["wall_s"] > RETRY_S:
                return self.note(f"{curve} {point}: void, and too long for another try")

    def dummy(self, folder, name, context):
        path = pathlib.Path(folder) / f"dummy-{name}.gguf"
        if not path.exists():
            print(f"writing {path.name}", flush=True)
            gguf.write_dummy(path, self.args.model, SHAPES[name], context=context)
        return path

    def sequences(self, points, folder):
        facts = limits.facts_of(self.args.model)
        most = max(points)
        with self.server(self.args.model, most * 112 * facts.kv_bytes_per_token,
                         "--max-num-seqs", str(most), "--max-num-batched-tokens",
                         str(max(512, most)), "--max-model-len", "512") as engine:
            for count in points:
                work = works.Work("", "", "load", (), count, 32, 64, limit="decode")

                def measure(seed):
                    prompts = client.random_prompts(count, 32, seed)
                    load = client.figures(*client.run_load(engine.url, "", prompts, count, 64))
                    return {"decode_ms": 1e3 / load.get("decode_tok_s", load["out_tok_s"]),
                            "with_prompts_ms": 1e3 / load["out_tok_s"]}
                self.take(engine, "sequences", count, measure, facts, work)

    def context(self, points, folder):
        path = self.dummy(folder, "135M", max(POINTS["context"]) + 256)
        facts = limits.facts_of(path)
        longest = max(points) + 64
        with self.server(path, longest * facts.kv_bytes_per_token, "--max-model-len",
                         str(longest)) as engine:
            for length in points:
                work = works.Work("", "", "load", (), 1, length, 32, limit="decode")

                def measure(seed):
                    prompts = client.random_prompts(1, length, seed)
                    (request,), _ = client.run_load(engine.url, "", prompts, 1, 32)
                    stamps = request["stamps"]
                    rate = (request["tokens"] - 1) / (stamps[-1] - stamps[0])
                    return {"decode_ms": 1e3 / rate,
                            "prefill_ms": 1e3 * (stamps[0] - request["start"]) / length}
                self.take(engine, "context", length, measure, facts, work)

    def queue(self, points, folder):
        facts = limits.facts_of(self.args.model)
        work = works.Work("", "", "load", (), RUNNING, 256, 1, limit="decode")
        for waiting in points:  # a server each: a queue is not emptied, but left
            with self.server(self.args.model, RUNNING * 4096 * facts.kv_bytes_per_token // 4,
                             "--max-num-seqs", str(RUNNING), "--max-model-len", "4096",
                             "--disable-log-requests") as engine:
                self.take(engine, "queue", waiting + 1, lambda seed: {
                    "decode_ms": asyncio.run(behind_a_queue(engine.url, waiting, seed,
                                                            1.0 if self.args.quick else 4.0))},
                          facts, work)

    def size(self, points, folder):
        work = works.Work("", "", "load", (), 1, 128, 32, limit="decode")
        for name in points:
            path = self.dummy(folder, name, 4096)
            facts = limits.facts_of(path)
            self.measure_roofs(facts)
            with self.server(path, 1024 * facts.kv_bytes_per_token, "--max-model-len",
                             "1024") as engine:

                def measure(seed):
                    prompts = client.random_prompts(1, 128, seed)
                    (request,), _ = client.run_load(engine.url, "", prompts, 1, 32)
                    stamps = request["stamps"]
                    return {"decode_ms": 1e3 * (stamps[-1] - stamps[0]) / (request["tokens"] - 1),
                            "prefill_ms": 1e3 * (stamps[0] - request["start"]) / 128}
                self.take(engine, "size", facts.weight_bytes // 10**6, measure, facts, work)
            path.unlink()

    def measure_roofs(self, facts=None):
        sizes = {256, limits.facts_of(self.args.model).weight_bytes >> 20}
        if facts:
            sizes.add(min(facts.weight_bytes >> 20, 1024))
        try:
            found = roofs.median_of([roofs.measure(self.args.bench_kernels, self.args.threads,
                                                   sorted(sizes))])
        except RuntimeError as error:
            return self.note(f"roofs ({error})")
        read = {**(self.roofs or found)["read_gb_s"], **found["read_gb_s"]}
        self.roofs = {**found, "read_gb_s": read}

    def record(self):
        return {"machine": machine.describe(), "threads": self.args.threads, "rounds": 1,
                "max_foreign": self.args.max_foreign, "roofs": self.roofs,
                "models": {"model": os.path.basename(self.args.model)},
                "versions": {"octavo": engines.version_of(self.args.octavo)},
                "commands": self.commands, "notes": self.notes, "seconds": self.seconds,
                "points": self.points}


async def behind_a_queue(url, waiting, seed, window_s):
    """Milliseconds a token of RUNNING streams while `waiting` prompts wait. The clients are dropped
    at the end: the server is not used again."""
    address = urllib.parse.urlparse(url)
    stamps = []

    async def stream(prompt):
        connection = client.Connection(address.hostname, address.port)
        body = {"prompt": prompt, "max_tokens": 3500, "temperature": 0, "stream": True,
                "ignore_eos": True}
        await connection.post(json.dumps(body).encode(), lambda _: stamps.append(time.perf_counter()))

    async def ask(prompts):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        body = json.dumps({"prompt": prompts, "max_tokens": 1}).encode()
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json"
                     b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        status = (await reader.readline()).decode("latin1")
        raise RuntimeError(f"a waiting request was answered: {status.strip()}")

    tasks = [asyncio.create_task(stream(p))
             for p in client.random_prompts(RUNNING, 128, seed)]
    try:
        await until(lambda: len(stamps) >= 4 * RUNNING, tasks)
        prompts = client.random_prompts(waiting, 4, f"{seed}/waiting")
        for i in range(0, waiting, PROMPTS_A_REQUEST):
            tasks.append(asyncio.create_task(ask(prompts[i:i + PROMPTS_A_REQUEST])))
        while await asyncio.to_thread(num_waiting, url) < waiting:
            await until(lambda: True, tasks)
            await asyncio.sleep(0.1)
        begin, before = time.perf_counter(), len(stamps)
        await asyncio.sleep(window_s)
        await until(lambda: True, tasks)
        count = len(stamps) - before
        if not count:
            raise RuntimeError("no token came while prompts waited")
        return 1e3 * (time.perf_counter() - begin) / count
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(reached, tasks, limit_s=120):
    """Waits; raises what a task raised, and when a task has ended early."""
    end = time.monotonic() + limit_s
    while True:
        for task in tasks:
            if task.done():
                task.result()
                raise RuntimeError("a stream ended before the measurement did")
        if reached():
            return
        if time.monotonic() > end:
            raise RuntimeError(f"nothing after {limit_s} s")
        await asyncio.sleep(0.01)


def num_waiting(url):
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("vllm:num_requests_waiting{"):
                return float(line.rsplit(" ", 1)[1])
    return 0.0


def series_of(points, curve):
    """{figure: [(point, value)]} of the valid points."""
    out = {}
    for entry in points:
        if entry["curve"] == curve and not entry["void"]:
            for figure, value in entry["figures"].items():
                out.setdefault(figure, []).append((entry["point"], value))
    return out


def markdown(record):
    lines = report.machine_lines(record)
    for curve in dict.fromkeys(p["curve"] for p in record["points"]):
        series = series_of(record["points"], curve)
        names = list(series)
        lines += ["", f"{AXES[curve][0]}; milliseconds a token:", "",
                  f"| {AXES[curve][0]} | {' | '.join(names)} | share of limit |",
                  "|---" * (len(names) + 2) + "|"]
        for point in dict.fromkeys(p["point"] for p in record["points"] if p["curve"] == curve):
            found = {n: dict(series[n]).get(point) for n in names}
            share = ("–" if not found.get("limit_ms") or not found.get("decode_ms") else
                     f"{100 * found['limit_ms'] / found['decode_ms']:.0f} %")
            cells = " | ".join("void" if found[n] is None else f"{found[n]:.4g}" for n in names)
            lines.append(f"| {point:,} | {cells} | {share} |")
    lines += [""] + [f"- Missing: {note}" for note in record["notes"]]
    return "\n".join(lines + ["Commands:", "```", *record["commands"], "```"]) + "\n"


def write(record, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scale.json").write_text(json.dumps(record, indent=1) + "\n")
    (folder / "scale.md").write_text(markdown(record))
    caption = (f"{record['machine']['cpu']}, {record['threads']} threads, "
               f"{record['machine']['date']}")
    for curve in dict.fromkeys(p["curve"] for p in record["points"]):
        (folder / f"scale-{curve}.svg").write_text(svg.curves(
            f"Cost of a token against {AXES[curve][0]}", caption, *AXES[curve],
            series_of(record["points"], curve)))


def parse_curves(text):
    curves = list(dict.fromkeys(filter(None, text.split(","))))
    for curve in curves:
        if curve not in POINTS:
            raise argparse.ArgumentTypeError(f"{curve} is no curve; known are {', '.join(POINTS)}")
    if not curves:
        raise argparse.ArgumentTypeError("no curve is named")
    return curves


def parse_arguments(argv):
    cache = os.environ.get("OCTAVO_CACHE", os.path.expanduser("~/.cache/octavo"))
    build = ROOT / "build" / "release"
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--out", type=pathlib.Path, required=True)
    add("--curves", type=parse_curves, default=list(POINTS))
    add("--quick", action="store_true")
    add("--model", default=f"{cache}/SmolLM2-135M-Instruct.Q4_1.gguf", help="a GGUF file, a llama")
    add("--octavo", type=pathlib.Path, default=build / "octavo")
    add("--bench-kernels", type=pathlib.Path, default=build / "bench_kernels")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)))
    add("--work-dir", help="for dummy models; default: a temporary folder")
    add("--max-foreign", type=float, default=0.1)
    add("--quiet-wait", type=float, default=4)
    add("--tries", type=int, default=3)
    args = parser.parse_args(argv)
    if not os.access(args.octavo, os.X_OK):
        parser.error(f"{args.octavo} cannot be run")
    if limits.facts_of(args.model) is None:
        parser.error(f"{args.model} is no GGUF file of a decoder")
    return args


def main(argv=None):
    args = parse_arguments(argv)
    scale = Scale(args)
    machine.stop_as_by_keyboard()
    with tempfile.TemporaryDirectory(dir=args.work_dir) as folder:
        try:
            scale.measure_roofs()
            for curve in args.curves:
                scale.run(curve, folder)
        except KeyboardInterrupt:
            scale.note(f"stopped in {curve}" if scale.points else "stopped before the first point")
    record = scale.record()
    write(record, args.out)
    print("\n" + markdown(record))


if __name__ == "__main__":
    main()
