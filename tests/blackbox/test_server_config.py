"""GET /octavo/config: the resolved configuration, guarded, without secrets."""

import re


def test_what_the_server_runs_with(server):
    answer = server.get("/octavo/config")
    assert answer.status == 200
    config = answer.json
    assert config["format"] == "octavo-config/1"
    assert config["version"] == server.get("/version").json["version"]
    assert re.fullmatch(r"[0-9a-f]{12}|unknown", config["git_revision"])
    models = server.get("/v1/models").json["data"]
    assert config["model"]["served_model_name"] == [model["id"] for model in models]
    assert config["model"]["path"] == models[0]["root"]
    assert config["model"]["max_model_len"] == models[0]["max_model_len"]
    assert config["non_default_args"]["max_num_seqs"] == "64"
    assert config["scheduler"]["max_num_seqs"] == 64
    assert config["cache"]["kv_cache_bytes"] <= 192 << 20
    assert config["cache"]["num_blocks"] * config["cache"]["block_size"] >= 4096
    assert config["device"]["num_threads"] >= 1 and config["device"]["kernels"]


def test_it_is_guarded_and_shows_no_key(start_server):
    server = start_server("--api-key", "hush-hush", "--unguarded-metrics", key="hush-hush")
    assert server.get("/octavo/config", headers={"Authorization": None}).status == 401
    answer = server.get("/octavo/config")
    assert answer.status == 200 and "hush" not in answer.text
    assert server.post("/octavo/config", {}).status == 405
