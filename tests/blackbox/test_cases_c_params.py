"""Public reports, section C: max_tokens, prompt, ids, n."""

import time

import pytest
from helpers import finish_reasons


def refused(server, path, body):
    answer = server.post(path, body)
    assert answer.status == 400, f"{answer.status} for {str(body)[:200]}: {answer.text[:300]}"
    assert answer.error["code"] == 400 and answer.error["message"]
    return answer.error


@pytest.mark.parametrize("max_tokens", [1, 5, 20])
def test_bl_026_max_tokens_is_exact(server, max_tokens):
    answer = server.chat("Write a long story about the sea.", max_tokens=max_tokens)
    assert answer["usage"]["completion_tokens"] == max_tokens
    assert answer["choices"][0]["finish_reason"] == "length"


def test_bl_027_max_tokens_zero(server):
    refused(server, "/v1/completions", {"prompt": "Hi", "max_tokens": 0})
    refused(server, "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 0})
    answer = server.complete("The capital of France", max_tokens=0, echo=True, logprobs=1)
    choice = answer["choices"][0]
    assert choice["text"] == "The capital of France"
    assert answer["usage"]["completion_tokens"] == 0
    assert len(choice["logprobs"]["tokens"]) == answer["usage"]["prompt_tokens"]


@pytest.mark.parametrize("prompt", ["", [""], [], [[]]])
def test_bl_029_empty_prompts_are_400(server, prompt):
    refused(server, "/v1/completions", {"prompt": prompt, "max_tokens": 1})


def test_bl_029_no_messages_is_400(server):
    refused(server, "/v1/chat/completions", {"messages": [], "max_tokens": 1})


@pytest.mark.parametrize("prompt", [
    [-1], [[-1]], [[1.5]], ["a", 5], [[49152]], [[2147483648]], [[True]], [99999999999999999999],
    {"a": 1}, None, 5, [None], [["a"]],
])
def test_bl_030_bad_prompt_ids_are_400(server, prompt):
    refused(server, "/v1/completions", {"prompt": prompt, "max_tokens": 1})


@pytest.mark.parametrize("stream", [False, True])
def test_bl_031_a_batch_of_prompts_keeps_its_order(server, stream):
    ids = server.tokenize("Test")
    mixed = server.post("/v1/completions",
                        {"prompt": ["Hello", "Goodbye", ids], "max_tokens": 1})
    assert mixed.status in (200, 400)
    prompts = ["Hello", "Goodbye", "Test"]
    alone = [server.complete_text(p, max_tokens=1) for p in prompts]
    if stream:
        events = server.complete_stream(prompts, max_tokens=1)
        texts = ["", "", ""]
        for event in events[:-1]:
            for choice in event["choices"]:
                texts[choice["index"]] += choice["text"]
        assert sorted(finish_reasons(events)) == [0, 1, 2]
    else:
        choices = server.complete(prompts, max_tokens=1)["choices"]
        assert [c["index"] for c in choices] == [0, 1, 2]
        texts = [c["text"] for c in choices]
    assert texts == alone


@pytest.mark.parametrize("n", [100000000, 0, -1, "3", 2.5, 2**63, 16385])
def test_bl_032_impossible_n_is_400_quickly(server, n):
    before = server.rss_bytes()
    start = time.monotonic()
    refused(server, "/v1/completions", {"prompt": "Hi", "max_tokens": 1, "temperature": 1, "n": n})
    assert time.monotonic() - start < 1
    assert server.rss_bytes() - before < 50 << 20


def test_bl_033_every_choice_of_a_stream_finishes_once(server):
    events = server.complete_stream("Once upon a time", n=4, temperature=1, max_tokens=8,
                                    stream_options={"include_usage": True})
    assert events[-1] == "[DONE]"
    reasons = finish_reasons(events)
    assert sorted(reasons) == [0, 1, 2, 3]
    assert all(len(r) == 1 for r in reasons.values())
    usage = events[-2]["usage"]
    assert 4 <= usage["completion_tokens"] <= 32
    assert usage["prompt_tokens"] == len(server.tokenize("Once upon a time"))
    whole = server.complete("Once upon a time", n=4, temperature=1, max_tokens=8, ignore_eos=True)
    assert whole["usage"]["completion_tokens"] == 32
    assert [c["index"] for c in whole["choices"]] == [0, 1, 2, 3]


def test_bl_034_several_greedy_choices_are_400(server):
    error = refused(server, "/v1/completions",
                    {"prompt": "Hi", "max_tokens": 1, "n": 3, "temperature": 0})
    assert "n" in error["message"]


@pytest.mark.parametrize("bias", [{"99999999": 5}, {"-1": 5}, {"x": 5}, {"5": "a"}, [5], 5])
def test_bl_035_bad_logit_bias_is_400(server, bias):
    refused(server, "/v1/completions", {"prompt": "Hi", "max_tokens": 1, "logit_bias": bias})


def test_bl_035_large_logit_bias_is_clamped(server):
    answer = server.complete("Hi", max_tokens=2, logit_bias={"5": 1000}, ignore_eos=True,
                             return_token_ids=True)
    clamped = server.complete("Hi", max_tokens=2, logit_bias={"5": 100}, ignore_eos=True,
                              return_token_ids=True)
    assert answer["choices"][0]["token_ids"] == clamped["choices"][0]["token_ids"]


@pytest.mark.parametrize("ids", [[49157], [-1], ["a"], [1.5], [2**40]])
def test_bl_036_bad_stop_token_ids_are_400(server, ids):
    refused(server, "/v1/completions",
            {"prompt": "Hi", "max_tokens": 2, "min_tokens": 1, "stop_token_ids": ids})


@pytest.mark.parametrize("top_k", [0.01, "5", -2, 2**70])
def test_bl_037_bad_top_k_is_400(server, top_k):
    refused(server, "/v1/completions", {"prompt": "Hi", "max_tokens": 1, "top_k": top_k})


@pytest.mark.parametrize("top_k", [0, -1, 1000000])
def test_bl_037_top_k_off_or_larger_than_the_vocabulary(server, top_k):
    server.complete("Hi", max_tokens=1, temperature=1, top_k=top_k)


@pytest.mark.parametrize("field, value", [
    ("temperature", 2.1), ("temperature", -0.1), ("temperature", 999999), ("top_p", 0),
    ("top_p", 1.1), ("top_p", -1), ("presence_penalty", 5), ("frequency_penalty", -2.5),
    ("repetition_penalty", 0), ("min_p", 2), ("min_p", -0.1), ("temperature", "hot"),
    ("seed", "x"), ("max_tokens", -1), ("max_tokens", 1.5), ("stream", "maybe"),
])
def test_bl_039_values_out_of_range_name_their_field(server, field, value):
    for path, body in (("/v1/completions", {"prompt": "Hi"}),
                       ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]})):
        error = refused(server, path, {**body, "max_tokens": 1, field: value})
        assert (error["param"] or "").endswith(field), error


def test_bl_039_numbers_that_are_not_finite_are_400(server):
    for text in (b"NaN", b"Infinity", b"1e999", b"-1e999"):
        body = b'{"prompt": "Hi", "max_tokens": 1, "temperature": ' + text + b"}"
        assert server.post("/v1/completions", body).status == 400
