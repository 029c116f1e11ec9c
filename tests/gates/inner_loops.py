#!/usr/bin/env python3
"""The avx512 tiles' inner loops, counted by kind of instruction in the built object files, against
bounds.json. (Callgrind cannot run AVX-512.)

    tests/gates/inner_loops.py [--build build/release] [--record] [--print]

A tile's inner loop is the shortest loop that holds its arithmetic instruction. Figures are per
arithmetic instruction, so that another unrolling compares: all instructions, loads from memory, and
spills (registers to or from the stack; any more than recorded fail). The last line is
"N passed, N failed".
"""
import argparse
import pathlib
import re
import sys

import bounds

ROOT = pathlib.Path(__file__).resolve().parents[2]
# object file, tile, its arithmetic
TILES = [
    ("linear_avx512", "block_tile<SimdAvx512, Q4<false>, 1, 2>", "vpdpbusd"),
    ("linear_avx512", "block_tile<SimdAvx512, Q4<true>, 1, 2>", "vpdpbusd"),
    ("linear_avx512", "block_tile<SimdAvx512, Q4<true>, 6, 2>", "vpdpbusd"),
    ("linear_avx512", "block_tile<SimdAvx512, Q8_0, 1, 2>", "vpdpbusd"),
    ("linear_avx512", "block_tile<SimdAvx512, Q8_0, 6, 2>", "vpdpbusd"),
    ("linear_avx512", "block_tile<SimdAvx512, Q45K<false>, 1, 2>", "vpdpbusd"),
    ("linear_avx512", "block_tile<SimdAvx512, Q45K<false>, 6, 1>", "vpdpbusd"),
    # kinds of blocks: has a minimum, scales of half a block, full bytes
    ("linear_avx512", "unpacked_tile<SimdAvx512, BlockKind<false, false, false>, 6, 2>", "vpdpbusd"),
    ("linear_avx512", "unpacked_tile<SimdAvx512, BlockKind<true, false, false>, 6, 2>", "vpdpbusd"),
    ("linear_avx512", "unpacked_tile<SimdAvx512, BlockKind<false, true, false>, 5, 2>", "vpdpbusd"),
    ("linear_avx512_bf16", "bf16_tile<SimdAvx512Bf16, 1, 4>", "vdpbf16ps"),
    ("linear_avx512_bf16", "bf16_tile<SimdAvx512Bf16, 8, 3>", "vdpbf16ps"),
    ("linear_avx512_core", "f32_tile<SimdAvx512Core, WeightBF16<true>, 1, 4>", "vfmadd"),
    ("linear_avx512_core", "f32_tile<SimdAvx512Core, WeightBF16<true>, 8, 3>", "vfmadd"),
    ("linear_avx512_core", "f32_tile<SimdAvx512Core, WeightF16, 8, 3>", "vfmadd"),
    ("linear_avx512_core", "f32_tile<SimdAvx512Core, WeightF32, 8, 3>", "vfmadd"),
    ("attention_avx512_bf16", "score_tile<SimdAvx512Bf16, KvBF16, 3, 4>", "vdpbf16ps"),
    ("attention_avx512_core", "score_tile<SimdAvx512Core, KvBF16, 4, 2>", "vfmadd"),
    ("attention_avx512_bf16", "value_tile<SimdAvx512Bf16, KvBF16, 3, 4>", "vdpbf16ps"),
    ("attention_avx512_core", "value_tile<SimdAvx512Core, KvBF16, 6, 4>", "vfmadd"),
    ("attention_avx512_core", "panel_tile<SimdAvx512Core, true, 6, 4>", "vfmadd"),
]
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*([^#<]*)")
NAMES_LEFT_OUT = ("octavo::kernels::", "(anonymous namespace)::")
STORES = ("mov", "vmov", "vextract", "vpmov")


def functions_of(disassembly):
    """{demangled name without namespaces, up to the arguments: [(address, mnemonic, operands)]}."""
    functions, current = {}, None
    for line in disassembly.splitlines():
        head = re.match(r"^[0-9a-f]+ <(.*)>:$", line)
        if head:
            name = head.group(1)
            for part in NAMES_LEFT_OUT:
                name = name.replace(part, "")
            current = functions.setdefault(re.sub(r"^void ", "", name).split("(")[0], [])
            continue
        match = INSTRUCTION.match(line)
        if match and current is not None:
            current.append((int(match.group(1), 16), match.group(2), match.group(3).strip()))
    return functions


def loops_of(code):
    """[first, last] indices of the code between a backward jump and where it leads."""
    at = {address: i for i, (address, _, _) in enumerate(code)}
    loops = []
    for i, (_, mnemonic, operands) in enumerate(code):
        if mnemonic.startswith("j") and re.fullmatch(r"[0-9a-f]+", operands):
            target = at.get(int(operands, 16))
            if target is not None and target <= i:
                loops.append((target, i))
    return loops


def uses_frame(code):
    return any(m == "mov" and o == "%rsp,%rbp" for _, m, o in code[:12])


def inner_loop(code, arithmetic):
    """The shortest loop with the arithmetic in it, as code; None when there is none."""
    found = [loop for loop in loops_of(code)
             if any(m.startswith(arithmetic) for _, m, _ in code[loop[0]:loop[1] + 1])]
    if not found:
        return None
    first, last = min(found, key=lambda loop: loop[1] - loop[0])
    return code[first:last + 1]


def count_kinds(loop, arithmetic, frame):
    kinds = {"all": len(loop), "arithmetic": 0, "loads": 0, "spills": 0}
    stack = re.compile(r"\(%rsp|\(%rbp" if frame else r"\(%rsp")
    for _, mnemonic, operands in loop:
        kinds["arithmetic"] += mnemonic.startswith(arithmetic)
        if "(" not in operands or mnemonic.startswith(("lea", "prefetch", "nop", "cs", "data16")):
            continue
        if stack.search(operands):
            kinds["spills"] += 1
        elif not (mnemonic.startswith(STORES) and operands.endswith(")")):
            kinds["loads"] += 1
    return kinds


def per_arithmetic(kinds):
    n = kinds["arithmetic"]
    return {"all": round(kinds["all"] / n, 4), "loads": round(kinds["loads"] / n, 4),
            "spills": round(kinds["spills"] / n, 4)}


def measure(build):
    measured, disassembled = {}, {}
    for stem, tile, arithmetic in TILES:
        if stem not in disassembled:
            objects = list(pathlib.Path(build).glob(f"**/{stem}.cc.o"))
            if len(objects) != 1:
                sys.exit(f"{build}: {len(objects)} objects {stem}.cc.o, not 1")
            done = bounds.run(["objdump", "-dC", "--no-show-raw-insn", str(objects[0])], 120)
            disassembled[stem] = functions_of(done.stdout)
        code = disassembled[stem].get(tile)
        loop = inner_loop(code, arithmetic) if code else None
        if loop:
            measured[tile] = per_arithmetic(count_kinds(loop, arithmetic, uses_frame(code)))
        else:
            print(f"{tile}: {'no loop with ' + arithmetic if code else 'no such function'}")
    return measured


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--print", action="store_true", help="all figures, not only the bad ones")
    args = parser.parse_args()
    compiler = bounds.compiler_of(args.build)
    measured = measure(args.build)
    if args.print or args.record:
        print(f"{'per arithmetic instruction':52} all    loads  spills")
        for name, kinds in measured.items():
            print(f"{name:52} {kinds['all']:.3f}  {kinds['loads']:.3f}  {kinds['spills']:.3f}")
    if args.record:
        return bounds.save("inner_loops", compiler, measured)
    recorded = bounds.load()
    if recorded.get("compiler") != compiler:
        print(f"skipped: recorded with {recorded.get('compiler')}, built with {compiler}")
        return print("0 passed, 0 failed")
    lines, passed, failed = bounds.compare(
        measured, recorded["inner_loops"],
        lambda kinds: {"all": (kinds["all"], bounds.ALLOWED_EXCESS),
                       "loads": (kinds["loads"], bounds.ALLOWED_EXCESS),
                       "spills": (kinds["spills"], 0.0)})
    print("\n".join(lines + [f"{passed} passed, {failed} failed"]))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
