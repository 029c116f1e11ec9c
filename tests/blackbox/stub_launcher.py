"""The stub as a server command: `python stub_launcher.py --port N [flags of a real server]`.

It answers --max-num-seqs requests at a time and lets the others wait, as a real server does, so that
a higher number sustains a higher rate. Unknown flags are accepted. Each start appends its process id
and its words to the file that STUB_TRACE names.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time

from stub_openai import Script, StubServer, _Handler, _Server


class _LimitedHandler(_Handler):
    def do_GET(self):
        if self.path == "/health" and self.server.never_ready:
            self._send(503, "text/plain", b"")
        else:
            super().do_GET()

    def _stream(self, body, is_chat):
        with self.server.slots:
            super()._stream(body, is_chat)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--max-num-seqs", type=int, default=2)
    parser.add_argument("--ttft-ms", type=float, default=10)
    parser.add_argument("--die", action="store_true")
    parser.add_argument("--die-above", type=int, default=1 << 30)  # of --max-num-seqs
    parser.add_argument("--never-ready", action="store_true")
    parser.add_argument("--with-helper", action="store_true")  # a process that ignores SIGTERM
    args, _ = parser.parse_known_args()
    if trace := os.environ.get("STUB_TRACE"):
        with open(trace, "a") as file:
            file.write(json.dumps({"pid": os.getpid(), "words": sys.argv[1:]}) + "\n")
    if args.die or args.max_num_seqs > args.die_above:
        print("stub: cannot start with these flags", file=sys.stderr)
        sys.exit(3)
    if args.with_helper:
        helper = subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"])
        with open(trace, "a") as file:
            file.write(json.dumps({"pid": helper.pid, "words": []}) + "\n")
    config = {"scheduler": {"max_num_seqs": args.max_num_seqs}}
    script = Script(ttft=args.ttft_ms / 1000, itl=0.002, chunks=3, routes={
        "/octavo/config": (200, "application/json", json.dumps(config).encode()),
        "/reset_prefix_cache": (200, "text/plain", b"")})
    stub = StubServer.__new__(StubServer)
    stub.server = _Server((args.host, args.port), _LimitedHandler)
    stub.server.script = script
    stub.server.lock = threading.Lock()
    stub.server.requests = []
    stub.server.num_posts = 0
    stub.server.slots = threading.Semaphore(args.max_num_seqs)
    stub.server.never_ready = args.never_ready
    threading.Thread(target=stub.server.serve_forever, daemon=True).start()
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main()
