#!/usr/bin/env python3
"""Our style as a program: import order, self-contained headers, banned calls, leftover marks, sizes.

    tools/tidy.py                 check everything; exit 1 on a finding
    tools/tidy.py --write-sizes   record today's oversize files and functions (the ratchet)

Rooms and arrows are in tools/rooms.txt. Sizes are a ratchet: what is listed in tools/sizes.txt may
shrink, nothing else may pass 800 lines a file or 70 a function.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
MAX_FILE, MAX_FUNCTION = 800, 70

BANNED = [  # pattern, what to use instead
    (r"\bstd::cout\b", "base/log.h (or fmt::print in cli/)"),
    (r"\bassert\s*\(", "CHECK"),
    (r"\bsprintf\s*\(", "fmt::format"),
    (r"\bstrcpy\s*\(", "std::string"),
    (r"\bgets\s*\(", "bounded reads"),
    (r"\batoi\s*\(|\batof\s*\(", "std::from_chars"),
    (r"\bstd::stoi\b|\bstd::stol\b|\bstd::stof\b|\bstd::stod\b", "std::from_chars"),
    (r"\bstd::regex\b", "PCRE2 with match limits, or a scanner"),
    (r"\brand\s*\(\s*\)", "base/random.h"),
    (r"\bsleep_for\b", "a clock or a condition variable"),
    (r"\busing namespace std\b", "qualified names"),
]
ALLOWED = {  # file suffix -> patterns allowed there, with the reason in the file itself
    "engine/fault.cc": [r"\bsleep_for\b"],
    "server/server.cc": [r"\bsleep_for\b"],  # bounded wait at shutdown, on the owner's thread
}
IN_TESTS = ("sleep_for", "std::sto", "using namespace std")  # polling with a limit, own output
MARKS = re.compile(r"\b(FIXME|XXX|HACK)\b|\bTODO\b(?!\(#\d+\))")


def sources():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "src", "tests", "bench"],
                         cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / f for f in out.split() if f.endswith((".cc", ".h")) and (ROOT / f).exists()]


def read_rooms():
    rooms = {}
    for line in (ROOT / "tools" / "rooms.txt").read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            name, _, rest = line.partition(":")
            rooms[name.strip()] = rest.split()
    return rooms


def check_includes(path, text, rooms, problems):
    rel = path.relative_to(SRC)
    room = rel.parts[0]
    if room not in rooms:
        problems.append(f"{rel}: room '{room}' is not in tools/rooms.txt")
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'#include "([^"]+)"', line)
        if not match:
            continue
        target = match.group(1)
        to = target.split("/")[0]
        if to == room:
            continue
        if to not in rooms[room]:
            problems.append(f"src/{rel}:{number}: {room} may not include {target} (tools/rooms.txt)")
        elif to == "engine" and target not in rooms["engine-public"]:
            problems.append(f"src/{rel}:{number}: above engine only {rooms['engine-public']}")


def check_text(path, text, problems):
    rel = str(path.relative_to(ROOT))
    allowed = [p for suffix, patterns in ALLOWED.items() if rel.endswith(suffix) for p in patterns]
    is_test = (rel.endswith(("_test.cc", "test_support.h")) or rel.startswith("tests/"))
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//")[0]
        for pattern, instead in BANNED:
            if pattern in allowed or (is_test and any(word in pattern for word in IN_TESTS)):
                continue
            if re.search(pattern, code):
                problems.append(f"{rel}:{number}: banned '{pattern}'; use {instead}")
        if MARKS.search(line):
            problems.append(f"{rel}:{number}: leftover mark; an open point is an issue: TODO(#N)")
        if re.search(r"co_await[^;]*\[[&=]", code):
            problems.append(f"{rel}:{number}: lambda with captures in co_await (g++ 12 frees twice)")
    if rel.endswith(".h") and "#pragma once" not in text:
        problems.append(f"{rel}: no #pragma once")


def functions(text):
    """(first line, length) of top-level bodies: lines that end in '{' at indent 0 or 2 and are no type."""
    lines = text.splitlines()
    start = None
    for i, line in enumerate(lines):
        if start is None:
            if (re.match(r"(  )?[A-Za-z~].*\)[^;={]*\{$", line)
                    and not re.match(r"\s*(namespace|class|struct|enum|union|extern)\b", line)):
                start, closing = i, re.match(r"\s*", line).group() + "}"
        elif line.rstrip() in (closing, closing + ";"):
            yield start + 1, i - start + 1
            start = None


def check_sizes(path, text, known, found, problems):
    rel = str(path.relative_to(ROOT))
    lines = text.count("\n")
    if rel.endswith(("_table.cc", "_tables.cc", "_tables.h")):
        return  # generated or plain data
    def note(key, size, limit, what):
        if size <= limit:
            return
        found[key] = size
        if size > known.get(key, limit):
            problems.append(f"{key}: {what} of {size} lines (limit {known.get(key, limit)})")
    note(rel, lines, MAX_FILE, "file")
    worst = max((size for _, size in functions(text)), default=0)
    note(rel + "#function", worst, MAX_FUNCTION, "longest function")


def check_header(path):
    command = ["g++", "-std=c++20", "-fsyntax-only", "-x", "c++", "-I", str(SRC),
               "-w", '-DOCTAVO_SOURCE_DIR=""', str(path)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        return f"{path.relative_to(ROOT)}: does not compile alone: {result.stderr.splitlines()[0]}"
    return None


def main():
    sizes_file = ROOT / "tools" / "sizes.txt"
    known = {}
    if sizes_file.exists():
        for line in sizes_file.read_text().splitlines():
            if line and not line.startswith("#"):
                key, size = line.rsplit(" ", 1)
                known[key] = int(size)
    rooms, problems, found = read_rooms(), [], {}
    headers = []
    for path in sources():
        text = path.read_text()
        if SRC in path.parents:
            check_includes(path, text, rooms, problems)
            if path.suffix == ".h":
                headers.append(path)
        check_text(path, text, problems)
        check_sizes(path, text, known, found, problems)
    for room in sorted({p.relative_to(SRC).parts[0] for p in sources() if SRC in p.parents}):
        if not (SRC / room / "README.md").exists():
            problems.append(f"src/{room}: no README.md")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems += [p for p in pool.map(check_header, headers) if p]
    if "--write-sizes" in sys.argv:
        body = "".join(f"{k} {v}\n" for k, v in sorted(found.items()))
        sizes_file.write_text("# Oversize today; may only shrink (tools/tidy.py --write-sizes).\n" + body)
        problems = [p for p in problems if " lines (limit" not in p]
    for problem in problems:
        print(problem)
    print(f"tidy: {len(headers)} headers, {len(problems)} findings")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
