"""Streams completions from an OpenAI server, and times them. The client shares the cores with the
server, so it does little: one task a connection, and only the first and last chunks are parsed."""
import asyncio
import json
import random
import time
import urllib.parse

from measure import stats


def random_prompts(count, length, seed, prefix=0):
    """Token ids, different for each seed, so that no prefix cache helps but with `prefix` shared
    ids in front."""
    rng = random.Random(seed)
    head = [rng.randrange(1000, 40000) for _ in range(prefix)]
    return [head + [rng.randrange(1000, 40000) for _ in range(length)] for _ in range(count)]


class Connection:
    """One keep-alive HTTP/1.1 connection."""

    def __init__(self, host, port):
        self.address = (host, port)
        self.reader = self.writer = None

    async def post(self, body, on_event):
        """Sends a completion request; `on_event` gets each event's data. Once more on a kept
        connection that the server has closed meanwhile."""
        while True:
            fresh = self.writer is None
            try:
                if fresh:
                    self.reader, self.writer = await asyncio.open_connection(*self.address,
                                                                             limit=1 << 22)
                self.writer.write((f"POST /v1/completions HTTP/1.1\r\nHost: {self.address[0]}\r\n"
                                   "Content-Type: application/json\r\n"
                                   f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
                await self.writer.drain()
                return await self._answer(on_event)
            except (ConnectionError, asyncio.IncompleteReadError):
                self.close()
                if fresh:
                    raise

    async def _answer(self, on_event):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin1").lower()
        status = int(head.split()[1])
        chunked = "transfer-encoding: chunked" in head
        if not chunked:
            length = int(head.split("content-length:")[1].split("\r\n")[0])
            text = await self.reader.readexactly(length)
            raise RuntimeError(f"status {status}: {text[:300]!r}")
        buffer = b""
        while size := int((await self.reader.readline()).split(b";")[0], 16):
            buffer += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    on_event(line[5:].strip())
        await self.reader.readline()
        if "connection: close" in head:
            self.close()
        if status != 200:
            raise RuntimeError(f"status {status}")

    def close(self):
        if self.writer:
            self.writer.close()
        self.writer = None


async def complete(connection, model, prompt, max_tokens):
    """{"start", "stamps", "tokens"} of one request; raises what went wrong."""
    body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": True,
            "ignore_eos": True, "stream_options": {"include_usage": True}}
    if model:
        body["model"] = model
    stamps, usage = [], {}
    start = time.perf_counter()

    def on_event(data):
        if b'"choices":[{' in data[:400] or b'"choices": [{' in data[:400]:
            stamps.append(time.perf_counter())
        elif data != b"[DONE]":
            event = json.loads(data)
            if "error" in event:
                raise RuntimeError(str(event["error"])[:300])
            if event.get("choices"):
                stamps.append(time.perf_counter())
            usage.update(event.get("usage") or {})

    await connection.post(json.dumps(body).encode(), on_event)
    tokens = usage.get("completion_tokens") or len(stamps)
    if not stamps:
        raise RuntimeError("no output")
    return {"start": start, "stamps": stamps, "tokens": tokens, "end": time.perf_counter()}


async def _load(url, model, prompts, concurrency, max_tokens):
    address = urllib.parse.urlparse(url)
    todo, done = list(reversed(prompts)), []

    async def client():
        connection = Connection(address.hostname, address.port or 80)
        while todo:
            done.append(await complete(connection, model, todo.pop(), max_tokens))
        connection.close()

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(concurrency)))
    return done, time.perf_counter() - start


def run_load(url, model, prompts, concurrency, max_tokens, timeout_s=600):
    """All prompts, `concurrency` at a time: (requests, wall seconds)."""
    return asyncio.run(asyncio.wait_for(_load(url, model, prompts, concurrency, max_tokens),
                                        timeout_s))


def figures(requests, wall):
    """What is reported of a load; times in ms."""
    first = [r["stamps"][0] - r["start"] for r in requests]
    gaps = [b - a for r in requests for a, b in zip(r["stamps"], r["stamps"][1:])]
    tokens = sum(r["tokens"] for r in requests)
    out = {"req_s": len(requests) / wall, "out_tok_s": tokens / wall,
           "ttft_p50_ms": 1e3 * stats.percentile(first, 50),
           "ttft_p99_ms": 1e3 * stats.percentile(first, 99)}
    if gaps:
        out["itl_p50_ms"] = 1e3 * stats.percentile(gaps, 50)
        out["itl_p99_ms"] = 1e3 * stats.percentile(gaps, 99)
    slowest_first = max(r["stamps"][0] for r in requests)
    first_end = min(r["stamps"][-1] for r in requests)
    if first_end > slowest_first:  # all of them decode in between
        shown = sum(sum(slowest_first < s <= first_end for s in r["stamps"]) * r["tokens"]
                    / len(r["stamps"]) for r in requests)
        out["decode_tok_s"] = shown / (first_end - slowest_first)
    return out
