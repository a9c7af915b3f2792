#!/usr/bin/env python3
"""Turns the rows that the sections of gpu_check.sh wrote into report.json, report.md and a short table.

usage: gpu_check_report.py FOLDER
"""

import datetime
import json
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import card_model  # noqa: E402

BATCH_1_SHARES = {"0.5b": 0.40, "1b": 0.65, "8b": 0.80}
PASS_OR_FAIL = (
    ("conformance", "device conformance suite"),
    ("oracles", "kernels agree with the CPU at real shapes"),
    ("replay", "replay equals eager, 1,000 replays, memory unchanged"),
    ("sanitizer", "compute-sanitizer memcheck"),
)


def read_rows(path):
    """The complete rows of a file. A last line without an end was cut off and is left out."""
    rows = []
    for line in path.read_text(errors="replace").split("\n")[:-1]:
        rows.append(json.loads(line))
    return rows


class Table:
    """Rows (what, target, measured, verdict)."""

    def __init__(self):
        self.rows = []

    def add(self, what, target, values, reached=None, unit=""):
        """`values`: of all rounds; the median counts. Nothing is added for none."""
        values = list(values)
        if not values:
            return
        value = median(values)
        verdict = "" if reached is None else "reached" if reached(value) else "missed"
        self.rows.append((what, target, f"{value:.3g}{unit}", verdict))


def pick(rows, row, **wanted):
    return [one for one in rows if one["row"] == row and all(one.get(key) == value for key, value in wanted.items())]


def ratios(above, below, field):
    """Of the medians, if there are both."""
    if not above or not below:
        return []
    return [median(row[field] for row in above) / median(row[field] for row in below)]


def add_model(table, name, rows):
    target = BATCH_1_SHARES[name]
    full = pick(rows, "decode", mode="FULL", requests=1)
    table.add(f"batch 1 decode over read bandwidth, {name}", f">= {target}",
              (row["share_of_bandwidth"] for row in full), lambda share: share >= target)
    for requests in (8, 32, 64):
        table.add(f"decode of {requests} requests over read bandwidth, {name}", "",
                  (row["share_of_bandwidth"] for row in pick(rows, "decode", mode="FULL", requests=requests)))
    on, off = pick(rows, "launch", programmatic=True), pick(rows, "launch", programmatic=False)
    table.add(f"programmatic dependent launch, batch 1, {name}, on over off", "decides the default",
              ratios(on, off, "tokens_per_second"), unit="x")
    table.add(f"batch 1 decode over read bandwidth, {name}, with it", f">= {target}",
              (row["share_of_bandwidth"] for row in on), lambda share: share >= target)
    if name == "0.5b":
        table.add("FULL vs NONE, decode batch 1, 0.5B", ">= 1.5x",
                  ratios(full, pick(rows, "decode", mode="NONE", requests=1), "tokens_per_second"),
                  lambda ratio: ratio >= 1.5, "x")
        table.add("host time per decode step, FULL, 0.5B", "<= 15 us", (row["host_us"] for row in full),
                  lambda host: host <= 15, " us")
        table.add("capturing all graphs, 0.5B", "<= 1 s",
                  (row["capture_seconds"] for row in pick(rows, "capture", mode="FULL_AND_PIECEWISE")),
                  lambda seconds: seconds <= 1, " s")
    if name == "8b":
        table.add("prefill of 4,096 tokens, 8B, over the GEMM peak", ">= 0.65",
                  (row["share_of_peak"] for row in pick(rows, "prefill")), lambda share: share >= 0.65)


