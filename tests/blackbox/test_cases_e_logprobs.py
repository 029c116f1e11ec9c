"""Public reports, section E: logprobs."""

import math

import pytest
from helpers import joined_text, parallel

PROMPT = "The capital of France is"


def test_bl_046_logprobs_zero(server):
    logprobs = server.complete(PROMPT, max_tokens=3, logprobs=0, ignore_eos=True)["choices"][0][
        "logprobs"]
    assert len(logprobs["token_logprobs"]) == len(logprobs["tokens"]) == 3
    assert all(value <= 0 for value in logprobs["token_logprobs"])
    for top in logprobs["top_logprobs"] or []:
        assert top is None or len(top) <= 1


def test_bl_047_chat_logprobs_without_top(server):
    content = server.chat("Hi", max_tokens=3, logprobs=True, ignore_eos=True)["choices"][0][
        "logprobs"]["content"]
    assert len(content) == 3
    for entry in content:
        assert entry["top_logprobs"] == []
        assert bytes(entry["bytes"]).decode("utf-8", "replace") == entry["token"]
    body = {"messages": [{"role": "user", "content": "Hi"}], "logprobs": False, "top_logprobs": 5}
    assert server.post("/v1/chat/completions", body).status == 400


@pytest.mark.parametrize("temperature", [0, 1.5])
@pytest.mark.parametrize("count", [1, 5, 20])
def test_bl_048_exact_counts_up_to_the_limit(server, count, temperature):
    fields = {"max_tokens": 8, "temperature": temperature, "seed": 7, "ignore_eos": True}
    content = server.chat("Hi", logprobs=True, top_logprobs=count,
                          **fields)["choices"][0]["logprobs"]["content"]
    assert len(content) == 8
    for entry in content:
        # As vLLM: the chosen token first, then by rank.
        values = [top["logprob"] for top in entry["top_logprobs"]]
        assert len(values) == count
        assert entry["logprob"] == values[0] and values[1:] == sorted(values[1:], reverse=True)
        if temperature == 0:
            assert values == sorted(values, reverse=True), "greedy takes the most likely"
    found = server.complete(PROMPT, logprobs=count, **fields)["choices"][0]["logprobs"]
    for token, value, top in zip(found["tokens"], found["token_logprobs"], found["top_logprobs"]):
        # Tokens of one text (halves of characters) share an entry.
        assert 1 <= len(top) <= count + 1 and top[token] == value
        assert list(top.values())[1:] == sorted(list(top.values())[1:], reverse=True)


def test_bl_048_above_the_limit_is_400(server):
    chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "logprobs": True}
    for stream in (False, True):
        answer = server.post("/v1/chat/completions", {**chat, "top_logprobs": 21, "stream": stream})
        assert answer.status == 400
        answer = server.post("/v1/completions", {"prompt": "Hi", "max_tokens": 1, "logprobs": 21,
                                                 "stream": stream})
        assert answer.status == 400


def test_bl_049_huge_logprob_requests_are_bounded(server):
    before = server.rss_bytes()
    chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "logprobs": True}
    assert server.post("/v1/chat/completions", {**chat, "top_logprobs": 16384}).status == 400
    long_prompt = "word " * 300
    answer = server.post("/v1/completions",
                         {"prompt": long_prompt, "max_tokens": 1, "prompt_logprobs": -1})
    assert answer.status in (200, 400)
    assert len(answer.body) < 64 << 20
    assert server.rss_bytes() - before < 300 << 20


def test_bl_050_echo_of_ids_with_logprobs(server):
    ids = server.tokenize(PROMPT)
    logprobs = server.complete(ids, max_tokens=1, echo=True, logprobs=2)["choices"][0]["logprobs"]
    values = logprobs["token_logprobs"]
    assert len(values) == len(ids) + 1
    assert values[0] is None and all(value <= 0 for value in values[1:])
    assert logprobs["top_logprobs"][0] is None


