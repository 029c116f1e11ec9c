"""GET /octavo/config: the resolved configuration, guarded, without secrets."""

import hashlib
import json
import re
import subprocess
from pathlib import Path

from helpers import ROOT, binary, default_model, wait_for


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
    words = config["command_line"]
    assert words[words.index("--max-num-seqs") + 1] == "64"
    assert config["scheduler"]["max_num_seqs"] == 64
    assert config["cache"]["kv_cache_bytes"] <= 192 << 20
    assert config["cache"]["num_blocks"] * config["cache"]["block_size"] >= 4096
    assert config["parallel"] == {"tensor_parallel_size": 1, "pipeline_parallel_size": 1,
                                  "data_parallel_size": 1}
    assert config["device"]["num_threads"] >= 1 and config["device"]["kernels"]


def test_it_is_guarded_and_shows_no_key(start_server):
    server = start_server("--api-key", "hush-hush", "--unguarded-metrics", key="hush-hush")
    assert server.get("/octavo/config", headers={"Authorization": None}).status == 401
    answer = server.get("/octavo/config")
    assert answer.status == 200 and "hush" not in answer.text
    words = answer.json["command_line"]
    assert words[words.index("--api-key") + 1] == "***"
    assert server.post("/octavo/config", {}).status == 405


def test_the_hash_of_the_weights_comes_when_it_is_asked_for(start_server):
    server = start_server(env={"OCTAVO_IMAGE_DIGEST": "sha256:feed"})
    config = server.get("/octavo/config").json
    assert config["image_digest"] == "sha256:feed" and config["model"]["revision"] is None
    model = config["model"]
    if model["weights_sha256_state"] == "computing":
        assert model["weights_sha256"] is None
    wait_for(lambda: server.get("/octavo/config").json["model"]["weights_sha256_state"] == "ready",
             timeout=60, what="the hash of the weights")
    digest = hashlib.sha256(Path(default_model()).read_bytes()).hexdigest()
    assert server.get("/octavo/config").json["model"]["weights_sha256"] == digest


def record(*flags, env=None):
    return subprocess.run([binary(), "config", "record", *flags], capture_output=True, text=True,
                          timeout=30, env={"PATH": "/usr/bin:/bin", **(env or {})})


def test_config_record_fills_the_page(server):
    done = record("--url", server.url)
    assert done.returncode == 0, done.stderr
    assert done.stderr in ("", "Waiting for the server's hash of its weights...\n")
    config = server.get("/octavo/config").json
    assert f"| Git revision | {config['git_revision']} |" in done.stdout
    assert "| Sequences at once | 64 |" in done.stdout
    assert '| Parallelism | {"tensor_parallel_size":1,' in done.stdout
    assert f"| SHA-256 of the weights | {config['model']['weights_sha256']} |" in done.stdout
    empty = (ROOT / "templates/serving-config.md").read_text()
    labels = [line.split("|")[1] for line in empty.splitlines() if line.startswith("|")]
    assert [line.split("|")[1] for line in done.stdout.splitlines()
            if line.startswith("|")] == labels
    assert json.loads(record("--url", server.url, "--json").stdout)["config"] == config


def test_config_record_with_a_key_and_without_a_server(start_server):
    server = start_server("--api-key", "hush-hush", key="hush-hush")
    assert record("--url", server.url).returncode == 1
    done = record("--url", server.url, env={"VLLM_API_KEY": "hush-hush"})
    assert done.returncode == 0 and "hush" not in done.stdout
    assert record("--url", "http://127.0.0.1:1").returncode == 1
    assert record("--url", "nonsense").returncode == 2
    assert record("--nope").returncode == 2
    assert subprocess.run([binary(), "config", "forget"], capture_output=True).returncode == 2
