"""Compares structured outputs with llguidance over a collection of schemas: shares accepted and times of masks.

  structured_schemas.py MASK_BENCHMARK COLLECTION [--tokens 262144] [--answers 3] [--only reprise|llguidance]

Both get the same made-up vocabulary, which MASK_BENCHMARK prints, and draw tokens evenly from the masks with an own
generator. Times are processor time of the thread. llguidance comes from PyPI."""

import argparse
import json
import random
import statistics
import subprocess
import time

MAX_TOKENS = 200


def quantile(values, share):
    ordered = sorted(values)
    return ordered[int(share * (len(ordered) - 1))] if ordered else 0.0


def reprise(arguments):
    command = [arguments.benchmark, str(arguments.tokens), str(arguments.answers), "--schemas", arguments.collection]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Vocabulary:
    """In the form that llguidance's TokenizerWrapper reads."""

    def __init__(self, arguments):
        command = [arguments.benchmark, str(arguments.tokens), "--vocabulary"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        self.tokens = [bytes.fromhex(line) for line in lines]
        self.eos_token_id = len(self.tokens) - 1
        self.bos_token_id = None
        self.tokens[self.eos_token_id] = b"<eos>"
        self.special_token_ids = [self.eos_token_id]

    def __call__(self, text):
        return list(text)


def llguidance(arguments):
    import llguidance
    import numpy

    vocabulary = Vocabulary(arguments)
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(vocabulary))
    source, rows = random.Random(1), []
    mask = numpy.zeros((len(vocabulary.tokens) + 31) // 32, dtype=numpy.int32)
    for line in open(arguments.collection, encoding="utf-8"):
        entry = json.loads(line)
        row = {"source": entry["source"], "name": entry["name"]}
        start = time.thread_time()
        matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_json_schema(json.dumps(entry["schema"])))
        row["compile_ms"] = (time.thread_time() - start) * 1e3
        if matcher.is_error():
            rows.append({**row, "error": matcher.get_error()[:200]})
            continue
        times, broken = [], None
        for _ in range(arguments.answers):
            matcher.reset()
            for _ in range(MAX_TOKENS):
                start = time.thread_time()
                matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
                times.append((time.thread_time() - start) * 1e6)
                if matcher.is_error():
                    broken = matcher.get_error()[:200]
                    break
                allowed = numpy.flatnonzero(numpy.unpackbits(mask.view(numpy.uint8), bitorder="little"))
                if len(allowed) == 0:
                    break
                token = int(allowed[source.randrange(len(allowed))])
                if token == vocabulary.eos_token_id or not matcher.consume_token(token):
                    break
        row.update(median_us=statistics.median(times), p99_us=quantile(times, 0.99), most_us=max(times), masks=len(times), broken=broken)
        rows.append(row)
    return rows


def summary(name, rows):
    accepted = [row for row in rows if "error" not in row]
    medians = [row["median_us"] for row in accepted]
    print(f"| {name} | {len(accepted)} of {len(rows)} ({len(accepted) / len(rows):.1%}) | {statistics.median(medians):.0f} |"
          f" {max(medians):.0f} | {quantile([row['p99_us'] for row in accepted], 0.5):.0f} | {max(row['p99_us'] for row in accepted):.0f} |"
          f" {statistics.median(row['compile_ms'] for row in accepted):.1f} | {max(row['compile_ms'] for row in accepted):.0f} |"
          f" {sum(bool(row.get('broken')) for row in accepted)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmark")
    parser.add_argument("collection")
    parser.add_argument("--tokens", type=int, default=262144)
    parser.add_argument("--answers", type=int, default=3)
    parser.add_argument("--only", choices=["reprise", "llguidance"])
    parser.add_argument("--rows", action="store_true", help="print the row of each schema too")
    arguments = parser.parse_args()
    print(f"{arguments.tokens} tokens, {arguments.answers} answers of at most {MAX_TOKENS} tokens for each schema\n")
    print("| engine | accepted | mask us: median of medians | largest median | median of p99 | largest p99 | compile ms: median | most | stopped |")
    print("|---|---|---|---|---|---|---|---|---|")
    results = {}
    for name, engine in (("reprise", reprise), ("llguidance", llguidance)):
        if arguments.only not in (None, name):
            continue
        results[name] = engine(arguments)
        summary(name, results[name])
    print()
    for name, rows in results.items():
        for row in rows:
            if arguments.rows or "error" in row:
                print(f"{name}: {json.dumps(row)}")


if __name__ == "__main__":
    main()
