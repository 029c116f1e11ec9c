"""Queue limits and their answers; what an operator sees when the server is full."""

from helpers import wait_for
from test_cases_i_load import LONG, open_request, running


def test_a_full_queue_is_503_with_a_hint(start_server):
    server = start_server("--max-num-seqs", "1", "--max-num-queued-reqs", "3")  # with the running one
    first = open_request(server, {**LONG, "max_tokens": 900, "stream": True})
    wait_for(lambda: running(server) == 1, what="A runs")
    waiting = [open_request(server, {**LONG, "max_tokens": 1}) for _ in range(2)]
    wait_for(lambda: server.metrics().value("vllm:num_requests_waiting") == 2, what="two wait")
    refused = server.post("/v1/completions", {"prompt": "Hi", "max_tokens": 1})
    assert refused.status == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.error["code"] == 503
    first.close()
    for raw in waiting:
        assert b" 200 " in raw.receive_until(b"\r\n")
        raw.close()
    server.wait_idle()
    assert server.complete("Hi", max_tokens=1)


def test_load_counts_open_generations_with_the_flag(start_server, server):
    assert server.get("/load").json == {"server_load": 0}
    tracked = start_server("--enable-server-load-tracking")
    assert tracked.get("/load").json == {"server_load": 0}
    open_one = open_request(tracked, {**LONG, "max_tokens": 900, "stream": True})
    wait_for(lambda: tracked.get("/load").json == {"server_load": 1}, what="the load is 1")
    open_one.close()
    wait_for(lambda: tracked.get("/load").json == {"server_load": 0}, what="the load is 0")


def test_a_request_that_can_never_fit_is_400_at_once(start_server):
    server = start_server("--num-gpu-blocks-override", "20", length=256)
    ids = [1000] * 250
    answer = server.post("/v1/completions", {"prompt": ids, "max_tokens": 5})
    assert answer.status == 200, "256 tokens are 16 blocks"
    assert server.post("/v1/completions", {"prompt": ids * 2, "max_tokens": 5}).status == 400