def test_bl_051_echo_scores_continuations(server):
    def score(continuation):
        length = len(server.tokenize(continuation))
        choice = server.complete(PROMPT + continuation, max_tokens=1, echo=True,
                                 logprobs=1)["choices"][0]
        values = choice["logprobs"]["token_logprobs"][-1 - length:-1]
        direct = server.complete(PROMPT + continuation, max_tokens=1,
                                 prompt_logprobs=1)["choices"][0]["prompt_logprobs"]
        ids = server.tokenize(PROMPT + continuation)[-length:]
        direct_values = [entry[str(i)]["logprob"] for entry, i in zip(direct[-length:], ids)]
        assert values == pytest.approx(direct_values, abs=1e-6)
        return sum(values)

    assert score(" Paris") > score(" banana")


def test_bl_052_streamed_echo_with_logprobs(server):
    fields = dict(max_tokens=4, echo=True, logprobs=1, ignore_eos=True)
    events = server.complete_stream(PROMPT, **fields)
    whole = server.complete(PROMPT, **fields)["choices"][0]
    assert joined_text(events) == whole["text"]
    assert events[0]["choices"][0]["text"].startswith(PROMPT)
    tokens, values, offsets = [], [], []
    for event in events[:-1]:
        for choice in event["choices"]:
            if choice["logprobs"]:
                tokens += choice["logprobs"]["tokens"]
                values += choice["logprobs"]["token_logprobs"]
                offsets += choice["logprobs"]["text_offset"]
    assert tokens == whole["logprobs"]["tokens"]
    assert values == whole["logprobs"]["token_logprobs"]
    assert offsets == whole["logprobs"]["text_offset"]


def test_bl_054_logprobs_are_raw(server):
    content = server.chat("Tell me something.", max_tokens=4, temperature=1, seed=1, top_p=0.1,
                          logprobs=True, top_logprobs=5, ignore_eos=True)["choices"][0][
                              "logprobs"]["content"]
    for entry in content:
        assert len(entry["top_logprobs"]) == 5
        assert all(top["logprob"] > -9999 for top in entry["top_logprobs"])
    assert any(entry["logprob"] < -1e-3 for entry in content)


def test_bl_056_with_and_without_logprobs_in_one_batch(server):
    plain = server.complete_text(PROMPT, max_tokens=8)
    scored = server.complete(PROMPT, max_tokens=8, logprobs=2)["choices"][0]["logprobs"]

    def run(index):
        choice = server.complete(PROMPT, max_tokens=8,
                                 **({"logprobs": 2} if index % 2 else {}))["choices"][0]
        assert choice["logprobs"] == (scored if index % 2 else None)
        return choice["text"]

    for _ in range(20):  # two workers, so that the two are in one batch
        assert parallel(run, range(2), workers=2) == [plain, plain]


@pytest.mark.parametrize("mode", ["raw_logits", "processed_logprobs", "processed_logits"])
def test_logprobs_modes(start_server, server, mode):
    other = start_server("--logprobs-mode", mode, length=256)
    fields = {"max_tokens": 1, "logprobs": 3, "temperature": 0.5, "seed": 1, "top_k": 2}
    raw = server.complete(PROMPT, **fields)["choices"][0]
    got = other.complete(PROMPT, **fields)["choices"][0]
    assert got["text"] == raw["text"]
    raw, got = (list(c["logprobs"]["top_logprobs"][0].values())[:3] for c in (raw, got))
    step = raw[0] - raw[1]
    if mode == "raw_logits":
        assert got[0] - got[1] == pytest.approx(step, abs=1e-3)
        assert got[0] - got[2] == pytest.approx(raw[0] - raw[2], abs=1e-3)
        assert got[0] > 0
    else:  # over the temperature, and the third is cut off
        assert got[0] - got[1] == pytest.approx(2 * step, abs=1e-3)
        assert got[2] == -9999.0
    if mode == "processed_logprobs":
        assert sum(math.exp(x) for x in got[:2]) == pytest.approx(1, abs=1e-3)
