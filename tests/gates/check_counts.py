#!/usr/bin/env python3
"""Instructions per unit of work of the hot paths, under callgrind, against bounds.json.

    tests/gates/check_counts.py [--build build/release] [--model M.gguf] [--record] [--print]

Callgrind counts; it measures no time, so a busy machine changes nothing. It cannot run AVX-512: the
kernels run in their avx2 rows (inner_loops.py is the gate of the others). More than 5 % above a
bound fails; more than 10 % below asks to record the better figure. --record writes what was counted.
The last line is "N passed, N failed".
"""
import argparse
import os
import pathlib
import re
import sys
import tempfile

import bounds

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIME_LIMIT_S = 300


def default_model():
    cache = os.environ.get("OCTAVO_CACHE", os.path.expanduser("~/.cache/octavo"))
    return os.environ.get("OCTAVO_TEST_GGUF", f"{cache}/SmolLM2-135M-Instruct.Q4_1.gguf")


def totals_of(folder):
    """{name of the dump: instructions} of the files that callgrind wrote."""
    totals = {}
    for path in pathlib.Path(folder).glob("counts.*"):
        text = path.read_text(errors="replace")
        name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE)
        total = re.search(r"^totals: (\d+)$", text, re.MULTILINE)
        if name and total:
            totals[name.group(1)] = int(total.group(1))
    return totals


def count(program, model):
    """{path: {"unit", "instructions"}} of one run of hot_paths."""
    with tempfile.TemporaryDirectory() as folder:
        done = bounds.run(["valgrind", "--tool=callgrind", "--instr-atstart=no",
                           f"--callgrind-out-file={folder}/counts", str(program), model],
                          TIME_LIMIT_S)
        if done.returncode != 0:
            sys.exit(f"{program.name} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        totals = totals_of(folder)
    measured = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if words[:1] == ["path"]:
            name, unit, num_units = words[1], words[2], float(words[3])
            if not totals.get(name):
                sys.exit(f"callgrind counted nothing for {name}")
            measured[name] = {"unit": unit, "instructions": round(totals[name] / num_units, 2)}
        elif words[:1] == ["skipped"]:
            print(line)
    return measured


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--model", default=default_model())
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--print", action="store_true", help="all figures, not only the bad ones")
    args = parser.parse_args()
    program = args.build / "hot_paths"
    if not program.exists():
        sys.exit(f"{program} is not built (is valgrind's header there?)")
    if not os.path.exists(args.model):
        sys.exit(f"no model at {args.model}")
    compiler = bounds.compiler_of(args.build)
    measured = count(program, args.model)
    if args.print or args.record:
        for name, entry in sorted(measured.items()):
            print(f"{name:32} {entry['instructions']:14,.2f} instructions a {entry['unit']}")
    if args.record:
        return bounds.save("paths", compiler, measured)
    recorded = bounds.load()
    if recorded.get("compiler") != compiler:
        print(f"skipped: recorded with {recorded.get('compiler')}, built with {compiler}")
        return print("0 passed, 0 failed")
    lines, passed, failed = bounds.compare(
        measured, recorded["paths"],
        lambda entry: {"instructions": (entry["instructions"], bounds.ALLOWED_EXCESS)})
    print("\n".join(lines + [f"{passed} passed, {failed} failed"]))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