def add_parts(table, rows):
    for row in pick(rows, "attention"):
        others = f" beside {row['others']}" if row.get("others", row["context"]) not in (0, row["context"]) else ""
        table.add(f"decode attention, batch {row['requests']}, context {row['context']}{others}", ">= 0.80",
                  [row["share_of_bandwidth"]], lambda share: share >= 0.8)
    for row in pick(rows, "product"):
        table.add(f"product of {row['rows']} rows, {row['columns']} x {row['depth']}, share of bandwidth", "",
                  [row["share_of_bandwidth"]])
    for row in pick(rows, "eight_bit_product"):
        name = f"product of {row['rows']} rows with {row['codec']}, {row['columns']} x {row['depth']}"
        if row["rows"] < 4096:
            table.add(f"{name}, share of bandwidth", "", [row["share_of_bandwidth"]])
        else:
            predicted = "780 to 1,070" if row["codec"] == "int8_rows" else "1,060 to 1,220"
            table.add(name, f"predicted {predicted}", [row["flops_per_second"] / 1e12], unit=" TFLOP/s")
    for row in pick(rows, "prompt_attention"):
        table.add(f"attention of a prompt of {row['tokens']} tokens, 32 heads of 128", "predicted 300",
                  [row["flops_per_second"] / 1e12], unit=" TFLOP/s")
    for row in pick(rows, "update"):
        table.add(f"update of {row['nodes']} nodes", "<= 0.5 ms", [row["milliseconds"]], lambda time: time <= 0.5, " ms")


# Of measure_latents: heads, requests, tokens of each, context. The arithmetic is in docs/gpu-figures.md.
LATENT_PREDICTIONS = {
    (16, 1, 1, 256): 8, (16, 1, 1, 4096): 13, (16, 1, 1, 32768): 20, (16, 32, 1, 4096): 48, (16, 256, 1, 1024): 94,
    (16, 32, 4, 4096): 70, (128, 1, 1, 4096): 13, (128, 64, 1, 4096): 255, (16, 1, 2048, 2048): 250, (16, 1, 2048, 16384): 3500}
HEAD_PRODUCT_PREDICTIONS = {1: 3.5, 32: 4.5, 512: 10}  # by rows


def add_latents(table, rows):
    for row in pick(rows, "latent_attention"):
        shape = (row["heads"], row["requests"], row["tokens"], row["context"])
        table.add("latent attention, {} heads, {} x {} tokens, context {}".format(*shape),
                  f"predicted {LATENT_PREDICTIONS[shape]} us; plain {row['plain_microseconds']:.0f}", [row["microseconds"]], unit=" us")
    for row in pick(rows, "head_product"):
        table.add(f"product of {row['heads']} heads, {row['of']}, {row['rows']} rows",
                  f"predicted {HEAD_PRODUCT_PREDICTIONS[row['rows']]} us; plain {row['plain_microseconds']:.1f}",
                  [row["microseconds"]], unit=" us")


def add_streamed(table, rows):
    """Both kernels of each product, beside what the model of the card says."""
    for row in pick(rows, "streamed_product"):
        name = f"product of {row['rows']} rows, {row['model']} {row['product']}"
        for kernel, us, tile in (("own", row["own_us"], ""),
                                 ("streamed", *min((row[f"streamed_{tile}_us"], f", tiles of {tile}") for tile in (8, 16)))):
            predicted = card_model.PRODUCTS[kernel].us(row["rows"], row["columns"], row["depth"])
            table.add(f"{name}, {kernel}{tile}", f"predicted {predicted:.1f} us", [us], unit=" us")


def add_streamed_packed(table, rows):
    """The same with packed weights, and with experts."""
    experts = {"hidden_size": 2048, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8}
    for row in pick(rows, "streamed_packed"):
        size, name = card_model.CODECS[row["weights"]], f"product of {row['rows']} rows, {row['model']} {row['product']}, {row['weights']}"
        for kernel, instructions in (("own", card_model.INSTRUCTIONS_OF_CODEC.get(row["weights"], card_model.INSTRUCTIONS_OF_BLOCK)),
                                     ("streamed", card_model.streamed_instructions(row["weights"], row["rows"]))):
            predicted = card_model.PRODUCTS[kernel].us(row["rows"], row["columns"], row["depth"], size, instructions)
            table.add(f"{name}, {kernel}", f"predicted {predicted:.1f} us", [row[f"{kernel}_us"]], unit=" us")
    for row in pick(rows, "streamed_own_rows"):
        kernel, between = card_model.PRODUCTS["streamed"], card_model.SMALL_NODE_US + card_model.NODE_US
        instructions = card_model.streamed_instructions(row["weights"], row["rows"])
        shape = (row["rows"], row["columns"], row["depth"], card_model.CODECS[row["weights"]], instructions)
        inside_us = card_model.rows_in_product_us(row["weights"], row["rows"], row["depth"], 1, False)
        for way, predicted in (("apart", kernel.us(*shape, card_model.SMALL_NODE_US) + between),
                               ("inside", kernel.us(*shape, own_rows_us=inside_us))):
            table.add(f"rows quantised {way}, product of {row['model']} {row['product']}, {row['weights']}, streamed",
                      f"predicted {predicted:.1f} us", [row[f"{way}_us"]], unit=" us")
    for row in pick(rows, "streamed_experts"):
        for kernel in ("own", "streamed"):
            parts = card_model.expert_parts(experts, row["requests"], row["weights"], kernel)
            predicted = next(us for name, us, _ in parts if name == row["product"])
            table.add(f"experts' {row['product']} of {row['requests']} requests, {row['weights']}, {kernel}",
                      f"predicted {predicted:.1f} us", [row[f"{kernel}_us"]], unit=" us")


