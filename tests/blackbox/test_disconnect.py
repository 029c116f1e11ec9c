"""Clients that leave at every moment of a request."""

import json
import random

from helpers import parallel, wait_for
from test_cases_i_load import LONG, open_request, running


def test_a_half_close_counts_as_leaving_a_generation(server):
    raw = open_request(server, {**LONG, "stream": True})
    wait_for(lambda: running(server) == 1, what="the request runs")
    raw.socket.shutdown(1)
    wait_for(lambda: running(server) == 0, timeout=2, what="running is 0")
    raw.close()


def test_leaving_at_random_moments_loses_nothing(server):
    rng = random.Random(7)
    delays = [rng.uniform(0, 0.3) for _ in range(60)]

    def run(delay):
        raw = open_request(server, {**LONG, "max_tokens": 200, "stream": delay > 0.15})
        raw.socket.settimeout(delay)
        try:
            while raw.socket.recv(4096):
                pass
        except TimeoutError:
            pass
        raw.close()

    parallel(run, delays, workers=20)
    server.wait_idle()


def test_leaving_before_the_body_is_complete(server):
    for cut in (10, 100, 160):
        data = json.dumps(LONG).encode()
        whole = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                 b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        with server.raw() as raw:
            raw.send(whole[:cut])
    server.wait_idle()


def test_one_child_of_many_leaves_with_all_the_others(server):
    body = {**LONG, "n": 4, "temperature": 1, "stream": True}
    raw = open_request(server, body)
    wait_for(lambda: running(server) == 4, what="four run")
    raw.close()
    wait_for(lambda: running(server) == 0, timeout=2, what="running is 0")
