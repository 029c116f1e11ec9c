"""Medians, spread, and how sure a ratio is."""
import random
import statistics


def percentile(values, p):
    """Nearest rank; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, max(0, round(p / 100 * (len(ordered) - 1))))]


def spread(values):
    """{"median", "min", "max", "n"} of some values, or None of nothing."""
    if not values:
        return None
    return {"median": statistics.median(values), "min": min(values), "max": max(values),
            "n": len(values)}


def ratio_of_medians(ours, theirs):
    below = statistics.median(theirs)
    return statistics.median(ours) / below if below else float("inf")


def bootstrap_ratio(ours, theirs, paired=True, level=0.90, draws=2000, seed=1):
    """(ratio of medians, lower end, upper end) at `level`. Paired: value i of both was measured in
    the same round, and rounds are drawn, so that what moved both cancels. One value a side has no
    interval: its ends are the ratio."""
    if not ours or not theirs:
        return None
    ratio = ratio_of_medians(ours, theirs)
    paired = paired and len(ours) == len(theirs)
    rng = random.Random(seed)
    ratios = []
    for _ in range(draws):
        if paired:
            rounds = [rng.randrange(len(ours)) for _ in ours]
            a, b = [ours[i] for i in rounds], [theirs[i] for i in rounds]
        else:
            a, b = rng.choices(ours, k=len(ours)), rng.choices(theirs, k=len(theirs))
        ratios.append(ratio_of_medians(a, b))
    tail = (1 - level) / 2 * 100
    return ratio, percentile(ratios, tail), percentile(ratios, 100 - tail)
