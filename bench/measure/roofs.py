"""The machine's roofs, from `bench_kernels roofs`."""
import json
import statistics
import subprocess


def measure(binary, threads, mebibytes):
    """One object as the program prints it; a RuntimeError says why there is none."""
    try:
        done = subprocess.run([str(binary), str(threads), "roofs", *map(str, mebibytes)],
                              capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise RuntimeError(f"{binary} ended with {done.returncode}: {done.stderr[-200:]}")
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"{binary}: {error}") from error


def median_of(runs):
    """The median of several measurements, figure by figure; None of none."""
    if not runs:
        return None
    out = dict(runs[0])
    for key in ("f32_gflop_s", "bf16_gflop_s", "int8_gop_s"):
        out[key] = statistics.median(run[key] for run in runs)
    out["read_gb_s"] = {size: round(statistics.median(run["read_gb_s"][size] for run in runs), 1)
                        for size in runs[0]["read_gb_s"]}
    out["n"] = len(runs)
    return out
