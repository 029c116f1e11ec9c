"""BL-106: what needs the API key, and what not."""

import pytest

KEY = "correct horse"
PUBLIC = ["/health", "/ping", "/version", "/live", "/ready"]
GUARDED = ["/load", "/metrics", "/metrics/", "/metrics/x", "/v1/models", "/v1/completions",
           "/v1/chat/completions", "/tokenize", "/detokenize", "/v1/embeddings", "/docs",
           "/openapi.json", "/server_info", "/reset_prefix_cache", "/nothing", "/"]
DISGUISED = ["//v1/models", "/v1/models/", "/V1/MODELS", "/v1//models", "/./v1/models",
             "/%76%31/models", "/health/", "//health", "/HEALTH", "/health%2f", "/health%00",
             "/v1/models?x=/health", "/health/../v1/models"]


@pytest.fixture(scope="module")
def guarded(start_server):
    return start_server("--api-key", KEY, "another", key=KEY)


def without_key(server, method, path, authorization=None):
    return server.request(method, path, headers={"Authorization": authorization})


@pytest.mark.parametrize("path", PUBLIC)
def test_bl_106_public_routes(guarded, path):
    assert without_key(guarded, "GET", path).status == 200


@pytest.mark.parametrize("path", GUARDED + DISGUISED)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_bl_106_everything_else_needs_the_key(guarded, method, path):
    for authorization in (None, "Bearer wrong", "Bearer", "Basic " + KEY, KEY, f"Bearer {KEY} "[:-2]):
        answer = without_key(guarded, method, path, authorization)
        assert answer.status == 401, (path, authorization)
        assert answer.body == b'{"error":"Unauthorized"}'
        assert "www-authenticate" not in answer.headers


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
@pytest.mark.parametrize("key", [KEY, "another"])
def test_bl_106_every_key_and_any_case_of_the_scheme(guarded, scheme, key):
    assert without_key(guarded, "GET", "/v1/models", f"{scheme} {key}").status == 200


def test_a_stranger_cannot_make_the_server_read_a_body(guarded):
    with guarded.raw() as raw:
        raw.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\n")
        assert raw.receive_until(b"Unauthorized").startswith(b"HTTP/1.1 401 ")


def test_the_key_never_enters_the_log(guarded):
    assert guarded.get("/v1/models").status == 200
    assert KEY not in guarded.log_text()


def test_the_key_from_the_environment_and_open_metrics(start_server):
    server = start_server("--unguarded-metrics", env={"VLLM_API_KEY": "from-env"}, key="from-env")
    assert without_key(server, "GET", "/metrics").status == 200
    assert without_key(server, "GET", "/v1/models").status == 401
    assert server.get("/v1/models").status == 200
