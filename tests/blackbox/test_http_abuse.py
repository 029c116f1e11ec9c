"""Raw sockets: malformed, slow, pipelined, half-closed (BL-101, BL-102, BL-108)."""

import json
import os
import time

import pytest
from helpers import wait_for

COMPLETION = json.dumps({"prompt": "Hi", "max_tokens": 1, "temperature": 0}).encode()
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def with_length(body=COMPLETION):
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


def exchange(server, data, half_close=False):
    with server.raw() as raw:
        raw.send(data)
        if half_close:
            raw.socket.shutdown(1)
        return raw.receive_all()


def status(reply):
    return int(reply.split(b" ", 2)[1]) if reply else None


@pytest.mark.parametrize("data", [
    b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"".join(b"A%d: 1\r\n" % i for i in range(5000)) +
    b"\r\n",
], ids=["one of 1 MiB", "5000"])
def test_bl_101_too_many_header_bytes(server, data):
    before = server.rss_bytes()
    assert status(exchange(server, data)) in (400, 431)
    assert server.rss_bytes() - before < 20 << 20


@pytest.mark.parametrize("data", [
    HEAD + b"Content-Length: 3\r\nContent-Length: 50\r\n\r\n{} GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
    HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\n\r\n",
    b"GET /health HTTP/1.1\nHost: x\n\n",
    b"GET /health HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: x\r\nX: a\r\n folded\r\n\r\n",
    HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Content-Length: -1\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n",
], ids=["two lengths", "length and chunked", "bare LF", "NUL", "folded", "space before colon",
        "negative", "chunk size overflow"])
def test_bl_101_ambiguous_requests_are_one_400(server, data):
    reply = exchange(server, data)
    assert status(reply) == 400
    assert reply.count(b"HTTP/1.1 ") == 1, "never two requests from one"


