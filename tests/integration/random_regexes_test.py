"""A pattern that is accepted can be answered: no state without a way on, every answer matches.

  random_regexes_test.py ANSWER_SAMPLER MODEL_DIR

Random patterns of the dialect (docs/howto/structured-outputs.md), answers drawn evenly from what masks
allow, by the bundled model's tokens and by a large made-up vocabulary; Python's re is the oracle."""

import json
import random
import re
import subprocess
import sys

SAMPLER, MODEL = sys.argv[1:3]
# Both sides of every place where UTF-8 becomes longer, of the surrogates, and of the borders of sets.
CHARACTERS = "abcxyz07 _-^.]é\x7f\x80ß\u07ff\u0800ж€漢\ud7ff\ue000\uffff\U00010000😀\U0010ffff"
NAMED_SETS = ["\\d", "\\w", "\\s", "\\D", "\\W", "\\S"]
REPETITIONS = ["*", "+", "?", "*?", "{2}", "{0,3}", "{1,2}", "{2,5}", "{1,}", "{0}"]


def literal(source):
    character = source.choice(CHARACTERS)
    return re.escape(character) if character.isascii() else character


def bracket(source):
    items = []
    for _ in range(source.randint(1, 4)):
        dice = source.random()
        if dice < 0.4:
            first, last = sorted(source.choices([c for c in CHARACTERS if c not in "-^]"], k=2))
            items.append(f"{first}-{last}")
        elif dice < 0.55:
            items.append(source.choice(NAMED_SETS))
        else:
            items.append(literal(source))
    return "[" + ("^" if source.random() < 0.5 else "") + "".join(items) + "]"


def pattern(source, depth=0):
    dice = source.random()
    if depth > 3 or dice < 0.2:
        return literal(source)
    if dice < 0.48:
        return bracket(source)
    if dice < 0.55:
        return source.choice([".", *NAMED_SETS])
    if dice < 0.7:
        return "".join(pattern(source, depth + 1) for _ in range(source.randint(0, 4)))
    if dice < 0.84:
        return "(" + "|".join(pattern(source, depth + 1) for _ in range(source.randint(2, 4))) + ")"
    return "(?:" + pattern(source, depth + 1) + ")" + source.choice(REPETITIONS)


def check(vocabulary, seed, num_patterns, num_answers):
    source = random.Random(seed)
    patterns = [pattern(source) for _ in range(num_patterns)]
    lines = "".join(json.dumps({"kind": "regex", "spec": text}) + "\n" for text in patterns)
    done = subprocess.run([SAMPLER, vocabulary, str(seed), str(num_answers)], input=lines, capture_output=True, text=True, timeout=1100)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    counts, problems = {"answers": 0, "refused": 0, "unfinished": 0}, []
    for text, line in zip(patterns, done.stdout.splitlines(), strict=True):
        result = json.loads(line)
        if "answers" not in result:
            counts["refused"] += 1
            if "a set that no character is in" not in result.get("error", ""):
                problems.append((text, result))
            continue
        counts["unfinished"] += result["unfinished"]
        counts["answers"] += len(result["answers"])
        problems += [(text, answer) for answer in result["answers"] if not re.fullmatch(text, answer)]
    assert not problems, "\n".join(ascii(problem)[:500] for problem in problems)
    print(f"vocabulary {vocabulary}: {num_patterns} patterns, {counts}")
    return counts


def main():
    counts = check(MODEL, seed=11, num_patterns=600, num_answers=6)
    assert counts["answers"] > 3000 and counts["refused"] < 60, counts
    counts = check("150000", seed=12, num_patterns=40, num_answers=3)
    assert counts["answers"] > 80, counts


if __name__ == "__main__":
    main()
