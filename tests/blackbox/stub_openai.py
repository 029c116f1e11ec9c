"""A deterministic OpenAI-compatible server: answers follow a script, every request is recorded.

    with StubServer(Script(ttft=0.05, itl=0.01, chunks=5)) as stub: ... stub.url, stub.requests

Delays are counted from the start of each answer, so that they do not add up.
"""

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Script:
    ttft: float = 0.02  # seconds before the first chunk with a token
    itl: float = 0.005  # seconds between chunks
    chunks: int = 5
    tokens_per_chunk: int = 1
    prompt_tokens: int = 11
    fail_every: int = 0  # every n-th POST of a generation route answers 503
    close_every: int = 0  # every n-th answer is followed by an unannounced close
    models: tuple = ("stub-model",)
    routes: dict = field(default_factory=dict)  # path -> (status, content type, body bytes)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def _record(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        record = {"method": self.command, "path": self.path, "headers": dict(self.headers),
                  "body": json.loads(body) if body else None}
        with self.server.lock:
            self.server.requests.append(record)
        return record

    def _send(self, status, content_type, body):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _json(self, value, status=200):
        self._send(status, "application/json", json.dumps(value).encode())

    def do_GET(self):
        self._record()
        script = self.server.script
        if self.path in script.routes:
            self._send(*script.routes[self.path])
        elif self.path == "/v1/models":
            self._json({"object": "list", "data": [{"id": name, "object": "model", "root": name}
                                                   for name in script.models]})
        elif self.path == "/health":
            self._send(200, "text/plain", b"")
        else:
            self._send(404, "text/plain", b"no such route")

    def do_POST(self):
        record = self._record()
        script = self.server.script
        with self.server.lock:
            self.server.num_posts += 1
            number = self.server.num_posts
        if self.path in script.routes:
            self._send(*script.routes[self.path])
        elif script.fail_every and number % script.fail_every == 0:
            self._json({"error": {"message": "busy"}}, 503)
        elif self.path.endswith("/completions"):
            self._stream(record["body"], is_chat=self.path.endswith("chat/completions"))
        elif self.path.endswith(("/embeddings", "/pooling", "/rerank")):
            time.sleep(script.ttft)
            self._json({"data": [], "usage": {"prompt_tokens": script.prompt_tokens}})
        else:
            self._send(404, "text/plain", b"no such route")
        if script.close_every and number % script.close_every == 0:
            self.close_connection = True

    def _event(self, value):
        data = b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode())
        data += b"\n\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _stream(self, body, is_chat):
        script = self.server.script
        start = time.monotonic()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if is_chat:
            self._event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        for i in range(script.chunks):
            due = start + script.ttft + i * script.itl
            time.sleep(max(0.0, due - time.monotonic()))
            text = f" t{i}" * script.tokens_per_chunk
            self._event({"choices": [{"index": 0, "delta": {"content": text}} if is_chat else
                                     {"index": 0, "text": text}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            self._event({"choices": [], "usage": {
                "prompt_tokens": script.prompt_tokens,
                "completion_tokens": script.chunks * script.tokens_per_chunk}})
        self._event(b"[DONE]")
        self.wfile.write(b"0\r\n\r\n")


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # a client that hangs up is part of the tests


class StubServer:
    def __init__(self, script=None):
        self.server = _Server(("127.0.0.1", 0), _Handler)
        self.server.script = script or Script()
        self.server.lock = threading.Lock()
        self.server.requests = []
        self.server.num_posts = 0
        self.thread = threading.Thread(target=self.server.serve_forever,
                                       kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def port(self):
        return self.server.server_address[1]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self):
        with self.server.lock:
            return list(self.server.requests)

    def posts(self, path):
        return [r for r in self.requests if r["method"] == "POST" and r["path"] == path]
