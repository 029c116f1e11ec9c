"""`octavo bench sweep ...` with the stub as its server."""

import csv
import json
import re
import signal
import socket
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from helpers import binary, wait_for
from test_tune import LAUNCHER, Tune, alive


class Sweep(Tune):
    def __init__(self, tmp_path):
        super().__init__(tmp_path)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.experiment = tmp_path / "out" / "e"

    def write(self, name, value):
        path = self.folder / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return str(path)

    def command(self, *flags, command="serve", serve_flags="", bench_flags="", out="out"):
        return [binary(), "bench", "sweep", command,
                "--serve-cmd", f"{sys.executable} {LAUNCHER} --port {self.port} {serve_flags}",
                "--bench-cmd", f"{binary()} bench serve --port {self.port} --dataset-name custom "
                f"--dataset-path {self.prompts} --skip-chat-template --skip-tokenizer-init "
                f"--temperature 0 --num-prompts 4 {bench_flags}",
                "-o", str(self.folder / out), "-e", "e", *map(str, flags)]


@pytest.fixture
def sweep(tmp_path):
    sweep = Sweep(tmp_path)
    yield sweep
    wait_for(sweep.nothing_runs, what="the end of every server that the sweep started")


def test_every_pair_is_run_and_summed_up(sweep):
    serve = sweep.write("serve.json", [{"max_num_seqs": 1}, {"max_num_seqs": 4}])
    bench = sweep.write("bench.json", {"slow": {"request_rate": 50}, "all": {"request_rate": "inf"}})
    done = sweep.run("--serve-params", serve, "--bench-params", bench, "--num-runs", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    folders = sorted(path.name for path in sweep.experiment.iterdir() if path.is_dir())
    assert folders == [f"SERVE--max_num_seqs={n}-BENCH--{name}" for n in (1, 4)
                       for name in ("all", "slow")]
    runs = json.loads((sweep.experiment / folders[0] / "summary.json").read_text())
    assert [run["run_number"] for run in runs] == [0, 1]
    assert runs[0]["max_num_seqs"] == 1 and runs[0]["completed"] == 4
    assert "p99_e2el_ms" in runs[0] and runs[0]["_benchmark_name"] == "all"
    assert json.loads((sweep.experiment / folders[0] / "run=1.json").read_text()) == runs[1]
    assert (sweep.experiment / folders[0] / "run=1.record.json").exists()
    rows = list(csv.DictReader((sweep.experiment / "summary.csv").open()))
    assert [row[""] for row in rows] == [str(i) for i in range(8)]
    assert {(row["max_num_seqs"], row["request_rate"]) for row in rows} == {
        ("1", "50"), ("1", "inf"), ("4", "50"), ("4", "inf")}
    assert len(sweep.starts) == 2  # one server for each of its settings
    assert "has been saved at" in done.stdout


def test_linked_variables_leave_only_equal_pairs(sweep):
    serve = sweep.write("serve.json", [{"max_num_seqs": n} for n in (1, 2, 3)])
    bench = sweep.write("bench.json", [{"max_concurrency": n} for n in (1, 2)])
    done = sweep.run("--serve-params", serve, "--bench-params", bench, "--num-runs", 1,
                     "--link-vars", "max_num_seqs=max_concurrency")
    assert done.returncode == 0, done.stderr
    assert len(list(sweep.experiment.glob("*/summary.json"))) == 2
    assert len(sweep.starts) == 2  # none for 3


def test_dry_run_prints_commands_and_makes_nothing(sweep):
    serve = sweep.write("serve.json", [{"max_num_seqs": 9, "a_b": True, "c.d_e": False}])
    done = sweep.run("--serve-params", serve, "--dry-run", "--num-runs", 1)
    assert done.returncode == 0 and not sweep.starts and not sweep.experiment.exists()
    assert re.search(r"^Server command: .* --max-num-seqs 9 --a-b --c.d_e=false$", done.stdout, re.M)
    assert "will be saved at" in done.stdout


def test_resume_makes_only_what_is_missing(sweep):
    serve = sweep.write("serve.json", [{"max_num_seqs": 1}, {"max_num_seqs": 2}])
    flags = ["--serve-params", serve, "--num-runs", 2]
    assert sweep.run(*flags).returncode == 0
    again = sweep.run(*flags)
    assert again.returncode == 2 and "exists already; --resume" in again.stderr
    second = sweep.experiment / "SERVE--max_num_seqs=2"
    kept = (second / "run=0.json").read_text()
    (second / "run=1.json").write_text(kept[:50])  # cut off when the machine went down
    (second / "summary.json").unlink()
    done = sweep.run(*flags, "--resume")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Found existing results.") == 3
    assert len(sweep.starts) == 3 and "2" in sweep.starts[-1]["words"]
    assert (second / "run=0.json").read_text() == kept
    assert len(json.loads((second / "summary.json").read_text())) == 2
    assert len(list(csv.DictReader((sweep.experiment / "summary.csv").open()))) == 4
    unknown = sweep.run(*flags, "--resume", "-e", "other")
    assert unknown.returncode == 2 and "nothing to resume" in unknown.stderr


def test_warm_up_is_apart(sweep):
    done = sweep.run("--num-runs", 1, "--warmup-num-prompts", 2)
    assert done.returncode == 0, done.stderr
    assert json.loads((sweep.experiment / "default/warmup.json").read_text())["completed"] == 2
    assert len(json.loads((sweep.experiment / "default/summary.json").read_text())) == 1


def test_after_bench_command_replaces_the_reset(sweep):
    mark = sweep.folder / "mark"
    done = sweep.run("--num-runs", 2, "--after-bench-cmd", f"sh -c 'echo x >> {mark}'")
    assert done.returncode == 0 and mark.read_text() == "x\nx\n"
    done = sweep.run("--num-runs", 1, "--after-bench-cmd", "false", "-e", "f")
    assert done.returncode == 1 and "'false' ended with status 1" in done.stderr


def test_a_failure_ends_the_sweep_or_is_noted(sweep):
    serve = sweep.write("serve.json", [{"max_num_seqs": 9}, {"max_num_seqs": 2}])
    flags = ["--serve-params", serve, "--num-runs", 1]
    ended = sweep.run(*flags, serve_flags="--die-above 8")
    assert ended.returncode == 1 and "cannot start with these flags" in ended.stderr
    assert "--resume" in ended.stderr and len(sweep.starts) == 1
    done = sweep.run(*flags, "--continue-on-error", "-e", "c", serve_flags="--die-above 8")
    assert done.returncode == 0 and "WARNING: One run or server failed" in done.stdout
    folder = sweep.folder / "out/c"
    note = json.loads((folder / "SERVE--max_num_seqs=9.failure.json").read_text())
    assert note["serve_overrides"] == {"max_num_seqs": 9} and "status 3" in note["error"]
    assert (folder / "SERVE--max_num_seqs=2/summary.json").exists()


def test_a_benchmark_that_fails_is_noted(sweep):
    bench = sweep.write("bench.json", [{"num_prompts": -1, "frobnicate": 1}, {"num_prompts": 2}])
    done = sweep.run("--bench-params", bench, "--num-runs", 1, "--continue-on-error")
    assert done.returncode == 0, done.stderr
    notes = list(sweep.experiment.glob("*/run=0.failure.json"))
    assert len(notes) == 1 and "--frobnicate" in json.loads(notes[0].read_text())["error"]
    alone = sweep.run("--bench-params", bench, "--num-runs", 1, "-e", "x")
    assert alone.returncode == 1 and "ended with status 2" in alone.stderr


@pytest.mark.parametrize("text, message", [
    ("{nonsense", "it is no JSON"),
    ("3", "neither a list of maps"),
    ("[]", "it has no combination"),
    ("[3]", "entry 1 is not a map"),
    ('{"a": 3}', "'a' is not a map"),
    ('[{"_benchmark_name": "a"}, {"_benchmark_name": "a", "x": 1}]', "duplicate _benchmark_name 'a'"),
    ('[{"_benchmark_name": 3}]', "must be a text"),
    ('[{"x": 1}, {"x": 1}]', "duplicate combination 'x=1'"),
])
def test_parameter_files_that_cannot_be_are_refused(sweep, text, message):
    done = sweep.run("--serve-params", sweep.write("p.json", text))
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert "p.json" in done.stderr and not sweep.starts


@pytest.mark.parametrize("flags, message", [
    (["--serve-params", "/nonexistent.json"], "cannot read /nonexistent.json"),
    (["--link-vars", "a"], "is not SERVE=BENCH"),
    (["--link-vars", "a=b"], "leaves no combination"),
    (["--num-runs", "0"], "--num-runs must be 1"),
    (["--serve-cmd", "x 'y"], "is not closed"),
    (["--after-bench-cmd", ""], "the command is empty"),
    (["-e", "../x"], "is no name of a folder"),
    (["--frobnicate"], "--frobnicate"),
])
def test_a_command_line_that_cannot_be_is_refused(sweep, flags, message):
    done = sweep.run(*flags)
    assert done.returncode == 2 and message in done.stderr, done.stderr


def test_a_server_that_is_not_ours_is_left_alone(sweep):
    with socket.create_server(("127.0.0.1", sweep.port)):
        done = sweep.run("--num-runs", 1)
    assert done.returncode == 1 and "it is left alone" in done.stderr and not sweep.starts


def test_a_server_that_never_gets_ready_is_ended(sweep):
    done = sweep.run("--server-ready-timeout", 1, serve_flags="--never-ready")
    assert done.returncode == 1 and "not ready within 1 s" in done.stderr
    assert len(sweep.starts) == 1


def test_a_signal_ends_server_and_benchmark(sweep):
    running = sweep.start(bench_flags="--request-rate 0.1")
    try:
        wait_for(lambda: list(sweep.experiment.glob("default/run=0.log")), timeout=20)
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=20)
    finally:
        running.kill()
    assert running.returncode == 130 and "stopped by signal 2" in out
    assert sweep.starts and not alive(sweep.starts[0]["pid"])


def test_workload_levels_lie_between_the_ends(sweep):
    done = sweep.run("--num-runs", 1, "--workload-var", "max_concurrency", "--workload-iters", 4,
                     command="serve_workload", serve_flags="--max-num-seqs 16 --ttft-ms 40",
                     bench_flags="--num-prompts 12")
    assert done.returncode == 0, done.stdout + done.stderr
    levels = [int(path.name.split("=")[1]) for path in sweep.experiment.iterdir() if path.is_dir()]
    assert {1, 12} < set(levels) and len(levels) in (3, 4), levels
    assert all(1 <= level <= 12 for level in levels)
    rows = list(csv.DictReader((sweep.experiment / "summary.csv").open()))
    assert [int(row["max_concurrency"]) for row in rows] == sorted(levels)
    assert len(sweep.starts) == 1
    refused = sweep.run("--bench-params", sweep.write("b.json", [{"request-rate": 3}]),
                        command="serve_workload")
    assert refused.returncode == 2 and "is to be explored" in refused.stderr


@pytest.fixture
def experiment(tmp_path):
    """Two servers, three loads, two runs each; the second server is better."""
    for seqs in (1, 4):
        for users in (1, 2, 8):
            folder = tmp_path / f"SERVE--max_num_seqs={seqs}-BENCH--max_concurrency={users}"
            folder.mkdir()
            runs = [{"max_num_seqs": seqs, "max_concurrency": users, "request_rate": "inf",
                     "output_throughput": 10.0 * seqs * users ** 0.5 + run,
                     "total_token_throughput": 20.0 * seqs * users ** 0.5,
                     "median_ttft_ms": 5.0 * users + 4 * run, "run_number": run}
                    for run in range(2)]
            (folder / "summary.json").write_text(json.dumps(runs))
    return tmp_path


def draw(command, *flags):
    return subprocess.run([binary(), "bench", "sweep", command, *map(str, flags)],
                          capture_output=True, text=True, timeout=30)


def elements(path, kind):
    text = path.read_text()
    assert "<script" not in text and not re.search(r"(?:src|href)=", text)  # nothing from elsewhere
    return ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}" + kind)


def test_plot_draws_a_curve_for_each_server(experiment):
    done = draw("plot", experiment)
    assert done.returncode == 0, done.stderr
    lines = list(elements(experiment / "FIGURE.svg", "polyline"))
    assert [len(line.get("points").split()) for line in lines] == [3, 3]
    assert "max_num_seqs=4" in (experiment / "FIGURE.svg").read_text()
    page = (experiment / "FIGURE.html").read_text()
    assert "<svg" in page and page.count("<tr>") == 7


def test_workload_levels_are_one_curve(experiment):
    for folder in experiment.glob("SERVE*"):
        folder.rename(experiment / folder.name.replace("-BENCH--", "-WL--"))
    assert draw("plot", experiment).returncode == 0
    assert len(list(elements(experiment / "FIGURE.svg", "polyline"))) == 2


def test_plot_groups_filters_and_bins(experiment):
    done = draw("plot", experiment, "--fig-dir", "figs", "--fig-name", "a", "--fig-by", "max_num_seqs",
                "--row-by", "max_concurrency", "--curve-by", "run_number", "--filter-by",
                "max_concurrency<=2", "--scale-x", "log", "--bin-by", "total_token_throughput%50")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (experiment / "figs").iterdir()) == [
        f"a-max_num_seqs={n}.{kind}" for n in (1, 4) for kind in ("html", "svg")]
    dry = draw("plot", experiment, "--dry-run", "--fig-name", "b")
    assert "b.svg: 6 combinations" in dry.stdout and not list(experiment.glob("b*"))


def test_pareto_shows_what_no_other_beats(experiment):
    done = draw("plot_pareto", experiment)
    assert done.returncode == 0, done.stderr
    assert "6 combinations, 3 of them beaten by no other" in done.stdout
    text = (experiment / "pareto/PARETO.svg").read_text()
    assert "max_concurrency=8, gpu_count=1" in text
    assert list(elements(experiment / "pareto/PARETO.svg", "polyline"))


@pytest.mark.parametrize("command, flags, message", [
    ("plot", ["--var-y", "nothing"], "no run has a nothing"),
    ("plot", ["--filter-by", "a"], "is not like a<5"),
    ("plot", ["--bin-by", "a%0"], "is not like a%5"),
    ("plot", ["--scale-x", "cubic"], "--scale-x"),
    ("plot", ["--filter-by", "max_concurrency>100"], "no run has a"),
    ("plot_pareto", ["--gpu-count-var", "nothing"], "no run has"),
])
def test_what_cannot_be_drawn_is_said(experiment, command, flags, message):
    done = draw(command, experiment, *flags)
    assert done.returncode == 2 and message in done.stderr, done.stderr


def test_no_experiment_is_an_error(tmp_path):
    assert "has no results" in draw("plot", tmp_path).stderr
    (tmp_path / "a").mkdir()
    (tmp_path / "a/summary.json").write_text('{"a": 1}')
    assert "no list of runs" in draw("plot_pareto", tmp_path).stderr
    assert "give one folder" in draw("plot").stderr
    assert draw("bogus").returncode == 2
