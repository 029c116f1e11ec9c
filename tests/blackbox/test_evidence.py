"""Runs every command of docs/operations/evidence.md against octavo."""

import json
import os
import re
import subprocess

import pytest
from helpers import ROOT, binary

PAGE = (ROOT / "docs/operations/evidence.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
COMMANDS = {title: "\n".join(re.findall(r"^```sh\n(.*?)^```", body, re.M | re.S))
            for title, body in SECTIONS.items() if "```sh" in body}


def run(title, server, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "octavo").symlink_to(os.path.abspath(binary()))
    (folder / "vllm-health").symlink_to(ROOT / "scripts" / "vllm-health")
    model = server.get("/v1/models").json["data"][0]["id"]
    done = subprocess.run(
        ["bash", "-ec", COMMANDS[title]], cwd=tmp_path, capture_output=True, text=True, timeout=100,
        env={"PATH": f"{folder}:/usr/bin:/bin", "URL": server.url, "MODEL": model,
             "OCTAVO_BINARY": os.path.abspath(binary())})
    assert done.returncode == 0, f"{COMMANDS[title]}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_claim_of_the_table_has_a_command():
    claims = re.findall(r"^\| \[(.+?)\]\(#(.+?)\)", PAGE, re.M)
    assert len(claims) == 6
    for claim, anchor in claims:
        title = claim[0].upper() + claim[1:]
        assert COMMANDS.get(title), title
        assert anchor == title.lower().replace(" ", "-")


@pytest.mark.parametrize("title, expected", [
    ("The server is up", "OK: 5 of 5"),
    ("The right model is served", "OK: 2 of 2"),
    ("Inference works", "one request of one token"),
    ("The model fits", "vllm:num_preemptions_total"),
    ("A tuning change helped", "| Output tokens/s |"),
])
def test_commands(title, expected, server, tmp_path):
    assert expected in run(title, server, tmp_path)


def test_the_diagnosis_reads_figures_under_load(server, tmp_path):
    def num_seen(attempt):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        data = json.loads(run("A diagnosis holds", server, folder))["checks"][0]["data"]
        return data["values"]["running"]["value"] + data["values"]["waiting"]["value"]

    # A probe is a moment: beside other work it may come before the load.
    assert any(num_seen(attempt) > 0 for attempt in range(5))
