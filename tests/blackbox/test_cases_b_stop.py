"""Public reports, section B: stop strings. The greedy continuation of a prompt is taken first and stop
strings are cut out of it, so the tests hold for any model."""

import re

import pytest
from helpers import finish_reasons, joined_text

PROMPT = "1, 2, 3, 4, 5, 6,"


@pytest.fixture(scope="module")
def reference(shared_server):
    """(text, token ids) of the greedy continuation."""
    choice = shared_server.complete(PROMPT, max_tokens=40, ignore_eos=True,
                                    return_token_ids=True)["choices"][0]
    return choice["text"], choice["token_ids"]


def both_ways(server, **fields):
    """(text, finish reason, stop reason) not streamed; asserts that the stream says the same."""
    fields.setdefault("ignore_eos", True)
    answer = server.complete(PROMPT, max_tokens=40, **fields)
    choice = answer["choices"][0]
    events = server.complete_stream(PROMPT, max_tokens=40, **fields)
    assert joined_text(events) == choice["text"]
    assert finish_reasons(events) == {0: [choice["finish_reason"]]}
    return choice["text"], choice["finish_reason"], choice["stop_reason"], answer["usage"]


def test_bl_015_text_is_cut_before_the_stop_string(server, reference):
    text = reference[0]
    stop = text[10:16]
    got, reason, stop_reason, usage = both_ways(server, stop=[stop])
    assert got == text[:text.find(stop)]
    assert (reason, stop_reason) == ("stop", stop)
    assert usage["completion_tokens"] < 40


def test_bl_015_in_a_streamed_chat(server):
    question = "Repeat exactly: alpha beta gamma delta"
    whole = server.chat(question, max_tokens=40)["choices"][0]["message"]["content"]
    stop = whole[6:14]
    events = server.chat_stream(question, max_tokens=40, stop=[stop],
                                stream_options={"include_usage": True})
    assert joined_text(events) == whole[:whole.find(stop)]
    assert finish_reasons(events) == {0: ["stop"]}
    assert events[-1] == "[DONE]"
    assert 0 < events[-2]["usage"]["completion_tokens"] < 40


def test_bl_016_a_stop_string_that_never_comes_holds_nothing_back(server):
    plain = server.complete_stream(PROMPT, max_tokens=20, ignore_eos=True)
    held = server.complete_stream(PROMPT, max_tokens=20, ignore_eos=True, stop=["###########"])
    assert joined_text(held) == joined_text(plain)
    texts = [choice["text"] for event in held[:-1] for choice in event["choices"]]
    empty_pairs = sum(1 for a, b in zip(texts, texts[1:]) if a == "" and b == "")
    assert empty_pairs <= 1, texts
    assert texts[0] != "", "text appears with the first token"


def test_bl_017_stop_equal_to_the_first_word(server, reference):
    text = reference[0]
    got, reason, _, usage = both_ways(server, stop=[text[:2]])
    assert got == ""
    assert reason == "stop"
    assert usage["completion_tokens"] >= 1


@pytest.mark.parametrize("stop", ["", ["", "x"], [""], ["a", "b", "c", "d", "e"], 5, [5]])
def test_bl_018_empty_and_odd_stop_strings_are_400(server, stop):
    answer = server.post("/v1/completions", {"prompt": "Hi", "max_tokens": 2, "stop": stop})
    assert answer.status == 400
    assert "stop" in answer.error["message"] or "stop" in (answer.error["param"] or "")


def test_bl_019_include_stop_str_in_output(server, reference):
    text = reference[0]
    cut = text.find(",", 6)
    assert cut > 0
    stop = text[cut - 2:cut + 1]
    first = text.find(stop)
    without, *_ = both_ways(server, stop=stop)
    with_it, *_ = both_ways(server, stop=stop, include_stop_str_in_output=True)
    assert without == text[:first]
    assert with_it == text[:first + len(stop)]


def test_bl_020_a_stop_string_across_tokens(server, reference):
    text, ids = reference
    pieces = [server.detokenize([i]) for i in ids[:8]]
    # From the last character of one token to the first of the next but one.
    begin = len(pieces[0] + pieces[1] + pieces[2]) - 1
    stop = text[begin:len("".join(pieces[:4])) + 1]
    got, reason, *_ = both_ways(server, stop=[stop])
    assert got == text[:text.find(stop)]
    assert reason == "stop"


def test_bl_022_min_tokens_delays_stop_strings_and_stop_tokens(server, reference):
    text, ids = reference
    got, reason, stop_reason, usage = both_ways(server, stop=[","], min_tokens=20)
    assert 20 <= usage["completion_tokens"] < 40
    assert got.startswith(text[:10]) and "," in got
    assert (reason, stop_reason) == ("stop", ","), "the next match after the gate"
    assert text.startswith(got + ",")
    answer = server.complete(PROMPT, max_tokens=40, min_tokens=20, stop_token_ids=[ids[2]])
    assert answer["usage"]["completion_tokens"] >= 20


def test_bl_023_min_tokens_and_max_tokens(server):
    answer = server.complete("The end.", min_tokens=5, max_tokens=5)
    assert answer["usage"]["completion_tokens"] == 5
    refused = server.post("/v1/completions", {"prompt": "Hi", "min_tokens": 6, "max_tokens": 5})
    assert refused.status == 400


def test_bl_024_stop_token_ids(server, reference):
    ids = reference[1]
    at = 5
    stop_id = ids[at]
    first = ids.index(stop_id)
    answer = server.complete(PROMPT, max_tokens=40, stop_token_ids=[stop_id])
    choice = answer["choices"][0]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop_id)
    assert answer["usage"]["completion_tokens"] == first + 1


def test_bl_025_ids_alone_with_stop_strings(server):
    """Answers always have text, so a stop string always counts; to ask for ids alone is refused."""
    for path, body in (("/v1/completions", {"prompt": "One, two,"}),
                       ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]})):
        for stop in ({}, {"stop": ["x"]}):
            answer = server.post(path, {**body, **stop, "max_tokens": 4, "detokenize": False})
            assert answer.status == 400
            assert answer.error["param"] == "detokenize"
    whole = server.complete("One, two,", max_tokens=8, ignore_eos=True, return_token_ids=True)
    choice = whole["choices"][0]
    word = choice["text"].split()[1]
    cut = server.complete("One, two,", max_tokens=8, ignore_eos=True, return_token_ids=True,
                          detokenize=True, stop=[word])["choices"][0]
    assert cut["finish_reason"] == "stop" and word not in cut["text"]
    assert cut["token_ids"] == choice["token_ids"][:len(cut["token_ids"])]
    assert len(cut["token_ids"]) < len(choice["token_ids"])


@pytest.mark.parametrize("temperature", [0, 1])
def test_bad_words_never_come_up(server, temperature):
    fields = {"max_tokens": 24, "temperature": temperature, "seed": 3, "ignore_eos": True}
    free = server.complete_text("The capital of France is", **fields)
    banned = sorted({word.strip(".,!?\"'") for word in free.split()} - {""})[-4:]
    text = server.complete_text("The capital of France is", bad_words=banned, **fields)
    assert text != free
    for word in banned:
        # Another word that begins alike has tokens of its own.
        assert not re.search(rf" {re.escape(word)}\b", text), (word, text)
    for words in ([""], ["a", 5], "a", [f"word{i}" for i in range(200)]):
        answer = server.post("/v1/completions", {"prompt": "Hi", "bad_words": words})
        assert answer.status == 400 and "bad_words" in answer.text
