#!/usr/bin/env python3
"""Octavo beside other engines on the same models, in one run: the table of docs/performance.md.

    bench/peers.py --peer llama=llama-server:PATH --peer ik=ik-bench:PATH \\
                   --peer vllm=url:http://127.0.0.1:8000@bf16 --model bf16=M.gguf --model q4=N.gguf \\
                   --json OUT.json --markdown OUT.md --svg OUT.svg

A peer is NAME=KIND:TARGET, and takes part in all models or in those of @LABEL[,LABEL]:
    llama-server:PATH   llama.cpp's server        ik-bench:PATH    ik_llama.cpp's bench (-rtr 1)
    llama-bench:PATH    llama.cpp's bench         openvino:PYTHON  a Python with openvino_genai
    url:URL             any OpenAI server that runs already on this machine (vLLM, ...)
It builds and downloads nothing. Works (--works, with sizes as in burst-16 or prefill-2048):
    start    exec to ready, and to the first completion       memory   of the idle server
    decode   one stream, 128 + 128                             prefill  N ids, N / time to first token
    peak     memory after these                                burst    C at once, 128 + 128
    serve    64 requests 256 + 128, C at once                  prefix   the same, 512 shared + 32
Prompts are random ids, greedy, ignore_eos. In each round every engine does all works of a model in
turn: A B A B, many streams after a first load that does not count. Roofs are measured before each
round. A sample during which other processes used more than --max-foreign cores is void; it is
repeated up to --tries times and kept in the JSON only.
"""
import argparse
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from measure import engines, limits, machine, report, roofs, works  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = ("llama-server", "llama-bench", "ik-bench", "url", "openvino")


def parse_peer(text):
    """(name, kind, target, labels or None) of NAME=KIND:TARGET[@LABEL,...]."""
    match = re.fullmatch(r"([\w.+-]+)=([a-z-]+):(.+?)(?:@([\w.,+-]+))?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=KIND:TARGET[@LABEL,...]")
    name, kind, target, labels = match.groups()
    if kind not in KINDS:
        raise argparse.ArgumentTypeError(f"{kind} is no kind of peer; known are {', '.join(KINDS)}")
    if name == report.OURS:
        raise argparse.ArgumentTypeError(f"a peer cannot be called {report.OURS}")
    if kind == "url":
        if not re.fullmatch(r"http://(127\.0\.0\.1|localhost)(:\d+)?/?", target):
            raise argparse.ArgumentTypeError(f"{target} is no http URL of this machine")
    elif not os.access(target, os.X_OK):
        raise argparse.ArgumentTypeError(f"{target} cannot be run")
    return name, kind, target, labels.split(",") if labels else None


def parse_model(text):
    label, _, path = text.partition("=")
    if not re.fullmatch(r"[\w.+-]+", label) or not path:
        raise argparse.ArgumentTypeError(f"{text} is not LABEL=PATH")
    if not os.path.exists(path):
        raise argparse.ArgumentTypeError(f"{path} does not exist")
    return label, path


def parse_works(text):
    try:
        return works.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive(text):
    if not text.isdigit() or not 0 < int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 1000")
    return int(text)


def parse_arguments(argv):
    cache = os.environ.get("OCTAVO_CACHE", os.path.expanduser("~/.cache/octavo"))
    build = ROOT / "build" / "release"
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--peer", action="append", type=parse_peer, default=[], metavar="NAME=KIND:TARGET[@LABEL]")
    add("--model", action="append", type=parse_model, default=[], metavar="LABEL=PATH",
        help="a GGUF file, or an HF directory for engines that read one; default: SmolLM2 Q4_1")
    add("--works", type=parse_works, default=works.DEFAULT)
    add("--rounds", type=positive, default=3)
    add("--threads", type=positive, default=len(os.sched_getaffinity(0)))
    add("--octavo", type=pathlib.Path, default=build / "octavo")
    add("--octavo-flag", action="append", default=[], help="one more flag for octavo serve")
    add("--kv-bytes", default="192M", help="octavo's KV cache in works of one stream")
    add("--kv-bytes-many", default="1536M", help="and in burst, serve and prefix")
    add("--bench-kernels", type=pathlib.Path, default=build / "bench_kernels",
        help="measures the roofs (built with -DOCTAVO_BENCH=ON)")
    add("--max-foreign", type=float, default=0.1, help="cores")
    add("--quiet-wait", type=float, default=4, help="seconds to wait for others before a sample")
    add("--tries", type=positive, default=3)
    add("--json")
    add("--markdown")
    add("--svg")
    args = parser.parse_args(argv)
    if not os.access(args.octavo, os.X_OK):
        parser.error(f"{args.octavo} cannot be run")
    names = [peer[0] for peer in args.peer]
    labels = [label for label, _ in args.model]
    for what, values in (("peer", names), ("model", labels)):
        if len(values) != len(set(values)):
            parser.error(f"two of the --{what} have the same name")
    args.model = dict(args.model) or {"q4_1": f"{cache}/SmolLM2-135M-Instruct.Q4_1.gguf"}
    for name, _, _, wanted in args.peer:
        for label in wanted or []:
            if label not in args.model:
                parser.error(f"peer {name}: there is no model {label}")
    return args


