"""Public reports, section D: sampling."""

from concurrent.futures import ThreadPoolExecutor

from helpers import parallel

PROMPT = "Once upon a time there was"


def test_bl_040_three_ways_to_be_greedy(server):
    greedy = server.complete_text(PROMPT, max_tokens=64)
    assert server.complete_text(PROMPT, max_tokens=64, temperature=1, top_k=1) == greedy
    assert server.complete_text(PROMPT, max_tokens=64, temperature=0, seed=12345) == greedy


def test_bl_041_tiny_temperatures(server):
    counting = "1, 2, 3, 4, 5, 6, 7, 8,"
    greedy = server.complete_text(counting, max_tokens=8)
    assert greedy.strip()
    for temperature in (1e-4, 1e-6, 1e-12):
        text = server.complete_text(counting, max_tokens=8, temperature=temperature)
        assert text[:4] == greedy[:4]


def test_bl_042_a_seed_gives_the_same_text_under_load(server):
    def seeded(_=None):
        return server.complete_text(PROMPT, max_tokens=24, temperature=1, seed=42)

    alone = [seeded() for _ in range(5)]
    assert len(set(alone)) == 1
    with ThreadPoolExecutor(max_workers=7) as pool:
        load = [pool.submit(server.complete_text, f"{i} " + PROMPT, max_tokens=120, temperature=1,
                            ignore_eos=True) for i in range(7)]
        loaded = [seeded() for _ in range(5)]
        for future in load:
            future.result()
    assert loaded == alone


def test_bl_043_without_a_seed_texts_differ(server, start_server):
    def free(target):
        return target.complete_text(PROMPT, max_tokens=16, temperature=1)

    texts = [free(server), free(server), *parallel(free, [server, server])]
    texts.append(free(start_server()))
    assert len(set(texts)) > 1


def test_bl_044_greedy_is_unmoved_by_sampled_neighbours(server):
    prompts = [f"Chapter {i}. {PROMPT}" for i in range(4)]
    alone = [server.complete_text(p, max_tokens=24) for p in prompts]

    def run(index):
        if index % 2:
            server.complete_text(PROMPT, max_tokens=24, temperature=1.2)
            return None
        return server.complete_text(prompts[index // 2], max_tokens=24)

    mixed = [text for text in parallel(run, range(8), workers=8) if text is not None]
    assert mixed == alone


def test_bl_045_eight_identical_requests(server):
    texts = parallel(lambda _: server.complete_text(PROMPT, max_tokens=128), range(8), workers=8)
    assert len(set(texts)) == 1
