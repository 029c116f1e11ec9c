"""`octavo chat`, `octavo complete` and `octavo collect-env`."""

import json
import re
import signal
import subprocess

import pytest
from helpers import binary, wait_for
from stub_openai import Script, StubServer

ENV = {"PATH": "/usr/bin:/bin"}


def octavo(*args, stdin="", env=None):
    return subprocess.run([binary(), *map(str, args)], input=stdin, capture_output=True, text=True,
                          timeout=60, env={**ENV, **(env or {})})


def sse(*events):
    body = b"".join(b"data: " + json.dumps(e).encode() + b"\n\n" for e in events)
    return (200, "text/event-stream", body + b"data: [DONE]\n\n")


def deltas(*values):
    return sse(*({"choices": [{"index": 0, "delta": value}]} for value in values))


def test_chat_one_question():
    with StubServer(Script(chunks=3, ttft=0.05)) as stub:
        done = octavo("chat", "--url", f"{stub.url}/v1", "-q", "Hi", "--stats", "--system-prompt", "Be.")
        request = stub.posts("/v1/chat/completions")[0]
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[:2] == ["Using model: stub-model", " t0 t1 t2"]
    assert re.fullmatch(r"TTFT: \d+\.\d\d ms", lines[2]) and float(lines[2].split()[1]) >= 50
    assert re.fullmatch(r"TPS:  \d+\.\d\d tokens/s \(3 tokens in 0\.\d\ds\)", lines[3])
    assert request["body"]["messages"] == [{"role": "system", "content": "Be."},
                                           {"role": "user", "content": "Hi"}]
    assert request["headers"]["Authorization"] == "Bearer EMPTY"


def test_chat_keeps_the_conversation_until_the_end_of_input():
    with StubServer(Script(chunks=1)) as stub:
        done = octavo("chat", "--url", f"{stub.url}/v1", stdin="one\ntwo\n",
                      env={"OPENAI_API_KEY": "k1"})
        bodies = [r["body"] for r in stub.posts("/v1/chat/completions")]
        assert stub.requests[0]["headers"]["Authorization"] == "Bearer k1"
    assert done.returncode == 0
    assert done.stdout == ("Using model: stub-model\nPlease enter a message for the chat model:\n"
                           ">  t0\n>  t0\n> ")
    assert [m["content"] for m in bodies[1]["messages"]] == ["one", " t0", "two"]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_is_wrapped(field):
    routes = {"/v1/chat/completions": deltas({"role": "assistant", "content": ""}, {field: "hm"},
                                             {field: "."}, {"content": "yes"})}
    with StubServer(Script(routes=routes)) as stub:
        done = octavo("chat", "--url", f"{stub.url}/v1", "-q", "x")
    assert done.stdout.splitlines()[1:] == ["<think>", "hm.", "</think>", "yes"]


def test_complete():
    with StubServer(Script(chunks=2)) as stub:
        done = octavo("complete", "--url", f"{stub.url}/v1", "--model-name", "m", "--max-tokens", 7,
                      "--quick", "Once")
        body = stub.posts("/v1/completions")[0]["body"]
        assert [r["path"] for r in stub.requests] == ["/v1/completions"]
    assert done.stdout == "Using model: m\n t0 t1\n"
    assert body == {"model": "m", "prompt": "Once", "max_tokens": 7, "stream": True}


def test_against_octavo(server):
    done = octavo("complete", "--url", f"{server.url}/v1", "--max-tokens", 4, "-q", "One two", "--stats")
    assert done.returncode == 0 and "(4 tokens in" in done.stdout
    done = octavo("chat", "--url", f"{server.url}/v1", "--model-name", "nope", "-q", "Hi")
    assert done.returncode == 1 and "404" in done.stderr and "nope" in done.stderr


def test_failures_are_one_line():
    done = octavo("chat", "--url", "http://127.0.0.1:1/v1", "-q", "x")
    assert done.returncode == 1 and done.stderr.startswith("octavo chat: error: cannot connect")
    routes = {"/v1/chat/completions": sse({"error": {"message": "it died"}})}
    with StubServer(Script(routes=routes)) as stub:
        done = octavo("chat", "--url", f"{stub.url}/v1", "-q", "x")
        assert done.returncode == 1 and "it died" in done.stderr
        # At the prompt an error ends the question, not the session; the failed one is forgotten.
        done = octavo("chat", "--url", f"{stub.url}/v1", stdin="a\nb\n")
        assert done.returncode == 0 and done.stderr.count("it died") == 2
        assert len(stub.posts("/v1/chat/completions")[-1]["body"]["messages"]) == 1
    for flags in (["--nope"], ["--url", "localhost"], ["--max-tokens"]):
        assert octavo("complete", *flags).returncode == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTSTP])
def test_signals_end_the_session_with_0(number):
    with StubServer() as stub:
        session = subprocess.Popen([binary(), "chat", "--url", f"{stub.url}/v1"], env=ENV,
                                   stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        wait_for(lambda: stub.requests, what="the model list was asked for")
        wait_for(lambda: (session.send_signal(number), session.poll() is not None)[1],
                 what="the end of the session")
        assert session.wait() == 0
        session.stdin.close()


def test_collect_env():
    done = octavo("collect-env", env={"VLLM_LOGGING_LEVEL": "DEBUG", "VLLM_API_KEY": "hush",
                                      "OTHER": "x"})
    assert done.returncode == 0 and done.stderr == ""
    titles = re.findall(r"^={30}\n *(.+?) *\n={30}$", done.stdout, re.M)
    assert titles == ["System Info", "PyTorch Info", "Python Environment", "GPU info", "CPU Info",
                      "Versions of relevant libraries", "vLLM Info", "Environment Variables"]
    assert re.search(r"^OS {27}: \S", done.stdout, re.M)
    assert "VLLM_LOGGING_LEVEL=DEBUG" in done.stdout
    assert "hush" not in done.stdout and "OTHER" not in done.stdout
    assert "Could not collect" in octavo("collect-env", env={"PATH": "/nowhere"}).stdout
    assert octavo("collect-env", "--x").returncode == 2
