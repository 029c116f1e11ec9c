"""Public reports, section K: metrics under load, preemption, health during a prefill."""

import threading

from helpers import parallel, wait_for

from conftest import SMALL_POOL


def test_bl_110_strict_exposition_with_an_ugly_model_name(start_server):
    name = 'a "quoted" \\ back\nslash'
    server = start_server("--served-model-name", name)
    before = server.metrics()
    stop = threading.Event()
    scrapes = [before]

    def scrape():
        while not stop.is_set():
            scrapes.append(server.metrics())

    scraper = threading.Thread(target=scrape)
    scraper.start()
    try:
        parallel(lambda i: server.complete(f"{i} times", max_tokens=8, model=name), range(16))
    finally:
        stop.set()
        scraper.join()
    server.wait_idle()
    scrapes.append(server.metrics())
    assert scrapes[-1].value("vllm:num_requests_running", model_name=name) == 0
    for older, newer in zip(scrapes, scrapes[1:]):
        counters = newer.counters()
        for key, value in older.counters().items():
            assert counters[key] >= value, key


def test_bl_111_preemption_changes_no_text(start_server):
    roomy = start_server(length=256)
    # 24 blocks of 16 tokens for eight requests of about 100 tokens.
    tight = start_server("--num-gpu-blocks-override", "24", length=256, pool=SMALL_POOL)
    prompts = [f"{word} is a thing that" for word in
               ("Iron", "Water", "Music", "Paper", "Fire", "Sand", "Milk", "Light")]

    def run(server):
        return parallel(lambda p: server.complete_text(p, max_tokens=90, ignore_eos=True), prompts)

    assert run(tight) == run(roomy)
    metrics = tight.metrics()
    assert metrics.value("vllm:num_preemptions_total") > 0
    hits = metrics.value("vllm:prefix_cache_hits_total")
    assert hits <= 0.1 * metrics.value("vllm:prefix_cache_queries_total")
    assert "is preempted by PreemptionMode.RECOMPUTE mode" in tight.log_text()
    assert "total_cumulative_preemption_cnt=" in tight.log_text()


def test_bl_114_health_during_a_long_prefill(server):
    prompt = [1000 + i * 37 % 20000 for i in range(3500)]
    answers = []
    worker = threading.Thread(
        target=lambda: answers.append(server.complete(prompt, max_tokens=1)))
    worker.start()
    wait_for(lambda: server.metrics().value("vllm:num_requests_running") == 1, what="it runs")
    checks = 0
    while worker.is_alive():
        assert server.get("/health").status == 200
        assert server.get("/live").status == 200
        checks += 1
    worker.join()
    assert checks > 0 and answers[0]["usage"]["completion_tokens"] == 1