def make_engines(args):
    out = [engines.Octavo(args.octavo, args.threads,
                          {"one": args.kv_bytes, "many": args.kv_bytes_many}, args.octavo_flag)]
    for name, kind, target, labels in args.peer:
        if kind == "llama-server":
            out.append(engines.LlamaServer(name, labels, target, args.threads))
        elif kind == "url":
            out.append(engines.UrlServer(name, labels, target))
        elif kind == "openvino":
            out.append(engines.OpenVino(name, labels, target, args.threads))
        else:
            out.append(engines.LlamaBench(name, labels, target, args.threads, kind == "ik-bench"))
    return out


class Run:
    """Takes the samples and keeps what is written at the end."""

    def __init__(self, args):
        self.args = args
        self.samples, self.notes, self.roof_runs = [], [], []

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)
            print(f"! {text}", flush=True)

    def measure_roofs(self):
        sizes = {256}
        for path in self.args.model.values():
            facts = limits.facts_of(path)
            if facts:
                sizes.add(max(1, facts.weight_bytes >> 20))
        try:
            self.roof_runs.append(roofs.measure(self.args.bench_kernels, self.args.threads,
                                                sorted(sizes)))
        except RuntimeError as error:
            self.note(f"roofs ({error})")

    def sample(self, engine, work, label, path, round_index):
        for attempt in range(self.args.tries):
            machine.wait_until_quiet(engine.pids(), self.args.quiet_wait, self.args.max_foreign)
            meter = machine.ForeignMeter(engine.pids())
            figures = engine.measure(work, path, f"{label}/{round_index}/{attempt}")
            load = meter.stop()
            # What was noted at the start, or lies in memory, is not disturbed now.
            void = (work.kind in ("decode", "prefill", "load") and
                    load["foreign_cores"] > self.args.max_foreign)
            self.keep(engine, work, label, round_index, figures, load, void)
            if not void:
                return

    def keep(self, engine, work, label, round_index, figures, load, void):
        self.samples.append({"model": label, "work": work.key, "engine": engine.name,
                             "round": round_index, "void": void, **load,
                             "figures": {k: round(v, 4) for k, v in figures.items()}})
        shown = ", ".join(f"{row.figure} {figures[row.figure]:.2f}" for row in work.rows
                          if row.figure in figures)
        print(f"round {round_index} {label} {engine.name} {work.key}: {shown}; others "
              f"{load['foreign_cores']:.2f} cores{' (void)' if void else ''}", flush=True)

    def warm(self, engine, group_works, path, seed):
        """A first load of its size, with other prompts: a server that has just started still takes
        its memory from the system (on a virtual machine at less than 1 GB/s)."""
        loads = [w for w in group_works if w.kind == "load"]
        engine.measure(max(loads, key=lambda w: w.streams, default=works.prefill(32)), path, seed)

    def run_engine(self, engine, label, path, group, group_works, round_index):
        mine = [w for w in group_works if engine.takes(label, path, w)]
        if not mine:
            return
        meter = machine.ForeignMeter([])
        try:
            engine.start(path, group)
            meter.pids = engine.pids()
            load = meter.stop()
            if engine.is_server:  # before anything is counted
                self.warm(engine, mine, path, f"warm/{label}/{round_index}/{group}")
            for work in mine:
                try:
                    if work.kind == "start":
                        self.keep(engine, work, label, round_index,
                                  engine.measure(work, path, ""), load, False)
                    else:
                        self.sample(engine, work, label, path, round_index)
                except engines.Failed as error:
                    self.note(f"{engine.name}, {label}, {work.key}: {error}")
        except engines.Failed as error:
            self.note(f"{engine.name}, {label}: {error}")
        finally:
            engine.stop()

    def run_round(self, all_engines, round_index):
        self.measure_roofs()
        for label, path in self.args.model.items():
            for group in ("one", "many"):
                group_works = [w for w in self.args.works if w.group == group]
                for engine in all_engines:
                    self.run_engine(engine, label, path, group, group_works, round_index)

    def record(self, all_engines):
        return {"machine": machine.describe(), "threads": self.args.threads,
                "rounds": self.args.rounds, "max_foreign": self.args.max_foreign,
                "engines": [e.name for e in all_engines],
                "versions": {e.name: e.version() for e in all_engines},
                "models": {label: os.path.basename(os.path.normpath(path))
                           for label, path in self.args.model.items()},
                "roofs": roofs.median_of(self.roof_runs), "notes": self.notes,
                "commands": [c for e in all_engines for c in e.commands],
                "samples": self.samples}


def main(argv=None):
    args = parse_arguments(argv)
    try:
        all_engines = make_engines(args)
    except engines.Failed as error:
        sys.exit(f"peers.py: {error}")
    run = Run(args)
    machine.stop_as_by_keyboard()
    try:
        for round_index in range(args.rounds):
            run.run_round(all_engines, round_index)
    except KeyboardInterrupt:
        run.note(f"stopped in round {round_index}")
    record = run.record(all_engines)
    table = report.summarise(record, args.works, args.model)
    report.write(record, table, args.json, args.markdown, args.svg)
    print("\n" + report.markdown(record, table))


if __name__ == "__main__":
    main()
