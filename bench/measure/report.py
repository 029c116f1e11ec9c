"""Samples of a run to its table, record and picture."""
import json
import pathlib
import statistics

from measure import limits, stats, svg

OURS = "octavo"


def number(value):
    if value is None:
        return "–"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def values_of(samples, model, work, figure, engine):
    """{round: value} of the valid samples."""
    return {s["round"]: s["figures"][figure] for s in samples
            if s["model"] == model and s["work"] == work and s["engine"] == engine
            and not s["void"] and figure in s["figures"]}


def summarise(run, works, models):
    """One entry for each model, work and row: what each engine reached, the limit, and the ratio to
    the best peer (above 1 is better, also for times and memory)."""
    table = []
    for model, path in models.items():
        facts = limits.facts_of(path)
        for work in works:
            for index, row in enumerate(work.rows):
                rounds = {e: values_of(run["samples"], model, work.key, row.figure, e)
                          for e in run["engines"]}
                cells = {e: stats.spread(list(r.values())) for e, r in rounds.items() if r}
                limit = limits.limit_of(work, facts, run["roofs"]) if index == 0 else None
                entry = {"model": model, "work": work.key, "label": work.label, "unit": row.unit,
                         "more_is_better": row.more_is_better, "limit": limit, "engines": cells,
                         "void": [e for e in run["engines"] if e not in cells and any(
                             s["void"] for s in run["samples"] if s["model"] == model and
                             s["work"] == work.key and s["engine"] == e)]}
                entry.update(ratio_to_best(rounds, row.more_is_better))
                table.append(entry)
    return table


def ratio_to_best(rounds, more_is_better):
    ours = rounds.get(OURS)
    peers = {e: r for e, r in rounds.items() if e != OURS and r}
    if not ours or not peers:
        return {"best_peer": None, "ratio": None}
    best = (max if more_is_better else min)(
        peers, key=lambda e: statistics.median(peers[e].values()))
    both = sorted(set(ours) & set(peers[best]))
    if both:
        a, b = [ours[i] for i in both], [peers[best][i] for i in both]
    else:
        a, b = list(ours.values()), list(peers[best].values())
    if not more_is_better:
        a, b = b, a
    return {"best_peer": best, "ratio": stats.bootstrap_ratio(a, b, paired=bool(both))}


def cell(spread):
    if spread is None:
        return "–"
    if spread["n"] == 1:
        return f"{number(spread['median'])} (1)"
    return (f"{number(spread['median'])} ({number(spread['min'])}–{number(spread['max'])}, "
            f"{spread['n']})")


def machine_lines(run):
    machine, roofs = run["machine"], run["roofs"]
    lines = [f"{machine['date']}. {machine['cpu']} (family/model/stepping "
             f"{machine['family_model_stepping']}), {machine['cores']} cores, governor "
             f"{machine['governor']}, {machine['memory_gib']} GiB, Linux {machine['kernel']}; "
             f"{machine['flags']}. {run['threads']} threads."]
    if roofs:
        read = ", ".join(f"{v} GB/s at {k} MiB" for k, v in roofs["read_gb_s"].items())
        lines.append(f"Roofs of the same run ({roofs['isa']} kernels): read {read}; f32 "
                     f"{roofs['f32_gflop_s']}, bf16 {roofs['bf16_gflop_s']} GFLOP/s, int8 "
                     f"{roofs['int8_gop_s']} GOP/s (the median of {roofs['n']}).")
    else:
        lines.append("Roofs were not measured; shares of the limit are left out.")
    lines.append("Models: " + ", ".join(f"{k} = {v}" for k, v in run["models"].items()) +
                 ". Versions: " + "; ".join(f"{k}: {v}" for k, v in run["versions"].items()
                                            if v != "not reported") + ".")
    return lines


def markdown(run, table):
    engines = run["engines"]
    lines = machine_lines(run) + [
        "", f"Figures are median (min–max, n) of {run['rounds']} rounds, engines in turn. The ratio "
        "is to the best peer, above 1 is better, with its 90 % interval over rounds.", "",
        f"| model | work | unit | limit | {' | '.join(engines)} | share of limit | ratio |",
        "|---" * (len(engines) + 6) + "|"]
    for entry in table:
        if not entry["engines"] and not entry["void"]:
            continue
        ours = entry["engines"].get(OURS)
        share = (f"{ours['median'] / entry['limit']:.0%}".replace("%", " %")
                 if ours and entry["limit"] else "–")
        ratio = entry["ratio"]
        said = (f"{ratio[0]:.2f} ({ratio[1]:.2f}–{ratio[2]:.2f}) {entry['best_peer']}"
                if ratio else "–")
        cells = " | ".join("void" if e in entry["void"] else cell(entry["engines"].get(e))
                           for e in engines)
        lines.append(f"| {entry['model']} | {entry['label']} | {entry['unit']} | "
                     f"{number(entry['limit'])} | {cells} | {share} | {said} |")
    void = sum(s["void"] for s in run["samples"])
    lines += ["", f"{len(run['samples'])} samples, {void} void (others used more than "
              f"{run['max_foreign']} cores); highest of the others {highest_foreign(run)} cores."]
    lines += [f"- Missing: {note}" for note in run["notes"]]
    lines += ["", "Commands:", "```", *run["commands"], "```"]
    return "\n".join(lines) + "\n"


def highest_foreign(run):
    return max([s["foreign_cores"] for s in run["samples"] if not s["void"]], default=0.0)


def picture(run, table):
    rows = []
    for entry in table:
        if entry["limit"] and entry["engines"]:
            rows.append((f"{entry['model']}: {entry['label']}",
                         {e: s["median"] / entry["limit"] for e, s in entry["engines"].items()}))
    caption = f"{run['machine']['cpu']}, {run['threads']} threads, {run['machine']['date']}"
    return svg.share_bars("Share of the machine's limit", caption, run["engines"], rows)


def write(run, table, json_path, markdown_path, svg_path):
    if json_path:
        pathlib.Path(json_path).write_text(json.dumps({**run, "table": table}, indent=1) + "\n")
    if markdown_path:
        pathlib.Path(markdown_path).write_text(markdown(run, table))
    if svg_path:
        pathlib.Path(svg_path).write_text(picture(run, table))
