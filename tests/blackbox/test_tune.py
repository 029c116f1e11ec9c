"""`octavo tune` with the stub as its server: what it finds, what it starts and what it leaves."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers import binary, wait_for

LAUNCHER = Path(__file__).with_name("stub_launcher.py")
QUICK = ["--run-seconds", "0.5", "--min-prompts", "16", "--repeats", "1", "--resolution", "0.4",
         "--max-rate", "400"]


def alive(pid):
    """A zombie that nobody has reaped yet does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Tune:
    def __init__(self, tmp_path):
        self.folder = tmp_path
        self.trace = tmp_path / "trace"
        self.trace.touch()
        self.prompts = tmp_path / "prompts.jsonl"
        self.prompts.write_text("".join(json.dumps({"prompt": f"question {i}"}) + "\n"
                                        for i in range(8)))
        self.environment = {**os.environ, "STUB_TRACE": str(self.trace)}

    def command(self, *flags, serve_flags="", goal="e2el_p90_ms=80"):
        return [binary(), "tune", "--serve-cmd", f"{sys.executable} {LAUNCHER} {serve_flags}",
                *(["--goal", goal] if goal else []), "--dataset-name", "custom", "--dataset-path",
                str(self.prompts), "--skip-chat-template", "--skip-tokenizer-init", "--output-dir",
                str(self.folder / "out"), "--experiment-name", "t", *QUICK, *flags]

    def run(self, *flags, timeout=110, **kwargs):
        return subprocess.run(self.command(*flags, **kwargs), capture_output=True, text=True,
                              timeout=timeout, env=self.environment)

    def start(self, *flags, **kwargs):
        return subprocess.Popen(self.command(*flags, **kwargs), stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env=self.environment)

    @property
    def result(self):
        return json.loads((self.folder / "out/t/tune.json").read_text())

    @property
    def starts(self):
        return [json.loads(line) for line in self.trace.read_text().splitlines()]

    def nothing_runs(self):
        return not any(alive(start["pid"]) for start in self.starts)


@pytest.fixture
def tune(tmp_path):
    tune = Tune(tmp_path)
    yield tune
    wait_for(tune.nothing_runs, what="the end of every server that tune started")


def test_finds_the_flag_that_raises_the_rate(tune):
    done = tune.run("--knob", "max-num-seqs=8", serve_flags="--ttft-ms 20 --max-num-seqs 1")
    assert done.returncode == 0, done.stdout + done.stderr
    result = tune.result
    baseline, step = result["steps"]
    # One request at a time of 24 ms each: about 40 a second are the end.
    assert 4 < baseline["sustained_rate"] < 60
    assert step["is_kept"] and step["value_before"] == "1"
    assert result["chosen_flags"] == {"max-num-seqs": "8"}
    assert result["sustained_rate"] >= 1.5 * result["baseline_rate"]
    assert baseline["tests"][0]["request_rate"] == "inf"
    failed = [run for test in baseline["tests"] for run in test["runs"] if not run["is_good"]]
    assert failed and all(run["reason"] for run in failed)
    for test in baseline["tests"] + step["tests"]:
        for run in test["runs"]:  # each with its record
            path = tune.folder / "out/t" / run["result_file"]
            assert json.loads(path.read_text())["completed"] == 16 or test["request_rate"] != "inf"
            assert path.with_suffix(".record.json").exists()
    assert "--max-num-seqs 8" in result["chosen_cmd"] and "8" not in result["rollback_cmd"].split()
    text = done.stdout
    assert re.search(r"^\[ +\d+ s\] Step 2: --max-num-seqs 8 \(was 1\)$", text, re.M)
    assert "Chosen flags: --max-num-seqs 8" in text and "Rollback:" in text
    assert "one flag: put back --max-num-seqs 1" in text
    assert [start["words"][-4:-1] for start in tune.starts] == [["--host", "127.0.0.1", "--port"]] * 2


def test_a_number_in_use_is_doubled_while_that_helps(tune):
    done = tune.run("--knob", "max-num-seqs", "--max-rate", "60",
                    serve_flags="--ttft-ms 25 --max-num-seqs 1")
    assert done.returncode == 0, done.stdout + done.stderr
    steps = tune.result["steps"][1:]
    assert [step["value"] for step in steps] == ["2", "4", "8"][:len(steps)] and steps[0]["is_kept"]
    assert tune.result["sustained_rate"] <= 60


def test_flags_with_which_the_server_does_not_start_are_passed_over(tune):
    done = tune.run("--knob", "max-num-seqs=9", serve_flags="--die-above 8")
    assert done.returncode == 0, done.stdout + done.stderr
    step = tune.result["steps"][1]
    assert not step["is_kept"] and "ended with status 3" in step["note"]
    assert "cannot start with these flags" in step["note"]  # its own words
    assert "Chosen flags: none" in done.stdout


