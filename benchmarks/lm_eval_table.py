#!/usr/bin/env python3
"""The accuracy table of the pull request that brought full graphs, for the bundled model: lm_eval, five examples,
strict-match and flexible-extract, one engine per cudagraph_mode.

    benchmarks/lm_eval_table.py [--modes NONE PIECEWISE FULL] [--limit N] > table.md

Needs lm_eval (tests/clients/requirements.txt names the version) in the Python that runs it, and a built
build/release/bin/reprise, or the one in REPRISE. Nothing is downloaded: the task and the 400 held-back problems are in
this tree (tests/clients/tasks, models/reprise-tiny/eval). Exits with 1 if two modes give different texts.
"""

import argparse
import hashlib
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "clients"))
from clients import NAME, serve_test  # noqa: E402  (first: it sets the environment)
import lm_eval  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

TASK = "reprise_problems"
NUM_EXAMPLES = 5


def write_task(folder):
    problems = (ROOT / "models" / "reprise-tiny" / "eval" / "problems.jsonl").read_text().splitlines(keepends=True)
    (folder / "problems_examples.jsonl").write_text("".join(problems[:NUM_EXAMPLES]))
    (folder / "problems_test.jsonl").write_text("".join(problems[NUM_EXAMPLES:]))
    task = (ROOT / "tests" / "clients" / "tasks" / f"{TASK}.yaml").read_text()
    (folder / f"{TASK}.yaml").write_text(task.replace("__FOLDER__", str(folder)))


def steps_by_mode(server):
    """Steps that replayed each kind of graph, or none, from /metrics."""
    text = server.request("GET", "/metrics")[1].decode()
    steps = {}
    for mode, count in re.findall(r'^reprise:cudagraph_dispatch_total\{.*?runtime_mode="(\w+)".*?\} (\S+)$', text, re.M):
        steps[mode] = steps.get(mode, 0) + int(float(count))
    return steps


def evaluate(mode, folder, limit):
    server = serve_test.Server("--dtype", "bfloat16", f"-cc.cudagraph_mode={mode}")
    try:
        result = lm_eval.simple_evaluate(
            model="local-completions",
            model_args={"model": NAME, "base_url": f"http://127.0.0.1:{server.port}/v1/completions", "num_concurrent": 8,
                        "tokenizer_backend": "remote", "max_retries": 1, "max_length": 1024},
            tasks=[TASK], task_manager=TaskManager(include_path=str(folder), include_defaults=False),
            limit=limit, bootstrap_iters=100, log_samples=True)
        return result, steps_by_mode(server)
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", nargs="+", default=["NONE", "PIECEWISE", "FULL"])
    parser.add_argument("--limit", type=int, help="only the first N problems")
    options = parser.parse_args()
    rows, digests = [], {}
    with tempfile.TemporaryDirectory() as name:
        write_task(pathlib.Path(name))
        for mode in options.modes:
            result, steps = evaluate(mode, pathlib.Path(name), options.limit)
            figures, samples = result["results"][TASK], result["samples"][TASK]
            texts = sorted({(sample["doc_id"], sample["resps"][0][0]) for sample in samples})
            digests[mode] = hashlib.sha256(repr(texts).encode()).hexdigest()[:12]
            replayed = ", ".join(f"{kind} {count}" for kind, count in sorted(steps.items()))
            for kind in ("flexible-extract", "strict-match"):
                rows.append(f"| {mode} | {TASK} | {result['versions'][TASK]} | {kind} | {NUM_EXAMPLES} | exact_match | "
                            f"{figures['exact_match,' + kind]:.4f} | ± {figures['exact_match_stderr,' + kind]:.4f} | "
                            f"{len(texts)} | {replayed} | `{digests[mode]}` |")
            print(mode, figures, steps, file=sys.stderr)
    print("| cudagraph_mode | Tasks | Version | Filter | n-shot | Metric | Value | Stderr | problems | steps | texts (SHA-256) |")
    print("|" + "---|" * 11)
    print("\n".join(rows))
    if len(set(digests.values())) > 1:
        sys.exit(f"the modes gave different texts: {digests}")


if __name__ == "__main__":
    main()
