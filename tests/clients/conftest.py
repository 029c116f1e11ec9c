"""Clients that are not in the test environment; see README.md."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "blackbox"))


def program(variable):
    path = os.environ.get(variable)
    if not path:
        pytest.skip(f"{variable} is not set (tests/clients/README.md)")
    return path


@pytest.fixture
def guidellm():
    return program("OCTAVO_GUIDELLM")


@pytest.fixture
def vllm():
    return program("OCTAVO_VLLM")


@pytest.fixture
def tokenizer():
    return program("OCTAVO_TEST_HF")


@pytest.fixture
def octavo():
    from helpers import Server
    server = Server("--kv-cache-memory-bytes", "192M", "--max-model-len", "2048")
    yield server
    server.kill()
