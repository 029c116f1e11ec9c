"""One work in OpenVINO GenAI, run by the Python that has it (engines.OpenVino):
    MODEL THREADS decode|prefill|load PROMPT NEW STREAMS REQUESTS SEED
Prints {"figure": value}."""
import json
import random
import statistics
import sys
import time

import numpy
import openvino
import openvino_genai as genai


def main():
    model, threads, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    prompt, new, streams, requests, seed = map(int, sys.argv[4:9])
    rng = random.Random(seed)
    tensor = lambda: openvino.Tensor(numpy.array(  # noqa: E731
        [[rng.randrange(1000, 40000) for _ in range(prompt)]], dtype=numpy.int64))
    config = genai.GenerationConfig()
    config.ignore_eos, config.do_sample = True, False
    config.max_new_tokens = config.min_new_tokens = new
    if kind == "load":
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size, scheduler.max_num_seqs = 2, 256
        scheduler.max_num_batched_tokens, scheduler.enable_prefix_caching = 2048, False
        pipeline = genai.ContinuousBatchingPipeline(model, scheduler, "CPU",
                                                    {"INFERENCE_NUM_THREADS": threads})
        pipeline.generate([tensor() for _ in range(streams)], [config] * streams)  # warms up
        prompts = [tensor() for _ in range(streams)]
        start = time.perf_counter()
        results = pipeline.generate(prompts, [config] * streams)
        wall = time.perf_counter() - start
        tokens = sum(len(r.m_generation_ids[0]) for r in results)
        return {"out_tok_s": tokens / wall}
    pipeline = genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads)

    def generate():
        ids = tensor()
        mask = openvino.Tensor(numpy.ones((1, prompt), dtype=numpy.int64))
        start = time.perf_counter()
        result = pipeline.generate(genai.TokenizedInputs(ids, mask), config)
        return time.perf_counter() - start, result

    generate()
    runs = [generate() for _ in range(requests)]
    if kind == "prefill":
        return {"prefill_tok_s": prompt / statistics.median(wall for wall, _ in runs)}
    return {"decode_tok_s": statistics.median(1000 / r.perf_metrics.get_tpot().mean
                                              for _, r in runs)}


print(json.dumps(main()))
