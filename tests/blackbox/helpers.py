"""Starts the real binary and talks to it: JSON requests, event streams, raw sockets, /metrics."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parents[2]
CONTEXT_LENGTH = 4096  # of the shared server
START_TIMEOUT_S = 60


def binary():
    return os.environ.get("OCTAVO_BINARY", str(ROOT / "build/release/octavo"))


def default_model():
    cache = Path(os.environ.get("OCTAVO_CACHE", Path.home() / ".cache/octavo"))
    return os.environ.get("OCTAVO_TEST_GGUF", str(cache / "SmolLM2-135M-Instruct.Q4_1.gguf"))


def wait_for(condition, timeout=5.0, what="the condition"):
    """Polls, because the fact lives in another process; returns the first true value."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not become true within {timeout} s")
        time.sleep(0.01)


def parallel(function, items, workers=16):
    """function(item) for every item, on threads; results in order, the first exception is raised."""
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(function, items))


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers  # lower-case names
        self.body = body

    @property
    def text(self):
        return self.body.decode("utf-8")  # strict: broken UTF-8 is a failure

    @property
    def json(self):
        return json.loads(self.text, parse_constant=_no_constant)

    @property
    def error(self):
        return self.json["error"]


def _no_constant(name):
    raise AssertionError(f"{name} is not JSON")


class Stream:
    """The events of a finished or running stream."""

    def __init__(self, answer, connection):
        self.answer = answer
        self.connection = connection
        self.headers = {k.lower(): v for k, v in answer.getheaders()}

    def __iter__(self):
        """Parsed `data:` payloads, the end mark as the string "[DONE]", comments left out."""
        for line in self.lines():
            if line.startswith("data: "):
                payload = line[len("data: "):]
                yield payload if payload == "[DONE]" else json.loads(
                    payload, parse_constant=_no_constant)

    def lines(self):
        while True:
            line = self.answer.readline()
            if not line:
                return
            yield line.decode("utf-8").rstrip("\n")

    def close(self):
        with contextlib.suppress(OSError):
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.answer.close()
        self.connection.close()


