"""Fixtures: one shared server for the session, a factory for special flags, the check after every
report. A name with bl_NNN is a public report about servers of this kind, by its number."""

import os
import signal

import pytest
from helpers import CONTEXT_LENGTH, Server, binary, default_model, wait_for

SMALL_POOL = ("--kv-cache-memory-bytes", "192M")
RSS_GROWTH_LIMIT = 150 << 20  # over a whole session, after the first tests


def pytest_configure(config):
    # A shell's background job starts with SIGINT ignored, and programs started here would inherit
    # that; a handler of Python's becomes the default for them.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "slow: the long form of a test; runs with OCTAVO_SLOW_TESTS=1"
                            " (./run-tests --all)")


def pytest_collection_modifyitems(items):
    if os.environ.get("OCTAVO_SLOW_TESTS", "") in ("", "0"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="slow: set OCTAVO_SLOW_TESTS=1"))
    if not os.path.exists(binary()):
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"no binary at {binary()}"))
    elif not os.path.exists(default_model()):
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"no model at {default_model()}"))


@pytest.fixture(scope="session")
def shared_server():
    server = Server(*SMALL_POOL, "--max-model-len", str(CONTEXT_LENGTH), "--max-num-seqs", "64")
    server.start_kv_usage = server.metrics().value("vllm:kv_cache_usage_perc")
    server.rss_after_warm_up = None
    server.num_checks = 0
    yield server
    server.stop()


def check_after(server, start_kv_usage=0.0):
    """What must hold after every entry: it answers, nothing runs, the pool is as at the start."""
    assert server.complete("After.", max_tokens=1)["usage"]["completion_tokens"] == 1
    if not server.metrics().has("vllm:kv_cache_usage_perc"):
        return  # --disable-log-stats
    server.wait_idle()
    wait_for(
        lambda: server.metrics().value("vllm:kv_cache_usage_perc") == start_kv_usage,
        what="KV usage back at its start value")


@pytest.fixture
def server(shared_server):
    """The shared server, checked after the test."""
    yield shared_server
    check_after(shared_server, shared_server.start_kv_usage)
    shared_server.num_checks += 1
    if shared_server.num_checks == 10:
        shared_server.rss_after_warm_up = shared_server.rss_bytes()
    if shared_server.rss_after_warm_up:
        growth = shared_server.rss_bytes() - shared_server.rss_after_warm_up
        # The KV pool's pages are touched when blocks are first handed out.
        assert growth < RSS_GROWTH_LIMIT + (192 << 20), f"RSS grew by {growth >> 20} MiB"


@pytest.fixture(scope="module")
def start_server():
    """Factory: start_server("--flag", ...) -> Server, checked and stopped at the end of the
    module."""
    started = []

    def start(*flags, pool=SMALL_POOL, length=1024, **kwargs):
        server = Server(*pool, "--max-model-len", str(length), *flags, **kwargs)
        started.append(server)
        return server

    yield start
    try:
        for server in started:
            if server.process.poll() is None:
                check_after(server)
    finally:
        for server in started:
            server.stop()


@pytest.fixture(scope="module")
def small_server(start_server):
    """A context of 256 tokens, for what happens at its end."""
    return start_server(length=256)
