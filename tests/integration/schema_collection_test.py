"""The collection of schemas: each one is accepted, and every answer that ends is valid.

  schema_collection_test.py ANSWER_SAMPLER MODEL_DIR [ANSWERS]

schema_collection.jsonl has schemas in the shapes of pydantic, zod, tool servers and OpenAI's documentation
(make_schema_collection.py). Answers are drawn evenly from the masks; jsonschema is the oracle."""

import json
import os
import re
import subprocess
import sys
import time
import unicodedata

import jsonschema

SAMPLER, MODEL = sys.argv[1:3]
ANSWERS = sys.argv[3] if len(sys.argv) > 3 else "2"
COLLECTION = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schema_collection.jsonl")
# Schemas that are refused, each with a part of the message.
REFUSED = {}


def as_ascii_letters(text):
    """Python's `re` has no \\p: letters become ASCII letters of the same case."""
    kinds = {"Lu": "A", "Ll": "a", "Lt": "A", "Lm": "a", "Lo": "a"}
    return "".join(kinds.get(unicodedata.category(character), character) for character in text)


def pattern_keyword(validator, pattern, value, schema):
    if not validator.is_type(value, "string"):
        return
    if "\\p{" in pattern:
        value = as_ascii_letters(value)
        pattern = pattern.replace("\\p{Lu}", "A-Z" if "[\\p" in pattern else "[A-Z]").replace("\\p{Ll}", "[a-z]").replace("\\p{L}", "A-Za-z")
    if not re.search(pattern, value):
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


def checks_formats():
    checker = jsonschema.FormatChecker()
    known = {name: check for name, check in checker.checkers.items() if name in ("date", "email", "ipv4", "ipv6")}
    checker.checkers = known
    return checker


Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": pattern_keyword})
Draft7 = jsonschema.validators.extend(jsonschema.Draft7Validator, {"pattern": pattern_keyword})
Draft4 = jsonschema.validators.extend(jsonschema.Draft4Validator, {"pattern": pattern_keyword})


def validator_of(schema):
    draft = schema.get("$schema", "") if isinstance(schema, dict) else ""
    is_tuple = '"additionalItems"' in json.dumps(schema)
    kind = Draft4 if "draft-04" in draft else Draft7 if "draft-07" in draft or is_tuple else Validator
    if kind is Validator and '"dependencies"' in json.dumps(schema):
        kind = Draft7
    return kind(schema, format_checker=checks_formats())


def main():
    start = time.monotonic()
    with open(COLLECTION, encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    assert len(entries) >= 300, len(entries)
    lines = "".join(json.dumps({"kind": "json", "spec": entry["schema"]}) + "\n" for entry in entries)
    done = subprocess.run([SAMPLER, MODEL, "5", ANSWERS], input=lines, capture_output=True, text=True, timeout=1100)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    problems, num_answers, num_unfinished, num_refused = [], 0, 0, 0
    for entry, line in zip(entries, done.stdout.splitlines(), strict=True):
        result, name = json.loads(line), f"{entry['source']}: {entry['name']}"
        if name in REFUSED:
            num_refused += 1
            if REFUSED[name] not in result.get("error", ""):
                problems.append((name, "should be refused", str(result)[:300]))
            continue
        if "answers" not in result:
            problems.append((name, str(result)[:300]))
            continue
        num_unfinished += result["unfinished"]
        validator = validator_of(entry["schema"])
        for text in result["answers"]:
            num_answers += 1
            try:
                validator.validate(json.loads(text))
            except Exception as error:
                problems.append((name, text[:300], str(error)[:300]))
    for problem in problems:
        print("problem:", *problem)
    print(f"{len(entries)} schemas, {num_refused} refused; {num_answers} answers, {num_unfinished} cut off;",
          f"{time.monotonic() - start:.1f} s")
    assert not problems, len(problems)
    assert num_answers >= len(entries), num_answers


if __name__ == "__main__":
    main()
