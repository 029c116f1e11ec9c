"""Public reports, section H: streams, usage, limits."""

import openai
import pytest
from helpers import joined_text
from openai.types import Completion
from openai.types.chat import ChatCompletionChunk


@pytest.fixture(scope="module")
def client(shared_server):
    return openai.OpenAI(base_url=shared_server.url + "/v1", api_key="none", max_retries=0)


def both_streams(server, **fields):
    yield server.complete_stream("Once upon", max_tokens=4, **fields)
    yield server.chat_stream("Hi", max_tokens=4, **fields)


def test_bl_083_usage_comes_once_and_only_when_asked_for(server):
    for events in both_streams(server, stream_options={"include_usage": True}):
        assert events[-1] == "[DONE]"
        assert events[-2]["choices"] == []
        usage = events[-2]["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        assert all(event.get("usage") is None for event in events[:-2])
    for options in ({}, None):
        for events in both_streams(server, stream_options=options):
            assert all(event.get("usage") is None for event in events[:-1])
            assert all(event["choices"] for event in events[:-1])


def test_bl_083_continuous_usage(server):
    options = {"include_usage": True, "continuous_usage_stats": True}
    for events in both_streams(server, stream_options=options):
        counts = [event["usage"]["completion_tokens"] for event in events[:-1]]
        assert counts == sorted(counts)


def test_bl_084_chunks_have_the_official_types(server):
    completions, chats = both_streams(server)
    for events, kind, name in ((completions, Completion, "text_completion"),
                               (chats, ChatCompletionChunk, "chat.completion.chunk")):
        assert events.count("[DONE]") == 1 and events[-1] == "[DONE]"
        chunks = events[:-1]
        for event in chunks:
            assert event["object"] == name
            assert event["id"] == chunks[0]["id"] and event["created"] and event["model"]
            if kind is Completion:  # that type wants a reason in every chunk; the client is laxer
                event["choices"] = [{**c, "finish_reason": c["finish_reason"] or "stop"}
                                    for c in event["choices"]]
            kind.model_validate(event)
    assert chats[0]["choices"][0]["delta"]["role"] == "assistant"


def test_bl_084_the_official_client_reads_everything(server, client):
    model = client.models.list().data[0].id
    messages = [{"role": "user", "content": "Say hello."}]
    whole = client.chat.completions.create(model=model, messages=messages, max_tokens=8,
                                           temperature=0)
    stream = client.chat.completions.create(model=model, messages=messages, max_tokens=8,
                                            temperature=0, stream=True)
    parts = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
    assert "".join(parts) == whole.choices[0].message.content
    text = client.completions.create(model=model, prompt="One, two,", max_tokens=4, temperature=0)
    pieces = client.completions.create(model=model, prompt="One, two,", max_tokens=4,
                                       temperature=0, stream=True)
    assert "".join(p.choices[0].text for p in pieces if p.choices) == text.choices[0].text
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="no-such-model", prompt="Hi")
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model=model, prompt="Hi", temperature=9)


def test_bl_086_cached_tokens_follow_the_prefix(server):
    def cached(prompt):
        before = server.metrics().value("vllm:prefix_cache_hits_total")
        usage = server.complete(prompt, max_tokens=1)["usage"]
        moved = server.metrics().value("vllm:prefix_cache_hits_total") - before
        details = usage["prompt_tokens_details"]
        count = details["cached_tokens"] if details else 0
        assert moved == count
        return count, usage["prompt_tokens"]

    prompt = "A list of odd words: " + " ".join(f"word{i * 7919 % 10007}" for i in range(420))
    first, length = cached(prompt)
    assert first < 32 and length >= 2000
    second, _ = cached(prompt)
    assert length - 16 - 1 <= second < length
    third, _ = cached(prompt + " and one more turn of the talk")
    assert third >= length - 16 - 1
    other, _ = cached("Quite another beginning: " + prompt)
    assert other < 32


@pytest.mark.parametrize("stream", [False, True])
def test_bl_087_a_prompt_longer_than_the_context(small_server, stream):
    prompt = "word " * 400
    length = len(small_server.tokenize(prompt))
    answer = small_server.post("/v1/completions",
                               {"prompt": prompt, "max_tokens": 10, "stream": stream})
    assert answer.status == 400
    assert answer.headers["content-type"].startswith("application/json")
    assert "256" in answer.error["message"] and str(length) in answer.error["message"]


def test_bl_087_prompt_and_max_tokens_above_the_context_are_clamped(small_server):
    ids = small_server.tokenize("word " * 300)[:250]
    for asked, got in ((6, 6), (7, 6), (1000, None)):
        if got is None:
            answer = small_server.post("/v1/completions", {"prompt": ids, "max_tokens": asked})
            assert answer.status == 400, "max_tokens alone is above the context"
            continue
        answer = small_server.complete(ids, max_tokens=asked, ignore_eos=True)
        assert answer["usage"]["completion_tokens"] == got
        assert answer["choices"][0]["finish_reason"] == "length"
    full = small_server.tokenize("word " * 300)[:256]
    assert small_server.post("/v1/completions", {"prompt": full, "max_tokens": 1}).status == 400


def test_bl_088_a_prompt_is_never_cut_silently(small_server):
    content = "The secret word is kumquat. " + "filler " * 320 + "What is the secret word?"
    answer = small_server.post("/v1/chat/completions",
                               {"messages": [{"role": "user", "content": content}]})
    assert answer.status == 400


def test_bl_090_max_tokens_in_unusual_forms(small_server):
    messages = [{"role": "user", "content": "Hi"}]
    huge = small_server.post("/v1/chat/completions", {"messages": messages,
                                                      "max_tokens": 2147483647})
    assert huge.status in (200, 400)
    both = small_server.post("/v1/chat/completions", {
        "messages": messages, "max_tokens": 9, "max_completion_tokens": 3, "ignore_eos": True})
    assert both.json["usage"]["completion_tokens"] == 3
    default = small_server.complete("Once upon a time", max_tokens=None, ignore_eos=True)
    assert default["usage"]["completion_tokens"] == 16


def test_joined_text_of_a_stream_with_usage(server):
    events = server.complete_stream("Once", max_tokens=3, stream_options={"include_usage": True})
    assert joined_text(events) == server.complete_text("Once", max_tokens=3)
