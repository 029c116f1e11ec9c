"""Public reports, section J: HTTP and JSON abuse (sockets: test_http_abuse.py, keys: test_auth.py)."""

import json
import time

import pytest

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "Hi"}]


def nested(depth):
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("where", [
    '{"messages": %s}',
    '{"messages": [{"role": "user", "content": "Hi"}], "tools": [{"type": "function", "function": '
    '{"name": "f", "parameters": %s}}]}',
    '{"messages": [{"role": "user", "content": "Hi"}], "unknown": %s}',
    '{"messages": [{"role": "user", "content": "Hi"}], "metadata": %s}',
])
def test_bl_103_deep_json_is_400_quickly(server, where):
    body = (where % nested(100_000)).encode()
    seconds = []
    # Other processes may take the cores: one of some tries tells.
    while len(seconds) < 10 and min(seconds, default=1) >= 0.1:
        start = time.monotonic()
        answer = server.post(CHAT, body)
        seconds.append(time.monotonic() - start)
        assert answer.status == 400
        assert len(answer.body) < 4096
    assert min(seconds) < 0.1, seconds


@pytest.mark.parametrize("body, key", [
    ('{"messages": [{"role": "user", "content": "Hi"}], "stream": false, "stream": true}', "stream"),
    ('{"messages": [{"role": "user", "content": "Hi"}], "model": null, "model": "x"}', "model"),
    ('{"messages": [{"role": "user", "role": "system", "content": "Hi"}]}', "role"),
    ('{"messages": [{"role": "user", "content": "Hi"}], "model": null, "mo\\u0064el": "x"}',
     "model"),
])
def test_bl_104_duplicate_keys_are_400(server, body, key):
    answer = server.post(CHAT, body.encode())
    assert answer.status == 400
    assert key in answer.text


def test_bl_105_large_malformed_bodies_get_short_answers(server):
    wrong = {"messages": [5] * 200_000}
    answer = server.post(CHAT, wrong)
    assert answer.status in (400, 422)
    assert len(answer.body) < 4096
    truncated = json.dumps({"prompt": "x" * (1 << 20)})[:-10].encode()
    answer = server.post("/v1/completions", truncated)
    assert answer.status == 400
    assert len(answer.body) < 4096


def test_bl_107_images_are_refused_without_inner_details(server):
    content = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,@@@@"}}]
    answer = server.post(CHAT, {"messages": [{"role": "user", "content": content}]})
    assert answer.status in (400, 501)
    for leak in ("0x", "/src/", "std::", "exception", "base64,@@@@"):
        assert leak not in answer.text


def test_bl_109_parameters_of_other_apis(server):
    plain = server.chat("Hi", max_tokens=4)["choices"][0]["message"]["content"]
    other = server.chat("Hi", max_tokens=4, num_ctx=8, num_predict=1, grammar="root ::= \"x\"",
                        mirostat=2, user="u", store=True, metadata={"a": "b"},
                        service_tier="auto")["choices"][0]["message"]["content"]
    assert other == plain
    answer = server.post(CHAT, {"messages": MESSAGES, "guided_json": {"type": "object"}})
    assert answer.status == 400
    assert "structured_outputs" in answer.error["message"]


def test_bodies_that_are_not_requests(server):
    for body in (b"", b"null", b"[]", b"5", b'"x"', b"{", b"{}", b'{"prompt": "Hi"} x', b"\xef\xbb\xbf"):
        assert server.post("/v1/completions", body).status == 400, body


def test_the_content_type_must_be_json(server):
    body = {"prompt": "Hi", "max_tokens": 1}
    for kind in (None, "text/plain", "application/x-www-form-urlencoded"):
        answer = server.post("/v1/completions", body, headers={"Content-Type": kind})
        assert answer.status == 400
    answer = server.post("/v1/completions", body,
                         headers={"Content-Type": "application/json; charset=utf-8"})
    assert answer.status == 200


def test_an_unknown_model_is_404(server):
    answer = server.post("/v1/completions", {"prompt": "Hi", "model": "no-such-model"})
    assert answer.status == 404
    assert answer.error["type"] == "NotFoundError" and answer.error["param"] == "model"
    assert "`no-such-model`" in answer.error["message"]
    for model in (None, ""):
        server.complete("Hi", max_tokens=1, model=model)
