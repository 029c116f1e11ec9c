"""What is measured: Octavo and its peers, as servers or as their own bench programs."""
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.parse

from measure import client, machine

START_LIMIT_S = 300
BENCH_LIMIT_S = 900


class Failed(Exception):
    """The engine could not do a work; the run goes on without the cell."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Engine:
    """`models`: labels it takes part in, or None for all."""
    is_server = False

    def __init__(self, name, models=None):
        self.name, self.models = name, models
        self.commands = []  # as run, for the record

    def takes(self, label, path, work):
        return self.models is None or label in self.models

    def start(self, path, group):
        """Brings it up for the works of a group."""

    def stop(self):
        """Takes it down again."""

    def pids(self):
        return []

    def measure(self, work, path, seed):
        """{figure: value} of one work."""
        raise NotImplementedError

    def remember(self, command):
        """For the record, which may be published: paths by their last part."""
        text = " ".join(os.path.basename(str(part)) if os.path.isabs(str(part)) else str(part)
                        for part in command)
        if text not in self.commands:
            self.commands.append(text)

    def version(self):
        """What the program says of itself, one line."""
        return "not reported"


class HttpEngine(Engine):
    """An OpenAI server at `self.url`."""
    is_server = True
    url = None
    model = ""

    def measure(self, work, path, seed):
        try:
            if work.kind == "decode":
                return self._decode(work, seed)
            if work.kind == "prefill":
                return self._prefill(work, seed)
            if work.kind == "load":
                return self._load(work, seed)
        except (OSError, RuntimeError, TimeoutError, EOFError, ValueError) as error:
            raise Failed(f"{type(error).__name__}: {error}") from error
        idle, peak = machine.rss_mib(self.pids())
        return {"idle_mib": idle} if work.kind == "memory" else {"peak_mib": peak}

    def _decode(self, work, seed):
        rates = []
        for prompt in client.random_prompts(work.requests, work.prompt, f"{seed}/decode"):
            (request,), _ = client.run_load(self.url, self.model, [prompt], 1, work.new)
            seconds = request["stamps"][-1] - request["stamps"][0]
            if request["tokens"] < work.new or seconds <= 0:
                raise RuntimeError(f"{request['tokens']} of {work.new} tokens came")
            rates.append((request["tokens"] - 1) / seconds)
        return {"decode_tok_s": statistics.median(rates)}

    def _prefill(self, work, seed):
        times = []
        for prompt in client.random_prompts(work.requests, work.prompt, f"{seed}/{work.key}"):
            (request,), _ = client.run_load(self.url, self.model, [prompt], 1, work.new)
            times.append(request["stamps"][0] - request["start"])
        return {"prefill_tok_s": work.prompt / statistics.median(times)}

    def _load(self, work, seed):
        prompts = client.random_prompts(work.requests, work.prompt, f"{seed}/{work.key}", work.prefix)
        if work.prefix:  # the shared part is there already, as in a service that has run a while
            client.run_load(self.url, self.model, [prompts[0][:work.prefix] + [7]], 1, 1)
        requests, wall = client.run_load(self.url, self.model, prompts, work.streams, work.new)
        short = sum(r["tokens"] < work.new for r in requests)
        if short:
            raise RuntimeError(f"{short} of {len(requests)} answers are short")
        return client.figures(requests, wall)


class LaunchedServer(HttpEngine):
    """A server that this script starts and stops."""

    def __init__(self, name, models, ready_path):
        super().__init__(name, models)
        self.ready_path = ready_path
        self.process = self.log = None
        self.figures = {}

    def command(self, path, group, port):
        raise NotImplementedError

    def start(self, path, group):
        port = free_port()
        command = self.command(path, group, port)
        self.remember(["…" if str(part) == str(port) else part for part in command])
        began = time.perf_counter()
        try:
            self.log = tempfile.TemporaryFile()  # a pipe that nobody reads would stop the server
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log,
                                            start_new_session=True)
        except OSError as error:
            raise Failed(f"{command[0]}: {error}") from error
        self.url = f"http://127.0.0.1:{port}"
        try:
            ready = self._wait(lambda: self._status("GET", self.ready_path), began)
            first = self._wait(self._first_completion, began)
        except Failed:
            self.stop()
            raise
        self.figures = {"ready_s": ready, "first_completion_s": first}

    def measure(self, work, path, seed):
        return dict(self.figures) if work.kind == "start" else super().measure(work, path, seed)

    def _first_completion(self):
        return self._status("POST", "/v1/completions",
                            json.dumps({"prompt": [1, 2, 3, 4], "max_tokens": 1}))

    def _status(self, method, path, body=None):
        address = urllib.parse.urlparse(self.url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            return answer.status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def _wait(self, status, began):
        while status() != 200:
            if self.process.poll() is not None:
                raise Failed(f"{self.name} ended with {self.process.returncode}: "
                             f"{self.last_words()}; {self.commands[-1]}")
            if time.perf_counter() - began > START_LIMIT_S:
                raise Failed(f"{self.name} is not ready after {START_LIMIT_S} s")
            time.sleep(0.002)
        return time.perf_counter() - began

    def last_words(self):
        """The last line that the server wrote to stderr."""
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - 4096))
        lines = self.log.read().decode(errors="replace").split("\n")
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "no word")

    def version(self):
        return version_of(self.binary)

    def pids(self):
        return machine.process_tree(self.process.pid) if self.process else []

    def stop(self):
        if not self.process:
            return
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None:
                os.killpg(self.process.pid, sign)
            try:
                self.process.wait(20)
                break
            except subprocess.TimeoutExpired:
                continue
        self.process = None
        self.log.close()


class Octavo(LaunchedServer):
    def __init__(self, binary, threads, kv_bytes, extra=()):
        super().__init__("octavo", None, "/health")
        self.binary, self.threads, self.kv_bytes, self.extra = binary, threads, kv_bytes, extra

    def command(self, path, group, port):
        return [str(self.binary), "serve", str(path), "--host", "127.0.0.1", "--port", str(port),
                "--num-threads", str(self.threads), "--kv-cache-memory-bytes",
                self.kv_bytes[group], *self.extra]


class LlamaServer(LaunchedServer):
    SLOTS = {"one": ("4", "16384"), "many": ("64", "65536")}

    def __init__(self, name, models, binary, threads, extra=()):
        super().__init__(name, models, "/health")
        self.binary, self.threads, self.extra = binary, threads, extra

    def takes(self, label, path, work):
        return super().takes(label, path, work) and pathlib.Path(path).is_file()

    def command(self, path, group, port):
        slots, context = self.SLOTS[group]
        return [str(self.binary), "-m", str(path), "--host", "127.0.0.1", "--port", str(port),
                "-t", str(self.threads), "-tb", str(self.threads), "-c", context, "-np", slots,
                "--no-webui", *self.extra]


class UrlServer(HttpEngine):
    """A server that runs already. Its start cannot be measured."""

    def __init__(self, name, models, url):
        super().__init__(name, models)
        self.url = url.rstrip("/")
        address = urllib.parse.urlparse(self.url)
        try:
            connection = http.client.HTTPConnection(address.hostname, address.port or 80, timeout=10)
            connection.request("GET", "/v1/models")
            self.model = json.loads(connection.getresponse().read())["data"][0]["id"]
        except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError) as error:
            raise Failed(f"{self.url}/v1/models: {type(error).__name__}: {error}") from error
        self.owner = machine.owner_of_port(address.port or 80)
        self.remember([f"{self.url} serving {self.model}"])

    def takes(self, label, path, work):
        return super().takes(label, path, work) and work.kind not in ("start",) and (
            self.owner is not None or work.kind not in ("memory", "peak"))

    def pids(self):
        return machine.process_tree(self.owner) if self.owner else []


class LlamaBench(Engine):
    """llama.cpp's bench program, or ik_llama.cpp's, which repacks at load when told."""

    def __init__(self, name, models, binary, threads, is_ik):
        super().__init__(name, models)
        self.binary, self.threads, self.is_ik = binary, threads, is_ik

    def takes(self, label, path, work):
        return (super().takes(label, path, work) and pathlib.Path(path).is_file() and
                work.kind in ("decode", "prefill"))

    def arguments(self, work):
        if work.kind == "prefill":
            return ["-p", str(work.prompt), "-n", "0"]
        if self.is_ik:
            return ["-p", "0", "-n", "0", "-gp", f"{work.prompt},{work.new}"]
        return ["-p", "0", "-n", str(work.new), "-d", str(work.prompt)]

    def measure(self, work, path, seed):
        command = [str(self.binary), "-m", str(path), "-t", str(self.threads),
                   *self.arguments(work), "-r", str(work.requests), "-o", "json",
                   *(["-rtr", "1"] if self.is_ik else [])]
        self.remember(command)
        rows = json.loads(run_bench(command) or "[]")
        if not rows or not rows[-1].get("avg_ts"):
            raise Failed(f"{self.name} reported nothing")
        samples = rows[-1].get("samples_ts") or [rows[-1]["avg_ts"]]
        figure = "prefill_tok_s" if work.kind == "prefill" else "decode_tok_s"
        return {figure: statistics.median(samples)}


class OpenVino(Engine):
    """OpenVINO GenAI in a Python of its own: it comes without a server."""

    def __init__(self, name, models, python, threads):
        super().__init__(name, models)
        self.python, self.threads = python, threads

    def takes(self, label, path, work):
        return (super().takes(label, path, work) and pathlib.Path(path).is_file() and
                (work.kind in ("decode", "prefill") or work.key.startswith("burst-")))

    def measure(self, work, path, seed):
        driver = pathlib.Path(__file__).with_name("openvino_driver.py")
        rng = random.Random(seed)
        command = [str(self.python), str(driver), str(path), str(self.threads), work.kind,
                   str(work.prompt), str(work.new), str(work.streams), str(work.requests),
                   str(rng.randrange(1 << 30))]
        self.remember([self.python, "openvino_driver.py", *command[2:-1]])
        lines = [x for x in run_bench(command).splitlines() if x.startswith("{")]
        if not lines:
            raise Failed(f"{self.name} reported nothing")
        return json.loads(lines[-1])


def version_of(binary):
    """The first line of `--version` that holds a number."""
    try:
        done = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "not reported"
    lines = [line for line in (done.stdout + done.stderr).splitlines()
             if any(c.isdigit() for c in line)]
    return lines[0].strip()[:80] if lines and done.returncode == 0 else "not reported"


def run_bench(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BENCH_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise Failed(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout
