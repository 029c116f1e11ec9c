"""`octavo bench serve` against the deterministic stub and against octavo itself."""

import json
import re
import subprocess

import pytest
from helpers import binary, default_model
from stub_openai import Script, StubServer

BLOCK_TITLE = " Serving Benchmark Result ".center(50, "=")


def bench(*flags, env=None, timeout=60):
    return subprocess.run([binary(), "bench", "serve", *map(str, flags)], capture_output=True,
                          text=True, timeout=timeout, env={"PATH": "/usr/bin:/bin", **(env or {})})


@pytest.fixture
def prompts(tmp_path):
    """A custom data set: no tokenizer is needed for it."""
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"question {i}"}) + "\n" for i in range(8)))
    return ["--dataset-name", "custom", "--dataset-path", path, "--skip-chat-template",
            "--skip-tokenizer-init"]


def run(stub, tmp_path, *flags, **kwargs):
    """The finished run and its detailed result."""
    done = bench("--base-url", stub.url, "--save-result", "--save-detailed", "--result-dir",
                 tmp_path / "out", "--result-filename", "r.json", "--disable-tqdm", *flags, **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done, json.loads((tmp_path / "out" / "r.json").read_text())


def line(done, label):
    found = re.search(rf"^{re.escape(label)} +(\S+) *$", done.stdout, re.M)
    assert found, f"no line '{label}' in\n{done.stdout}"
    return float(found.group(1))


def test_the_progress_bar_counts_requests_unless_it_is_turned_off(prompts):
    with StubServer(Script(ttft=0.01, itl=0.01, chunks=2)) as stub:
        for flags, shown in (([], True), (["--disable-tqdm"], False)):
            done = bench("--base-url", stub.url, *prompts, "--num-prompts", 8, *flags)
            assert done.returncode == 0, done.stderr
            assert bool(re.search(r"^ *0%\| +\| 0/8 ", done.stderr, re.M)) == shown
            assert bool(re.search(r"^100%\|#+\| 8/8 \[[0-9:]+<00:00, .*it/s\]$", done.stderr,
                                  re.M)) == shown


def test_scripted_delays_are_measured(tmp_path, prompts):
    with StubServer(Script(ttft=0.1, itl=0.03, chunks=6, tokens_per_chunk=2)) as stub:
        done, result = run(stub, tmp_path, *prompts, "--num-prompts", 8, "--max-concurrency", 4)
    assert result["completed"] == 8 and result["failed"] == 0
    assert result["total_output_tokens"] == 96 and result["total_input_tokens"] == 88
    for i in range(8):
        assert 0.1 <= result["ttfts"][i] < 0.16
        assert len(result["itls"][i]) == 5  # chunks, not tokens
        assert 0.25 <= result["latencies"][i] < 0.33
        assert abs(result["ttfts"][i] + sum(result["itls"][i]) - result["latencies"][i]) < 1e-6
    assert 0.5 <= result["duration"] < 0.8  # two rounds of four
    assert result["max_concurrent_requests"] <= 8
    assert result["generated_texts"][0].startswith(" t0 t0 t1")
    assert BLOCK_TITLE in done.stdout
    assert line(done, "Successful requests:") == 8
    assert line(done, "Maximum request concurrency:") == 4
    assert "Client CPU:" in done.stdout


def test_chat_does_not_time_the_role_chunk(tmp_path, prompts):
    with StubServer(Script(ttft=0.15, itl=0.01, chunks=3)) as stub:
        _, result = run(stub, tmp_path, *prompts, "--num-prompts", 2, "--backend", "openai-chat",
                        "--endpoint", "/v1/chat/completions")
        body = stub.posts("/v1/chat/completions")[0]["body"]
    assert min(result["ttfts"]) >= 0.15
    assert [len(gaps) for gaps in result["itls"]] == [2, 2]
    assert body["messages"][0]["content"][0]["type"] == "text" and "max_tokens" not in body


def test_failures_are_apart_from_the_latencies(tmp_path, prompts):
    with StubServer(Script(fail_every=3)) as stub:
        done, result = run(stub, tmp_path, *prompts, "--num-prompts", 9, "--max-concurrency", 1)
    assert (result["completed"], result["failed"]) == (6, 3)
    assert result["output_lens"].count(0) == 3
    assert result["errors"].count("Service Unavailable") == 3
    assert done.stdout.count("Service Unavailable") == 3
    assert result["p99_ttft_ms"] < 200


def test_a_server_that_hangs_up_between_requests_costs_nothing(tmp_path, prompts):
    with StubServer(Script(ttft=0.001, itl=0, chunks=2, close_every=2)) as stub:
        _, result = run(stub, tmp_path, *prompts, "--num-prompts", 40, "--max-concurrency", 2)
        assert len(stub.posts("/v1/completions")) == 40
    assert (result["completed"], result["failed"]) == (40, 0)


def test_rate_and_order_of_sending(tmp_path, prompts):
    with StubServer(Script(ttft=0.001, itl=0, chunks=1)) as stub:
        done, result = run(stub, tmp_path, *prompts, "--num-prompts", 8, "--request-rate", 20,
                           "--burstiness", "inf", "--goodput", "ttft:1000", "e2el:0.0001",
                           "--metadata", "a=b", "--request-id-prefix", "x-")
        ids = [r["headers"]["x-request-id"] for r in stub.posts("/v1/completions")]
    starts = result["start_times"]
    gaps = [b - a for a, b in zip(starts, starts[1:])]
    assert all(0.03 < gap < 0.09 for gap in gaps), gaps
    assert ids == [f"x-{i}" for i in range(8)]
    assert result["a"] == "b" and result["request_rate"] == 20.0
    assert result["request_goodput"] == 0
    assert line(done, "Request rate configured (RPS):") == 20


def test_ramp_up_is_logged(tmp_path, prompts):
    with StubServer(Script(ttft=0.001, itl=0, chunks=1)) as stub:
        _, result = run(stub, tmp_path, *prompts, "--num-prompts", 12, "--ramp-up-strategy",
                        "linear", "--ramp-up-start-rps", 20, "--ramp-up-end-rps", 24)
    assert [event["rps"] for event in result["rps_change_events"]] == [20, 21, 22, 23, 24]
    assert result["ramp_up_strategy"] == "linear"


def test_ready_check_warm_ups_and_probes(tmp_path, prompts):
    with StubServer(Script(ttft=0.02, itl=0.01, chunks=3)) as stub:
        done, result = run(stub, tmp_path, *prompts, "--num-prompts", 8, "--ready-check-timeout-sec",
                           5, "--num-warmups", 3, "--probe-request-rate", 50, "--max-concurrency", 1)
        posts = stub.posts("/v1/completions")
    assert "Initial test run completed." in done.stdout
    assert "Warmup run completed." in done.stdout
    probes = [r for r in posts if r["body"]["prompt"] == "Hi"]
    assert len(posts) - len(probes) == 1 + 3 + 8
    assert result["probe_completed"] == len(probes) and result["probe_failed"] == 0
    assert result["completed"] == 8
    assert line(done, "Probe requests completed:") == len(probes)


def test_profile_starts_and_stops_the_servers_profiler(tmp_path, prompts):
    ok = (200, "text/plain", b"")
    with StubServer(Script(routes={"/start_profile": ok, "/stop_profile": ok})) as stub:
        done, _ = run(stub, tmp_path, *prompts, "--num-prompts", 3, "--num-warmups", 1, "--profile")
        paths = [r["path"] for r in stub.requests if r["method"] == "POST"]
    # Not the warm-up, and every measured request.
    assert paths == ["/v1/completions", "/start_profile", *["/v1/completions"] * 3, "/stop_profile"]
    assert "Profiler started" in done.stdout and "Profiler stopped" in done.stdout
    with StubServer(Script()) as stub:
        done = bench("--base-url", stub.url, *prompts, "--num-prompts", 1, "--profile")
        assert done.returncode == 1 and "POST /start_profile: 404" in done.stderr
        assert not stub.posts("/v1/completions")


def test_a_server_that_is_not_there(prompts):
    done = bench("--port", 1, "--model", "m", *prompts, "--num-prompts", 2, "--disable-tqdm")
    assert done.returncode == 0  # the run was made; every request failed
    assert "All requests failed" in done.stderr
    assert line(done, "Failed requests:") == 2
    done = bench("--port", 1, "--model", "m", *prompts, "--ready-check-timeout-sec", 1)
    assert done.returncode == 1 and "Initial test run failed" in done.stderr
    done = bench("--port", 1, *prompts)
    assert done.returncode == 1 and "cannot connect" in done.stderr


def test_results_append(tmp_path, prompts):
    with StubServer(Script(ttft=0, itl=0, chunks=1)) as stub:
        for _ in range(2):
            done = bench("--base-url", stub.url, *prompts, "--num-prompts", 1, "--append-result",
                         "--result-dir", tmp_path, "--result-filename", "all.json")
            assert done.returncode == 0
    lines = (tmp_path / "all.json").read_text().split("\n")
    assert [json.loads(text)["completed"] for text in lines] == [1, 1]
    assert "ttfts" not in json.loads(lines[0]) and "latencies" in json.loads(lines[0])


def test_the_key_is_sent_and_never_shown(prompts):
    with StubServer(Script(chunks=1)) as stub:
        done = bench("--base-url", stub.url, *prompts, "--num-prompts", 1, "--header", "X-A=secret2",
                     env={"OPENAI_API_KEY": "secret1"})
        headers = stub.posts("/v1/completions")[0]["headers"]
    assert headers["Authorization"] == "Bearer secret1" and headers["X-A"] == "secret2"
    assert "secret" not in done.stdout + done.stderr


@pytest.mark.parametrize("backend, body", [
    ("openai-embeddings-chat", {"messages": [{"role": "user", "content": [
        {"type": "text", "text": "question 0"}]}], "truncate_prompt_tokens": -1}),
    ("openai-embeddings-vlm2vec", {"messages": [{"role": "user", "content": [
        {"type": "text", "text": "question 0"}]}], "truncate_prompt_tokens": -1}),
    ("infinity-embeddings-clip", {"input": "question 0"}),
])
def test_embeddings_of_other_servers(tmp_path, prompts, backend, body):
    with StubServer(Script()) as stub:
        run(stub, tmp_path, *prompts, "--num-prompts", 1, "--disable-shuffle", "--backend", backend,
            "--endpoint", "/v1/embeddings")
        sent = stub.posts("/v1/embeddings")[0]["body"]
    assert sent == {"model": "stub-model", **body}


def test_a_hub_set_is_read_from_a_folder(tmp_path):
    folder = tmp_path / "philschmid" / "mt-bench"
    folder.mkdir(parents=True)
    (folder / "question.jsonl").write_text("".join(
        json.dumps({"turns": [f"turn {i}", "next"]}) + "\n" for i in range(7)))
    with StubServer(Script(chunks=1)) as stub:
        run(stub, tmp_path, "--dataset-name", "hf", "--dataset-path", folder, "--num-prompts", 7,
            "--tokenizer", default_model(), "--skip-chat-template", "--hf-output-len", 3,
            "--max-concurrency", 1, "--no-stream", "--enable-multimodal-chat",
            "--custom-ensure-client-side-data")
        sent = [post["body"] for post in stub.posts("/v1/completions")]
    assert [body["prompt"] for body in sent] == [f"turn {i}" for i in (2, 4, 3, 6, 5, 0, 1)]
    assert {body["max_tokens"] for body in sent} == {3}


def test_pooling_backends(tmp_path, prompts):
    with StubServer(Script(ttft=0.01)) as stub:
        done, result = run(stub, tmp_path, *prompts, "--num-prompts", 4, "--backend",
                           "openai-embeddings", "--endpoint", "/v1/embeddings")
    assert result["total_input_sequences"] == 4 and "ttfts" not in result
    assert result["mean_e2el_ms"] >= 10
    assert "End-to-end Latency" in done.stdout and "Time to First Token" not in done.stdout


@pytest.mark.parametrize("flags, what", [
    (["--timeline-itl-thresholds", "25"], "--timeline-itl-thresholds"),
    (["--timeline-itl-thresholds", "a,50"], "--timeline-itl-thresholds"),
    (["--timeline-itl-thresholds", "1,2,3"], "--timeline-itl-thresholds"),
    (["--backend", "openai-audio"], "'openai-audio': its requests carry audio"),
    (["--dataset-name", "random-mm"], "'random-mm': its requests carry images"),
    (["--dataset-name", "custom_image"], "'custom_image': its requests carry images"),
    (["--dataset-name", "custom_audio"], "'custom_audio': its requests carry audio"),
    (["--random-mm-bucket-config", "{}"], "octavo bench sends text only"),
    (["--asr-max-audio-len-sec", "3"], "octavo bench sends text only"),
    (["--blazedit-min-distance", "0.5"], "use --dataset-name custom"),
    (["--bfcl-categories", "simple"], "tool definitions"),
    (["--speed-bench-dataset-subset", "all"], "throughput_32k"),
    (["--backend", "openai-embeddings-chat", "--endpoint", "/v1/embeddings",
      "--random-batch-size", "2"], "sends one conversation"),
    (["--backend", "openai-chat"], "--endpoint"),
    (["--max-concurrency", "0"], "--max-concurrency must be greater than 0"),
    (["--request-rate", "0"], "--request-rate"),
    (["--goodput", "ttft"], "KEY:VALUE"),
    (["--goodput", "itl:5"], "Invalid metric name"),
    (["--metadata", "x"], "KEY=VALUE"),
    (["--metric-percentiles", "99,101"], "101"),
    (["--percentile-metrics", "ttft,nope"], "nope"),
    (["--ramp-up-strategy", "linear"], "--ramp-up-start-rps"),
    (["--self-timed"], "timed_trace"),
    (["--seed", "-1"], "Seed"),
    (["--header", "a=b\nc"], "--header"),
    (["--base-url", "localhost:8000"], "http://"),
    (["--nonsense"], "unrecognized arguments: --nonsense"),
    (["--extra-body", "[]"], "JSON object"),
])
def test_what_cannot_be_done_is_refused_by_name(flags, what):
    done = bench(*flags)
    assert done.returncode == 2, done.stdout
    assert what in done.stderr and len(done.stderr.splitlines()) == 2


def test_help_and_later_commands():
    done = bench("--help")
    assert done.returncode == 0 and "--request-rate X" in done.stdout
    later = subprocess.run([binary(), "bench", "forward"], capture_output=True, text=True, timeout=10)
    assert later.returncode == 2 and "later version" in later.stderr


@pytest.mark.parametrize("api", [
    [], ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions"]])
def test_against_octavo(server, tmp_path, api):
    done = bench("--base-url", server.url, *api, "--num-prompts", 6, "--random-input-len", 40,
                 "--random-output-len", 8, "--temperature", 0, "--save-result", "--save-detailed",
                 "--result-dir", tmp_path, "--result-filename", "r.json")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["completed"] == 6 and result["output_lens"] == [8] * 6
    assert result["tokenizer_id"] == default_model()
    if not api:
        assert result["input_lens"] == [40] * 6  # our count is the server's
    assert all(0 < t < e for t, e in zip(result["ttfts"], result["latencies"]))


def test_shared_prefixes_hit_octavos_cache(server):
    before = server.metrics().value("vllm:prefix_cache_hits_total")
    done = bench("--base-url", server.url, "--dataset-name", "prefix_repetition", "--num-prompts", 6,
                 "--prefix-repetition-num-prefixes", 1, "--prefix-repetition-prefix-len", 64,
                 "--prefix-repetition-suffix-len", 8, "--prefix-repetition-output-len", 2,
                 "--max-concurrency", 1)
    assert done.returncode == 0 and line(done, "Successful requests:") == 6
    assert server.metrics().value("vllm:prefix_cache_hits_total") - before >= 5 * 48


def test_a_saved_run_carries_its_record(server, tmp_path):
    flags = ["--base-url", server.url, "--num-prompts", 4, "--random-input-len", 32,
             "--random-output-len", 4, "--temperature", 0, "--max-concurrency", 2, "--header",
             "X-A=hush", "--save-result", "--result-dir", tmp_path, "--result-filename"]
    for name in ("a.json", "b.json"):
        assert bench(*flags, name).returncode == 0
    a, b = (json.loads((tmp_path / f"{name}.record.json").read_text()) for name in "ab")
    assert a["format"] == "octavo-run-record/1" and a["result_file"] == "a.json"
    assert a["server"]["config"] == server.get("/octavo/config").json
    assert a["server"]["cache_config_info"]["block_size"] == "16"
    assert a["dataset"]["prompts_sha256"] == b["dataset"]["prompts_sha256"]
    assert a["metrics_delta"]["vllm:generation_tokens_total"] == 16
    assert a["load"]["max_concurrency"] == 2 and a["load"]["extra_body"] == {"temperature": 0.0}
    assert a["results"]["completed"] == 4 and "latencies" not in a["results"]
    assert len(a["server"]["config"]["model"]["weights_sha256"]) == 64
    assert b["prefix_cache"]["state"] == "warm" and 0 < b["prefix_cache"]["hit_share"] <= 1
    assert a["server"]["gpu"]["gpus"] is None or a["server"]["gpu"]["reason"] is None
    assert a["errors"] == {} and 0 <= a["noise"]["steal_share"] <= 1
    page = (tmp_path / "a.record.md").read_text()
    assert "| Generated tokens | 16.0 |" in page and "| Block size | 16 |" in page
    assert "hush" not in page + json.dumps(a)


def test_plots_need_no_network(tmp_path, prompts):
    with StubServer(Script(ttft=0.02, itl=0.01, chunks=3, fail_every=4)) as stub:
        done = bench("--base-url", stub.url, *prompts, "--num-prompts", 4, "--max-concurrency", 1,
                     "--plot-timeline", "--timeline-itl-thresholds", "5,1000",
                     "--plot-dataset-stats", "--result-dir", tmp_path, "--result-filename", "r.json")
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith("r.")) == [
        "r.dataset_stats.html", "r.timeline.html"]  # no result was asked for
    timeline = (tmp_path / "r.timeline.html").read_text()
    assert timeline.count("<title>Req ") == 3 and "3 of 4 requests (1 failed)" in timeline
    assert "5 ms ≤ ITL &lt; 1000 ms" in timeline.replace("ITL < 1000", "ITL &lt; 1000")
    stats = (tmp_path / "r.dataset_stats.html").read_text()
    assert stats.count("<svg ") == 4
    assert not re.search(r"<script|https?://|src=|@import|url\(", timeline + stats)
    assert f"Timeline plot saved to: {tmp_path}/r.timeline.html" in done.stdout


def test_records_for_pytorchs_database(tmp_path, prompts):
    with StubServer(Script(chunks=3)) as stub:
        done = bench("--base-url", stub.url, *prompts, "--num-prompts", 2, "--save-result",
                     "--save-detailed", "--metadata", "tensor_parallel_size=1", "--header",
                     "X-A=hush", "--result-dir", tmp_path, "--result-filename", "r.json",
                     env={"SAVE_TO_PYTORCH_BENCHMARK_FORMAT": "1"})
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    text = (tmp_path / "r.pytorch.json").read_text()
    records = json.loads(text)
    assert [r["metric"]["name"] for r in records] == [
        f"{kind}_{name}_ms" for name, kinds in [
            ("ttft", ("median", "mean", "std", "p99")), ("tpot", ("mean", "median", "std", "p99")),
            ("itl", ("median", "mean", "std", "p99"))] for kind in kinds]
    first = records[0]
    assert first["metric"]["benchmark_values"] == [result["median_ttft_ms"]]
    assert first["metric"]["extra_info"]["request_throughput"] == result["request_throughput"]
    assert not {"ttfts", "itls", "errors", "mean_itl_ms"} & set(first["metric"]["extra_info"])
    assert first["model"] == {"name": "stub-model"}
    args = first["benchmark"]["extra_info"]["args"]
    assert args["num_prompts"] == 2 and args["request_rate"] == "inf" and args["save_result"] is True
    assert args["tensor_parallel_size"] == "1" and args["label"] is None and args["header"] == "***"
    assert first["benchmark"]["name"] == "vLLM benchmark" and "hush" not in text
    assert first["benchmark"]["extra_info"]["use_compile"] is True


METRICS = b"""vllm:kv_cache_usage_perc{engine="0"} 0.375
vllm:num_requests_running{engine="0"} 3
vllm:prefix_cache_queries_total{engine="0"} 0
"""


def test_peaks_are_read_during_the_run(tmp_path, prompts):
    script = Script(ttft=0.3, itl=0, chunks=1)
    script.routes["/metrics"] = (200, "text/plain", METRICS)
    with StubServer(script) as stub:
        run(stub, tmp_path, *prompts, "--num-prompts", 2)
        reads = sum(r["path"] == "/metrics" for r in stub.requests)
    record = json.loads((tmp_path / "out" / "r.record.json").read_text())
    assert record["kv_cache"] == {"peak_usage": 0.375, "peak_running": 3.0, "peak_waiting": None,
                                  "num_samples": reads - 3}  # before, after, cache_config_info
    assert record["kv_cache"]["num_samples"] >= 1
    assert record["prefix_cache"] == {"state": "cold", "hit_share": None}


def test_a_record_of_a_server_that_tells_little(tmp_path, prompts):
    with StubServer(Script(fail_every=2)) as stub:
        run(stub, tmp_path, *prompts, "--num-prompts", 4)
    record = json.loads((tmp_path / "out" / "r.record.json").read_text())
    assert record["server"]["config"] is None and record["server"]["served_names"] == ["stub-model"]
    assert record["metrics_delta"] is None
    assert record["kv_cache"]["peak_usage"] is None and record["prefix_cache"]["state"] is None
    assert record["session"] is None
    assert record["errors"] == {"Service Unavailable": 2}
    assert "| Version | |" in (tmp_path / "out" / "r.record.md").read_text()