def test_a_goal_out_of_reach_is_an_answer(tune):
    done = tune.run("--knob", "max-num-seqs=4", "--min-rate", "20", goal="ttft_mean_ms=1")
    assert done.returncode == 1
    assert "No tested rate keeps the goals: ttft_mean_ms <= 1" in done.stdout
    assert tune.result["sustained_rate"] == 0


def test_time_is_bounded(tune):
    start = time.monotonic()
    done = tune.run("--max-minutes", "0.05", "--run-seconds", "1.5")
    assert time.monotonic() - start < 12
    assert "time is up" in done.stdout and tune.result["cut_short"] == "time is up"


@pytest.mark.parametrize("flags, text", [
    ("--die", "ended with status 3"),
    ("--never-ready", "not ready within 1 s"),
])
def test_a_server_that_does_not_come_up_is_an_error(tune, flags, text):
    done = tune.run("--server-ready-timeout", "1", serve_flags=flags)
    assert done.returncode == 1 and text in done.stderr, done.stderr


def test_a_bench_that_fails_is_an_error_with_its_words(tune):
    tune.prompts.unlink()
    done = tune.run()
    assert done.returncode == 1 and "bench serve ended with status" in done.stderr
    assert "prompts.jsonl" in done.stderr


@pytest.mark.slow  # ten seconds from SIGTERM to SIGKILL; child_process_test.cc has the quick one
def test_helpers_of_the_server_end_too(tune):
    done = tune.run("--server-ready-timeout", "1", serve_flags="--with-helper --never-ready")
    assert done.returncode == 1
    assert len(tune.starts) == 2  # the fixture sees that both are gone


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_servers_too(tune, number):
    running = tune.start("--run-seconds", "20", "--min-rate", "5", "--max-rate", "5")
    try:
        wait_for(lambda: list((tune.folder / "out/t").glob("run-002*.log")), timeout=20)
        running.send_signal(number)
        out, _ = running.communicate(timeout=20)
    finally:
        running.kill()
    assert running.returncode == 128 + number, out
    assert f"stopped by signal {int(number)}" in out
    assert tune.nothing_runs()


def test_nobody_has_to_read_the_output(tune):
    running = tune.start("--knob", "max-num-seqs=4", "--max-rate", "40")
    assert running.stdout.readline()
    running.stdout.close()
    assert running.wait(timeout=60) == 0 and tune.result["sustained_rate"] == 40


def test_death_of_tune_ends_the_server(tune):
    running = tune.start("--run-seconds", "20")
    wait_for(lambda: tune.starts, timeout=20)
    running.kill()
    running.communicate()


def test_a_server_that_tune_did_not_start_is_left_alone(tune):
    with socket.create_server(("127.0.0.1", 0)) as other:
        done = tune.run("--knob", "max-num-seqs=4", serve_flags=f"--port {other.getsockname()[1]}")
        assert done.returncode == 0, done.stderr  # on a port of its own
        other.settimeout(0.01)
        with pytest.raises(TimeoutError):
            other.accept()


@pytest.mark.parametrize("flags, text", [
    (["--goal", "ttft_p99=5"], "--goal ttft_p99=5"),
    (["--goal", "speed_p99_ms=5"], "the metric is not one of"),
    (["--goal", "ttft_p101_ms=5"], "p0 to p100"),
    (["--goal", "ttft_p99_ms=-5"], "not a number above 0"),
    (["--goal", "ttft_p99_ms=nan"], "not a number above 0"),
    (["--request-rate", "5"], "chooses this itself"),
    (["--max-concurrency", "5"], "hide"),
    (["--repeats", "0"], "--repeats must be 1 to 99"),
    (["--min-rate", "9", "--max-rate", "3"], "--max-rate must be 9"),
    (["--knob", "=3"], "there is no name"),
    (["--knob", "port=80"], "address itself"),
    (["--knob", "some-flag"], "give its values"),
    (["--frobnicate"], "--frobnicate"),
    (["--serve-cmd", "a 'b"], "is not closed"),
])
def test_a_command_line_that_cannot_be_is_refused(tune, flags, text):
    done = tune.run(*flags)
    assert done.returncode == 2 and text in done.stderr, done.stderr
    assert not tune.starts


def test_results_are_never_mixed(tune):
    (tune.folder / "out/t").mkdir(parents=True)
    done = tune.run()
    assert done.returncode == 2 and "exists already" in done.stderr
