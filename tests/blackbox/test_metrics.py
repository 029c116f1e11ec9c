"""/metrics: series, identities, what moves when."""

import json

import pytest
from helpers import parallel, wait_for
from test_cases_i_load import LONG, open_request, running

GAUGES = ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
          "vllm:gpu_cache_usage_perc", "vllm:cache_config_info"]
COUNTERS = ["vllm:prompt_tokens_total", "vllm:generation_tokens_total",
            "vllm:num_preemptions_total", "vllm:prefix_cache_queries_total",
            "vllm:prefix_cache_hits_total"]
HISTOGRAMS = ["vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds",
              "vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds",
              "vllm:request_prefill_time_seconds", "vllm:request_decode_time_seconds",
              "vllm:request_inference_time_seconds",
              "vllm:request_time_per_output_token_seconds", "vllm:request_prompt_tokens",
              "vllm:request_generation_tokens", "vllm:request_num_preemptions",
              "vllm:request_params_max_tokens", "vllm:request_params_n",
              "vllm:iteration_tokens_total"]
PER_REQUEST = [name for name in HISTOGRAMS
               if name not in ("vllm:inter_token_latency_seconds", "vllm:iteration_tokens_total")]


@pytest.fixture(scope="module")
def fresh(start_server):
    return start_server()


def test_every_core_series_is_there_from_the_first_scrape(fresh):
    metrics = fresh.metrics()
    for name in GAUGES + COUNTERS:
        assert metrics.has(name), name
    for name in HISTOGRAMS:
        assert metrics.value(name + "_count") >= 0, name
    for reason in ("stop", "length", "abort", "error", "repetition"):
        metrics.value("vllm:request_success_total", finished_reason=reason)
    for reason in ("capacity", "deferred"):
        metrics.value("vllm:num_requests_waiting_by_reason", reason=reason)
    assert metrics.value("vllm:num_requests_running", engine="0") == 0
    for name in ("process_resident_memory_bytes", "process_open_fds",
                 "process_cpu_seconds_total", "http_request_duration_highr_seconds_count"):
        assert metrics.has(name), name


def test_the_content_type_is_constant(fresh):
    for path in ("/metrics", "/metrics/"):
        answer = fresh.get(path)
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_sequential_requests_add_up(fresh):
    requests, max_tokens = 4, 6
    before = fresh.metrics()
    prompt_tokens = 0
    for i in range(requests):
        usage = fresh.complete(f"Number {i * 31} is", max_tokens=max_tokens,
                               ignore_eos=True)["usage"]
        prompt_tokens += usage["prompt_tokens"]
    fresh.wait_idle()
    after = fresh.metrics()

    def moved(name, **labels):
        return after.value(name, **labels) - before.value(name, **labels)

    for name in PER_REQUEST:
        assert moved(name + "_count") == requests, name
    assert moved("vllm:inter_token_latency_seconds_count") == requests * (max_tokens - 1)
    assert moved("vllm:prompt_tokens_total") == prompt_tokens
    assert moved("vllm:generation_tokens_total") == requests * max_tokens
    assert moved("vllm:iteration_tokens_total_sum") == prompt_tokens + requests * max_tokens
    assert moved("vllm:request_params_max_tokens_sum") == requests * max_tokens
    assert moved("vllm:request_success_total", finished_reason="length") == requests
    assert moved("vllm:prompt_tokens_by_source_total") == prompt_tokens
    times = {part: moved(f"vllm:request_{part}_time_seconds_sum")
             for part in ("queue", "prefill", "decode", "inference")}
    assert times["prefill"] + times["decode"] == pytest.approx(times["inference"], abs=1e-6)
    assert times["inference"] <= moved("vllm:e2e_request_latency_seconds_sum") + 0.05


def test_http_series(fresh):
    before = fresh.metrics()
    fresh.complete("Hi", max_tokens=1)
    fresh.get("/nothing")
    fresh.get("/v1/completions")
    fresh.get("/health")
    after = fresh.metrics()
    name = "http_requests_total"
    assert after.value(name, handler="/v1/completions", status="2xx", method="POST") >= 1
    assert after.value(name, handler="none", status="4xx") >= 1
    assert after.value(name, handler="/v1/completions", status="4xx", method="GET") >= 1
    handlers = {dict(labels).get("handler") for (sample, labels) in after.samples
                if sample == name}
    assert not handlers & {"/health", "/metrics"}
    count = "http_request_duration_highr_seconds_count"
    assert after.value(count) - before.value(count) == 3


def test_aborts_are_counted_once_without_latency_samples(fresh):
    before = fresh.metrics()
    raw = open_request(fresh, {**LONG, "max_tokens": 900, "stream": True})
    wait_for(lambda: running(fresh) == 1, what="the request runs")
    raw.close()
    wait_for(lambda: running(fresh) == 0, timeout=2, what="running is 0")
    after = fresh.metrics()
    name = "vllm:request_success_total"
    assert after.value(name, finished_reason="abort") == before.value(
        name, finished_reason="abort") + 1
    latency = "vllm:e2e_request_latency_seconds_count"
    assert after.value(latency) == before.value(latency)


def test_waiting_by_reason_sums_to_waiting_and_aliases_agree(fresh):
    def run(index):
        fresh.complete(f"Item {index}", max_tokens=8)
        metrics = fresh.metrics()
        assert metrics.value("vllm:num_requests_waiting_by_reason") == metrics.value(
            "vllm:num_requests_waiting")
        assert metrics.value("vllm:gpu_cache_usage_perc") == metrics.value(
            "vllm:kv_cache_usage_perc")
        assert 0 <= metrics.value("vllm:kv_cache_usage_perc") <= 1

    parallel(run, range(16), workers=8)


def test_rejected_requests_move_no_engine_series(fresh):
    fresh.wait_idle()
    before = fresh.metrics()
    assert fresh.post("/v1/completions", {"prompt": "Hi", "temperature": 9}).status == 400
    after = fresh.metrics()
    for key, value in before.counters().items():
        if key[0].startswith("vllm:"):
            assert after.counters()[key] == value, key


def test_log_stats_can_be_turned_off(start_server):
    server = start_server("--disable-log-stats")
    metrics = server.metrics()
    assert not any(name.startswith("vllm:") for name, _ in metrics.samples)
    assert metrics.has("process_open_fds")
    assert json.loads(server.get("/version").text)
