"""The rows of the table: what is asked of an engine, and which figures it gives."""
import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Row:
    figure: str
    unit: str
    more_is_better: bool = True


@dataclasses.dataclass(frozen=True)
class Work:
    """`streams` requests at once of `prefix` shared and `prompt` own ids, `new` tokens each, until
    `requests` are done. `limit` says which arithmetic bounds the first row (limits.py). Works of one
    `group` share a running server."""
    key: str
    label: str
    kind: str
    rows: tuple
    streams: int = 1
    prompt: int = 0
    new: int = 1
    prefix: int = 0
    requests: int = 1
    limit: str = ""
    group: str = "one"

    @property
    def computed_prompt(self):  # what a prefix cache leaves to compute
        return self.prompt


def decode():
    return Work("decode", "decode, 1 stream, 128 + 128", "decode", (Row("decode_tok_s", "tok/s"),),
                prompt=128, new=128, requests=3, limit="decode")


def prefill(length):
    return Work(f"prefill-{length}", f"prefill {length}", "prefill",
                (Row("prefill_tok_s", "tok/s"),), prompt=length, requests=3, limit="prefill")


def burst(streams):
    return Work(f"burst-{streams}", f"{streams} streams, 128 + 128", "load",
                (Row("out_tok_s", "output tok/s"), Row("decode_tok_s", "tok/s while all decode")),
                streams, 128, 128, requests=streams, limit="output", group="many")


def serve(streams):
    return Work(f"serve-{streams}", f"64 requests 256 + 128, {streams} at once", "load",
                (Row("req_s", "req/s"), Row("ttft_p50_ms", "TTFT p50, ms", False)),
                streams, 256, 128, requests=64, limit="requests", group="many")


def prefix(streams):
    return Work(f"prefix-{streams}", f"64 requests, 512 shared + 32 + 128, {streams} at once", "load",
                (Row("req_s", "req/s"), Row("ttft_p50_ms", "TTFT p50, ms", False)),
                streams, 32, 128, prefix=512, requests=64, limit="requests", group="many")


SINGLE = {
    "decode": decode(),
    "start": Work("start", "exec to first completion", "start",
                  (Row("first_completion_s", "s", False), Row("ready_s", "s to ready", False))),
    "memory": Work("memory", "memory of the idle server", "memory",
                   (Row("idle_mib", "MiB", False),)),
    "peak": Work("peak", "peak memory after the single-stream works", "peak",
                 (Row("peak_mib", "MiB", False),)),
}
SIZED = {"prefill": (prefill, (512, 2048)), "burst": (burst, (64,)), "serve": (serve, (8, 32)),
         "prefix": (prefix, (8, 32))}
DEFAULT = "start,memory,decode,prefill,peak,burst,serve,prefix"


def parse(text):
    """Works of a list such as "decode,prefill-512,burst"; a ValueError names what is unknown."""
    works = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"([a-z]+)-(\d{1,6})", name)
        if name in SINGLE:
            works.append(SINGLE[name])
        elif name in SIZED:
            make, sizes = SIZED[name]
            works += [make(size) for size in sizes]
        elif match and match.group(1) in SIZED and int(match.group(2)) > 0:
            works.append(SIZED[match.group(1)][0](int(match.group(2))))
        else:
            known = ", ".join([*SINGLE, *(f"{n}[-N]" for n in SIZED)])
            raise ValueError(f"{name} is no work; known are {known}")
    if not works:
        raise ValueError("no work is named")
    # The first and the last of a server's life keep these places.
    order = {"start": 0, "memory": 1, "peak": 9}
    works = list({work.key: work for work in works}.values())
    return sorted(works, key=lambda w: (w.group != "one", order.get(w.kind, 5)))