def add_serving(table, rows):
    """How much more, and how much sooner, than PIECEWISE."""
    piecewise = pick(rows, "serving", mode="PIECEWISE")
    for mode, is_target in (("FULL", False), ("FULL_AND_PIECEWISE", True)):
        ours = pick(rows, "serving", mode=mode)
        table.add(f"serving, output tokens/s, {mode} over PIECEWISE", ">= 1.05x" if is_target else "",
                  ratios(ours, piecewise, "output_throughput"), (lambda ratio: ratio >= 1.05) if is_target else None, "x")
        table.add(f"serving, mean TPOT, {mode} over PIECEWISE", "< 1x" if is_target else "",
                  ratios(ours, piecewise, "mean_tpot_ms"), (lambda ratio: ratio < 1) if is_target else None, "x")


def add_transformers(table, measured):
    for row in measured.get("transformers", []):
        if "skipped" in row:
            table.rows.append(("against transformers, torch.compile", "", "-", f"skipped: {row['skipped']}"))
            continue
        target = 1.3 if row.get("shape") == "0.5b" else 1.10
        ours = pick(measured.get(f"bench-{row.get('shape')}", []), "decode", mode="FULL", requests=1)
        table.add(f"batch 1 decode over transformers, {row.get('shape')}", f">= {target}x",
                  ratios(ours, [row], "tokens_per_second"), lambda ratio, least=target: ratio >= least, "x")


def make_table(measured, statuses):
    table = Table()
    for name, what in PASS_OR_FAIL:
        if name in statuses:
            table.rows.append((what, "passes", "-", statuses[name]["status"]))
    add_parts(table, measured.get("parts", []))
    add_latents(table, measured.get("attention", []))
    add_streamed(table, measured.get("streamed", []))
    add_streamed_packed(table, measured.get("streamed", []))
    for row in pick(measured.get("sampling", []), "sampling"):
        table.add(f"sampling, {row['kind']}, {row['rows']} rows", "", [row["microseconds"]], unit=" us")
    for name in BATCH_1_SHARES:
        add_model(table, name, measured.get(f"bench-{name}", []))
    add_serving(table, measured.get("serving", []))
    add_transformers(table, measured)
    return table.rows


def write_report(folder):
    statuses = {}
    for path in sorted(folder.glob("*.status.json")):
        entry = json.loads(path.read_text())
        statuses[entry["section"]] = entry
    measured = {path.name.removesuffix(".rows.jsonl"): read_rows(path) for path in sorted(folder.glob("*.rows.jsonl"))}
    rows = make_table(measured, statuses)
    devices = sorted({row["device"] for all_rows in measured.values() for row in all_rows if "device" in row})
    today = datetime.date.today().isoformat()
    document = {"date": today, "devices": devices, "sections": statuses, "measured": measured}
    (folder / "report.json").write_text(json.dumps(document, indent=1) + "\n")
    lines = [f"# CUDA, {today}", "", f"scripts/gpu_check.sh on {', '.join(devices) or 'no device'}; medians of the rounds "
             "that fitted. Bandwidth: a kernel that only reads, 1 GiB; shares count the bytes that a step reads.", "",
             "| what | target | measured | |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    lines += ["", "Sections: " + ", ".join(f"{name} {entry['status']} ({entry['seconds']} s)"
                                           for name, entry in statuses.items()) + "."]
    (folder / "report.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write_report(Path(sys.argv[1]))