def test_bl_101_a_header_without_end_is_closed(server):
    start = time.monotonic()
    reply = exchange(server, b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    assert status(reply) in (None, 400, 408)
    assert time.monotonic() - start < 15


def test_bl_102_bodies_in_pieces(server):
    plain = server.post("/v1/completions", COMPLETION).json["choices"][0]["text"]

    def text(reply):
        assert status(reply) == 200, reply
        return json.loads(reply.split(b"\r\n\r\n", 1)[1])["choices"][0]["text"]

    close = HEAD + b"Connection: close\r\n"
    chunks = b"".join(b"1\r\n" + COMPLETION[i:i + 1] + b"\r\n" for i in range(len(COMPLETION)))
    reply = exchange(server, close + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
    assert text(reply) == plain
    with server.raw() as raw:
        data = close + b"Content-Length: %d\r\n\r\n" % len(COMPLETION) + COMPLETION
        for piece in (data[:40], data[40:-10], data[-10:]):
            raw.send(piece)
            time.sleep(0.05)  # so that each is a TCP segment of its own
        assert text(raw.receive_all()) == plain
    with server.raw() as raw:
        raw.send(close + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(COMPLETION))
        assert raw.receive_until(b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
        raw.send(COMPLETION)
        assert text(raw.receive_all()) == plain


@pytest.mark.parametrize("data", [
    os.urandom(2000).replace(b"G", b"\0"),
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 20,
    b"\x80" * 10,
], ids=["random", "TLS hello", "HTTP/2 preface", "high bytes"])
def test_bl_108_other_protocols_are_closed(server, data):
    start = time.monotonic()
    exchange(server, data)
    assert time.monotonic() - start < 5
    assert server.get("/health").status == 200


def test_pipelined_requests_are_answered_in_order(server):
    data = (b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" + with_length() +
            b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    reply = exchange(server, data)
    parts = reply.split(b"HTTP/1.1 ")[1:]
    assert [part[:3] for part in parts] == [b"200", b"200", b"404"]


def test_a_half_closed_client_gets_its_health_check(server):
    reply = exchange(server, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", half_close=True)
    assert status(reply) == 200


def test_http_1_0_gets_a_plain_stream(server):
    body = json.dumps({"prompt": "Hi", "max_tokens": 3, "stream": True}).encode()
    reply = exchange(server, b"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    head, _, rest = reply.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert rest.endswith(b"data: [DONE]\n\n")


def test_unknown_paths_and_methods(server):
    missing = server.get("/nothing")
    assert (missing.status, missing.json) == (404, {"detail": "Not Found"})
    wrong = server.get("/v1/completions")
    assert (wrong.status, wrong.json) == (405, {"detail": "Method Not Allowed"})
    assert wrong.headers["allow"] == "POST"
    for path in ("/health/", "//health", "/HEALTH", "/v1/embeddings", "/reset_prefix_cache"):
        assert server.get(path).status == 404, path


def test_a_larger_body_than_the_limit_is_413(server):
    reply = exchange(server, HEAD + b"Content-Length: %d\r\n\r\n" % (33 << 20))
    assert status(reply) == 413


CHAT_HEAD = HEAD.replace(b"/v1/completions", b"/v1/chat/completions")
NESTED = b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def json_body(**fields):
    return with_length(json.dumps({"prompt": "Hi", "max_tokens": 1, **fields}).encode())


ABUSES = {
    "BL-005 invalid UTF-8": with_length(b'{"prompt": "\xc4\xe3\xba\xc3"}'),
    "BL-029 empty prompt": json_body(prompt=[]),
    "BL-030 impossible ids": json_body(prompt=[2**31] * 1000),
    "BL-032 n": json_body(n=100_000_000, temperature=1),
    "BL-035 logit_bias": json_body(logit_bias={str(10**8 + i): 1 for i in range(20_000)}),
    "BL-036 stop_token_ids": json_body(stop_token_ids=[10**6] * 20_000),
    "BL-039 temperature": json_body(temperature=999_999),
    "BL-049 prompt_logprobs": json_body(prompt=[1000] * 4000, prompt_logprobs=-1),
    "BL-087 a long prompt": json_body(prompt="word " * 100_000),
    "BL-090 max_tokens": json_body(max_tokens=2**31 - 1),
    "BL-101 header of 1 MiB": b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (1 << 20) +
    b"\r\n\r\n",
    "BL-101 two lengths": HEAD + b"Content-Length: 3\r\nContent-Length: 50\r\n\r\n{} ",
    "BL-103 deep JSON": CHAT_HEAD + b"Content-Length: %d\r\n\r\n" % len(NESTED) + NESTED,
    "BL-104 duplicate keys": with_length(b'{"prompt": "Hi", "prompt": "Ho"}'),
    "BL-105 a large wrong body": json_body(messages=[5] * 200_000, prompt={"a": 1}),
    "BL-107 an image": CHAT_HEAD + b"Content-Length: 106\r\n\r\n" + b'{"messages": [{"role": '
    b'"user", "content": [{"type": "image_url", "image_url": {"url": "data:;base64,@"}}]}]}    ',
    "BL-108 a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
    "half a body": HEAD + b"Content-Length: 1000000\r\n\r\n" + b"x" * 500_000,
    "bad words": json_body(bad_words=["x" * 1000] * 200),
}


@pytest.mark.parametrize("name", ABUSES)
def test_ten_repeats_leave_the_memory_as_it_was(server, name):
    """The first rounds may fill caches and arenas; further ones may not add to them for ever."""
    descriptors = server.num_descriptors()

    def round_trip():
        with server.raw() as raw:
            raw.send(ABUSES[name])
            if name != "half a body":  # that one goes without waiting for an answer
                reply = raw.socket.recv(4096)
                assert status(reply) in (None, 400, 413, 431), reply
        wait_for(lambda: server.num_descriptors() <= descriptors, what="the connection is closed")

    def growth_of_ten():
        before = server.rss_bytes()
        for _ in range(10):
            round_trip()
        return server.rss_bytes() - before

    for _ in range(5):
        round_trip()
    # What an abuse leaves behind it leaves every time; an arena of the allocator grows once.
    growths = []
    while len(growths) < 5 and min(growths, default=1 << 30) > 256 << 10:
        growths.append(growth_of_ten())
    assert server.get("/health").status == 200
    assert min(growths) <= 256 << 10, growths
