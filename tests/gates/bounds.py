"""Recorded bounds (bounds.json): reading, comparing, recording. Used by both gates."""
import json
import pathlib
import re
import subprocess

PATH = pathlib.Path(__file__).with_name("bounds.json")
ALLOWED_EXCESS = 0.05  # more than so much above the bound fails
WORTH_RECORDING = 0.10  # more than so much below it asks for a new record


def compiler_of(build):
    """"GNU 12.2.0", of a CMake build folder. Counts of two compilers are not comparable."""
    for path in sorted(pathlib.Path(build).glob("CMakeFiles/*/CMakeCXXCompiler.cmake")):
        text = path.read_text()
        name = re.search(r'set\(CMAKE_CXX_COMPILER_ID "([^"]*)"\)', text)
        version = re.search(r'set\(CMAKE_CXX_COMPILER_VERSION "([^"]*)"\)', text)
        if name and version:
            return f"{name.group(1)} {version.group(1)}"
    raise SystemExit(f"{build}: no CMake build folder")


def load():
    return json.loads(PATH.read_text()) if PATH.exists() else {}


def save(section, compiler, values):
    bounds = load()
    bounds["compiler"] = compiler
    bounds[section] = dict(sorted(values.items()))
    PATH.write_text(json.dumps(bounds, indent=1) + "\n")


def judge(value, bound, allowed=ALLOWED_EXCESS):
    """"ok", "worse" or "better": of a figure of which less is better."""
    if value > bound * (1 + allowed) + 1e-9:
        return "worse"
    if value < bound * (1 - WORTH_RECORDING) - 1e-9:
        return "better"
    return "ok"


def compare(measured, bounds, figures_of):
    """Lines about each name, and the counts (passed, failed). `figures_of(entry)` gives the figures
    {kind: (value, allowed excess)} of a measured entry; a bound holds the plain values."""
    lines, passed, failed, better = [], 0, 0, []
    for name in sorted(set(measured) | set(bounds)):
        if name not in measured:
            lines.append(f"FAILED {name}: recorded, and not there any more")
            failed += 1
            continue
        if name not in bounds:
            lines.append(f"FAILED {name}: has no bound")
            failed += 1
            continue
        worse = []
        for kind, (value, allowed) in figures_of(measured[name]).items():
            bound = bounds[name].get(kind, 0)
            verdict = judge(value, bound, allowed)
            change = f"{kind} {value:g} (bound {bound:g})"
            if verdict == "worse":
                worse.append(change)
            elif verdict == "better":
                better.append(f"{name}: {change}")
        if worse:
            lines.append(f"FAILED {name}: {', '.join(worse)}")
            failed += 1
        else:
            passed += 1
    if better:
        lines.append("Better than recorded; run with --record and commit the new bounds:")
        lines += [f"  {line}" for line in better]
    return lines, passed, failed


def run(command, timeout, **kwargs):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, **kwargs)
    except FileNotFoundError:
        raise SystemExit(f"{command[0]} is not installed (tools/install_packages.sh test)") from None
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{command[0]} took more than {timeout} s") from None