class RawSocket:
    """Exact bytes to the server, for what no HTTP client would send."""

    def __init__(self, port, receive_buffer=None, timeout=20):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect(("127.0.0.1", port))

    def send(self, data):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def receive_all(self):
        """Everything up to the end of the connection; a reset counts as an end."""
        out = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := self.socket.recv(65536):
                out += chunk
        return out

    def receive_until(self, mark):
        out = b""
        while mark not in out:
            chunk = self.socket.recv(65536)
            assert chunk, f"the connection ended before {mark!r}: {out[-300:]!r}"
            out += chunk
        return out

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Server:
    """One running `octavo serve` on a port that the system chose."""

    def __init__(self, *flags, model=None, env=None, key=None):
        self.key = key
        self.log = tempfile.NamedTemporaryFile(prefix="octavo_", suffix=".log", mode="w+b")
        command = [binary(), "serve", model or default_model(), "--port", "0", *flags]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("VLLM_")}
        environment.update(env or {})
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT, env=environment, cwd=ROOT)
        try:
            self.port = self._wait_for_port()
            self.wait_ready()
        except BaseException:
            self.kill()
            raise

    # ---- life ----

    def _wait_for_port(self):
        def find():
            assert self.process.poll() is None, f"the server ended:\n{self.log_text()}"
            return re.search(r"Starting vLLM server on https?://\S*:(\d+)", self.log_text())

        return int(wait_for(find, START_TIMEOUT_S, "the start line").group(1))

    def wait_ready(self):
        def ready():
            assert self.process.poll() is None, f"the server ended:\n{self.log_text()}"
            with contextlib.suppress(OSError):
                return self.get("/ready").status == 200
            return False

        wait_for(ready, START_TIMEOUT_S, "/ready")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def log_text(self):
        return Path(self.log.name).read_text(errors="replace")

    def rss_bytes(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def num_descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait_exit(self, timeout=30):
        return self.process.wait(timeout=timeout)

    def stop(self):
        if self.process.poll() is None:
            self.signal()
            try:
                self.wait_exit(10)
            except subprocess.TimeoutExpired:
                self.kill()
        self.log.close()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    # ---- requests ----

    def _headers(self, headers):
        out = {"Content-Type": "application/json"}
        if self.key:
            out["Authorization"] = f"Bearer {self.key}"
        out.update(headers or {})
        return {name: value for name, value in out.items() if value is not None}

    def request(self, method, path, body=None, headers=None, timeout=110):
        """`body` may be bytes, or a value that becomes JSON."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers=self._headers(headers))
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()},
                          answer.read())
        finally:
            connection.close()

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def post(self, path, body, **kwargs):
        return self.request("POST", path, body=body, **kwargs)

    def stream(self, path, body, headers=None, timeout=110):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.request("POST", path, body=json.dumps({**body, "stream": True}).encode(),
                           headers=self._headers(headers))
        answer = connection.getresponse()
        if answer.status != 200:
            raise AssertionError(f"{answer.status}: {answer.read()[:500]!r}")
        return Stream(answer, connection)

    def raw(self, **kwargs):
        return RawSocket(self.port, **kwargs)

    # ---- the two routes most used; 200 expected ----

    def complete(self, prompt, **fields):
        """POST /v1/completions, greedy unless told otherwise; the parsed answer."""
        answer = self.post("/v1/completions", {"prompt": prompt, "temperature": 0, **fields})
        assert answer.status == 200, answer.text[:1000]
        return answer.json

    def chat(self, content, **fields):
        answer = self.post("/v1/chat/completions", chat_body(content, **fields))
        assert answer.status == 200, answer.text[:1000]
        return answer.json

    def complete_text(self, prompt, **fields):
        return self.complete(prompt, **fields)["choices"][0]["text"]

    def complete_stream(self, prompt, **fields):
        return list(self.stream("/v1/completions", {"prompt": prompt, "temperature": 0, **fields}))

    def chat_stream(self, content, **fields):
        return list(self.stream("/v1/chat/completions", chat_body(content, **fields)))

    def tokenize(self, text, **fields):
        answer = self.post("/tokenize", {"prompt": text, **fields})
        assert answer.status == 200, answer.text
        return answer.json["tokens"]

    def detokenize(self, tokens):
        answer = self.post("/detokenize", {"tokens": tokens})
        assert answer.status == 200, answer.text
        return answer.json["prompt"]

    # ---- metrics ----

    def metrics(self):
        answer = self.get("/metrics")
        assert answer.status == 200
        return Metrics(answer.text)

    def wait_idle(self, timeout=10.0):
        def idle():
            metrics = self.metrics()
            return metrics.value("vllm:num_requests_running") == 0 and metrics.value(
                "vllm:num_requests_waiting") == 0

        wait_for(idle, timeout, "running = waiting = 0")


def chat_body(content, **fields):
    messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
    return {"messages": messages, "temperature": 0, **fields}


def joined_text(events):
    """The text of all deltas of index 0, chat or completions."""
    out = ""
    for event in events:
        if event == "[DONE]":
            continue
        for choice in event["choices"]:
            if choice["index"] == 0:
                out += choice["text"] if "text" in choice else choice["delta"].get("content") or ""
    return out


def finish_reasons(events):
    """index -> list of the non-null finish reasons."""
    out = {}
    for event in events:
        if event == "[DONE]":
            continue
        for choice in event["choices"]:
            if choice.get("finish_reason") is not None:
                out.setdefault(choice["index"], []).append(choice["finish_reason"])
    return out


class Metrics:
    """One scrape, read strictly."""

    def __init__(self, text):
        self.text = text
        self.types = {}
        self.samples = {}  # (name, sorted label items) -> value
        self._check_comments(text)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in self.samples, f"twice: {key}"
                self.samples[key] = sample.value
        self._check_histograms()

    def _check_comments(self, text):
        assert text.endswith("\n"), "the last line must end"
        helped = set()
        for line in text.splitlines():
            if line.startswith("# HELP "):
                name = line.split(" ", 3)[2]
                assert name not in helped, f"HELP twice: {name}"
                helped.add(name)
            elif line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert name not in self.types, f"TYPE twice: {name}"
                assert kind in {"counter", "gauge", "histogram", "summary", "untyped"}, line
                self.types[name] = kind
            else:
                assert not line.startswith("#") and line, f"odd line: {line!r}"

    def _check_histograms(self):
        for name, kind in self.types.items():
            if kind != "histogram":
                continue
            series = {}
            for (sample, labels), value in self.samples.items():
                if sample == name + "_bucket":
                    others = tuple(item for item in labels if item[0] != "le")
                    series.setdefault(others, []).append((float(dict(labels)["le"]), value))
            for labels, buckets in series.items():
                buckets.sort()
                values = [value for _, value in buckets]
                assert values == sorted(values), f"{name}: buckets are not cumulative"
                assert buckets[-1][0] == float("inf"), name
                assert self.samples[(name + "_count", labels)] == values[-1], name
                assert (name + "_sum", labels) in self.samples, name

    def value(self, name, **labels):
        """Sum of the samples of this name that carry these labels."""
        found = [value for (sample, items), value in self.samples.items()
                 if sample == name and all(dict(items).get(k) == v for k, v in labels.items())]
        assert found, f"no sample {name} {labels}"
        return sum(found)

    def has(self, name):
        return any(sample == name for sample, _ in self.samples)

    def counters(self):
        """Everything that must never fall."""
        out = {}
        for key, value in self.samples.items():
            base = re.sub(r"_(bucket|count|sum)$", "", key[0])
            if self.types.get(key[0]) == "counter" or self.types.get(base) in ("histogram",
                                                                               "summary"):
                out[key] = value
        return out
