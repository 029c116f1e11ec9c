"""The machine: what it is, who else uses it, what a process tree costs."""
import datetime
import os
import pathlib
import platform
import signal
import time

TICK = os.sysconf("SC_CLK_TCK")


def stop_as_by_keyboard():
    """A terminated run stops like an interrupted one, and writes what it has. Runs in the
    background start with SIGINT ignored: it counts again."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


def read(path, default=""):
    try:
        return pathlib.Path(path).read_text(errors="replace").strip()
    except OSError:
        return default


def describe():
    """{"cpu", "cores", "governor", "flags", "memory_gib", "kernel", "date"}."""
    info = read("/proc/cpuinfo")
    fields = dict(line.split(":", 1)
                  for line in info.split("\n\n")[0].splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    flags = set(fields.get("flags", "").split())
    wanted = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
    memory = [line for line in read("/proc/meminfo").splitlines() if line.startswith("MemTotal")]
    return {
        "cpu": fields.get("model name", platform.processor() or "unknown"),
        "family_model_stepping": "/".join(fields.get(k, "?")
                                          for k in ("cpu family", "model", "stepping")),
        "cores": len(os.sched_getaffinity(0)),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "not reported"),
        "flags": " ".join(flag for flag in wanted if flag in flags) or "none of AVX2 and later",
        "memory_gib": round(int(memory[0].split()[1]) / 2**20, 1) if memory else None,
        "kernel": platform.release(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


def process_tree(pid):
    """The process and all its descendants."""
    children = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(read(f"/proc/{entry}/stat").rsplit(")", 1)[1].split()[1])
        except (IndexError, ValueError):
            continue
        children.setdefault(parent, []).append(int(entry))
    tree, todo = [], [pid]
    while todo:
        tree.append(todo.pop())
        todo += children.get(tree[-1], [])
    return tree


def cpu_seconds(pids):
    """CPU time so far of these processes and their reaped children."""
    total = 0
    for pid in pids:
        try:
            fields = read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
            total += sum(int(f) for f in fields[11:15])
        except (IndexError, ValueError):
            pass
    return total / TICK


def rss_mib(pids):
    """(resident now, sum of peaks)."""
    now = peak = 0
    for pid in pids:
        for line in read(f"/proc/{pid}/status").splitlines():
            if line.startswith("VmRSS"):
                now += int(line.split()[1])
            elif line.startswith("VmHWM"):
                peak += int(line.split()[1])
    return now / 1024, peak / 1024


def busy_seconds():
    values = [int(v) for v in read("/proc/stat").splitlines()[0].split()[1:9]]
    return (sum(values) - values[3] - values[4] - values[7]) / TICK


def owner_of_port(port):
    """The process that listens on a port of this machine, or None."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read(table).splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            for fd in os.listdir(f"/proc/{entry}/fd"):
                if os.readlink(f"/proc/{entry}/fd/{fd}") in inodes:
                    return int(entry)
        except OSError:
            continue
    return None


class ForeignMeter:
    """Mean cores that others used between the start and `stop`: all busy time less that of the
    measured processes, of this one and of the children it has waited for. `pids` may be set later,
    to processes that began meanwhile."""

    def __init__(self, pids):
        self.pids = list(pids)
        self.start = self.sample()

    def sample(self):
        return time.monotonic(), busy_seconds(), cpu_seconds(self.pids), sum(os.times()[:4])

    def stop(self):
        wall, busy, measured, own = (b - a for a, b in zip(self.start, self.sample()))
        wall = max(wall, 1 / TICK)
        return {"foreign_cores": round(max(0.0, (busy - measured - own) / wall), 3),
                "wall_s": round(wall, 3)}


def wait_until_quiet(pids, limit_s, cores):
    """Waits until others use fewer than `cores` cores for half a second, or the limit has passed."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        meter = ForeignMeter(pids)
        time.sleep(0.5)
        if meter.stop()["foreign_cores"] < cores:
            return True
    return limit_s <= 0
