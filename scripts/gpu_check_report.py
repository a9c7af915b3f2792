#!/usr/bin/env python3
"""Turns what the sections of gpu_check.sh left behind into one JSON, one Markdown and a short table.

usage: gpu_check_report.py STATE_FOLDER RESULTS_FOLDER COMMIT
"""

import datetime
import json
import sys
from pathlib import Path
from statistics import median

# (what, section, target as text, function of all measurements -> (value, reached) or None)
BATCH_1_SHARES = {"0.5b": 0.40, "1b": 0.65, "8b": 0.80}


def decode_rows(model, mode, requests):
    for row in model["modes"]:
        if row["mode"] == mode:
            for decode in row["decode"]:
                if decode["requests"] == requests:
                    yield decode


def figure(model, mode, field, requests=1):
    values = [row[field] for row in decode_rows(model, mode, requests)]
    return median(values) if values else None


def add_serving(add, serving):
    """Medians over the rounds: how much more, and how much sooner, than PIECEWISE."""
    def of(mode, field):
        return median(row[field] for row in serving["modes"] if row["mode"] == mode)

    for mode in ("FULL", "FULL_AND_PIECEWISE"):
        target = ">= 1.05x" if mode == "FULL_AND_PIECEWISE" else ""
        more = of(mode, "output_throughput") / of("PIECEWISE", "output_throughput")
        add(f"serving, output tokens/s, {mode} over PIECEWISE", target, more, not target or more >= 1.05, "x")
        sooner = of(mode, "mean_tpot_ms") / of("PIECEWISE", "mean_tpot_ms")
        add(f"serving, mean TPOT, {mode} over PIECEWISE", "< 1x" if target else "", sooner,
            not target or sooner < 1, "x")


def add_transformers(add, rows, peer, measured):
    """One process after the other in the same run."""
    if "skipped" in peer:
        rows.append(("against transformers, torch.compile", "8B >= 1.10x, 0.5B >= 1.3x", "-",
                     f"skipped: {peer['skipped']}"))
        return
    for shape, target in (("0.5b", 1.3), ("8b", 1.10)):
        model, theirs = measured.get(f"bench-{shape}"), peer["shapes"].get(shape, {}).get("tokens_per_second")
        if model and theirs:
            ratio = figure(model, "FULL", "tokens_per_second") / theirs
            add(f"batch 1 decode over transformers, {shape}", f">= {target}x", ratio, ratio >= target, "x")


def table(measured, statuses):
    """Rows (what, target, measured, verdict)."""
    rows = []

    def add(what, target, value, reached, unit=""):
        shown = "-" if value is None else f"{value:.3g}{unit}"
        rows.append((what, target, shown, "not measured" if value is None else "reached" if reached else "missed"))

    for name, what in (
        ("conformance", "device conformance suite"),
        ("replay", "replay equals eager, 1,000 replays, memory unchanged"),
        ("sanitizer", "compute-sanitizer, four tools"),
    ):
        status = statuses.get(name)
        verdict = "not run" if status is None else "passed" if status == 0 else f"failed ({status})"
        rows.append((what, "passes", "-" if status is None else str(status), verdict))
    small = measured.get("bench-0.5b")
    if small:
        ratio = figure(small, "FULL", "tokens_per_second") / figure(small, "NONE", "tokens_per_second")
        add("FULL vs NONE, decode batch 1, 0.5B", ">= 1.5x", ratio, ratio >= 1.5, "x")
        host = figure(small, "FULL", "host_us")
        add("host time per decode step, FULL, 0.5B", "<= 15 us", host, host <= 15, " us")
        full_and_piecewise = [row for row in small["modes"] if row["mode"] == "FULL_AND_PIECEWISE"]
        seconds = median(row["capture_seconds"] for row in full_and_piecewise)
        add(f"capturing {full_and_piecewise[0]['graphs']} graphs", "<= 1 s", seconds, seconds <= 1, " s")
    for name, target in BATCH_1_SHARES.items():
        model = measured.get(f"bench-{name}")
        if model:
            share = figure(model, "FULL", "share_of_bandwidth")
            add(f"batch 1 decode over read bandwidth, {name}", f">= {target}", share, share >= target)
    parts = measured.get("parts")
    if parts:
        for row in parts["attention"]:
            share = row["share_of_bandwidth"]
            add(f"decode attention, batch {row['requests']}, context {row['context']}", ">= 0.80", share, share >= 0.8)
        prompt = parts["prompt_attention"]
        add(f"attention of a prompt of {prompt['tokens']} tokens, 32 heads of 128", "predicted 300",
            prompt["flops_per_second"] / 1e12, True, " TFLOP/s")
        rows[-1] = rows[-1][:3] + ("",)
        update = parts["update"]["milliseconds"]
        add(f"update of {parts['update']['nodes']} nodes", "<= 0.5 ms", update, update <= 0.5, " ms")
    large = measured.get("bench-8b")
    if large:
        share = large["prefill"]["share_of_peak"]
        add("prefill of 4,096 tokens, 8B, over the GEMM peak", ">= 0.65", share, share >= 0.65)
    for name in BATCH_1_SHARES:
        launch = measured.get(f"bench-{name}", {}).get("launch")
        if launch:
            ratio = launch["on_over_off"]
            add(f"programmatic dependent launch, batch 1, {name}, on over off", "decides the default", ratio, True, "x")
            rows[-1] = rows[-1][:3] + ("",)
            share = median(row["share_of_bandwidth"] for row in launch["on"])
            target = BATCH_1_SHARES[name]
            add(f"batch 1 decode over read bandwidth, {name}, with it", f">= {target}", share, share >= target)
    if "serving" in measured:
        add_serving(add, measured["serving"])
    if "transformers" in measured:
        add_transformers(add, rows, measured["transformers"], measured)
    return rows


def main():
    state, results, commit = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    statuses, seconds, measured = {}, {}, {}
    for path in sorted(state.glob("*.status")):
        entry = json.loads(path.read_text())
        statuses[entry["section"]] = entry["status"]
        seconds[entry["section"]] = entry["seconds"]
    for path in sorted(state.glob("*.json")):
        measured[path.stem] = json.loads(path.read_text())
    rows = table(measured, statuses)
    devices = sorted({entry["device"] for entry in measured.values() if "device" in entry and "torch" not in entry})
    today = datetime.date.today().isoformat()
    results.mkdir(parents=True, exist_ok=True)
    document = {"date": today, "commit": commit, "devices": devices, "sections": statuses,
                "seconds": seconds, "measured": measured}
    (results / f"{today}-cuda.json").write_text(json.dumps(document, indent=1) + "\n")
    lines = [f"# CUDA, {today}", "", f"scripts/gpu_check.sh at {commit[:12]} on {', '.join(devices) or 'no device'};",
             "medians, two interleaved rounds of each mode. Bandwidth: a kernel that only reads, 1 GiB.", "",
             "| what | target | measured | |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    lines += ["", "Sections: " + ", ".join(f"{name} {statuses[name]} ({seconds[name]} s)" for name in statuses) + "."]
    (results / f"{today}-cuda.md").write_text("\n".join(lines) + "\n")
    width = max(len(row[0]) for row in rows)
    for what, target, value, verdict in rows:
        print(f"{what:<{width}}  {target:<24} {value:<12} {verdict}")


if __name__ == "__main__":
    main()
