"""Every answer that a constraint lets through is valid, and every spec is answered in time.

  structured_output_test.py ANSWER_SAMPLER MODEL_DIR

The sampler draws evenly from the tokens that masks allow; jsonschema and re are the oracles."""

import json
import random
import re
import subprocess
import sys
import time

import jsonschema
import schema_corpus as corpus

SAMPLER, MODEL = sys.argv[1:3]
ANSWERS = 6


def run(specs, answers=ANSWERS, timeout=1100):
    lines = "".join(json.dumps({"kind": kind, "spec": spec}) + "\n" for kind, spec in specs)
    done = subprocess.run([SAMPLER, MODEL, "7", str(answers)], input=lines, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(specs)
    return list(zip(specs, results))


def refuse_constant(name):
    raise ValueError(name)


def check_json(schema, text):
    value = json.loads(text, parse_constant=refuse_constant)
    jsonschema.Draft202012Validator(schema).validate(value)


def check(kind, spec, text, oracle=None):
    if kind == "json":
        check_json(spec, text)
    elif kind == "json_object":
        assert isinstance(json.loads(text), dict)
    elif kind == "choice":
        assert text in spec
    else:
        assert re.fullmatch(oracle if oracle is not None else spec, text), "no match"


def expect_valid(specs, oracles=None):
    num_answers, problems = 0, []
    for index, ((kind, spec), result) in enumerate(run(specs)):
        if "answers" not in result:
            problems.append((spec, result))
            continue
        if len(result["answers"]) == 0:
            problems.append((spec, "no answer ended"))
        for text in result["answers"]:
            num_answers += 1
            try:
                check(kind, spec, text, oracles[index] if oracles else None)
            except Exception as error:
                problems.append((spec, text, str(error)[:200]))
    assert not problems, "\n".join(map(str, problems))
    return num_answers


def expect_refused(specs):
    for spec, result in run(specs):
        assert "error" in result, (str(spec)[:200], str(result)[:200])


def expect_prices():
    """Each of these once took a compiling thread seconds to minutes, or was refused for its size."""
    names = [f"p{i}" for i in range(300)]
    integers = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
    large = [integers, {**integers, "required": names}, {"anyOf": [{"type": "object", "properties": {name: {} for name in names[:200]}}] * 2},
             {"enum": [[["x" * 50] * 10] * 10] * 12}, {"const": "x" * 1100}, {"enum": ["x" * 100 + str(i) for i in range(5000)]}]
    specs = [("json", schema) for schema in large] + [("choice", ["x" * 2000 + str(i) for i in range(30)])]
    for (_, spec), result in run(specs, answers=1):
        assert "answers" in result, (str(spec)[:80], str(result)[:300])
    too_large = {"more than 20000 values": {"enum": list(range(20001))}, "more than 20000 properties": {
        "type": "object", "properties": {f"p{i}": True for i in range(20001)}}, "bytes, more than": {"const": "x" * (1 << 20)}}
    for limit, schema in too_large.items():
        (_, result), = run([("json", schema)])
        assert limit in result.get("error", ""), str(result)[:300]


def expect_format():
    """A length that the format implies does not switch the format off."""
    lengths = {"minLength": 2, "maxLength": 36}
    formats = {"date": r"\d{4}-\d\d-\d\d", "uuid": r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"}
    specs = [("json", {"type": "string", "format": name, **lengths}) for name in formats]
    for (_, spec), result in run(specs):
        assert result.get("answers"), (spec, result)
        for text in result["answers"]:
            assert re.fullmatch(formats[spec["format"]], json.loads(text)), (spec, text)


def recursive_grammar(num_rules):
    """6 KB in which every rule begins with several others or with nothing: the ways to read a text multiply."""
    rules = ["root ::= r0"]
    for i in range(num_rules):
        choices = [f"r{(i + j) % num_rules} r{(i * j + 1) % num_rules} r{(j * 3) % num_rules}" for j in range(4)]
        rules.append(f"r{i} ::= " + " | ".join([*choices, '"a"', '""']))
    return "\n".join(rules)


def expect_limits():
    """The cost of such a grammar comes with the length of the answer. Ambiguous patterns cost nothing more."""
    (_, result), = run([("grammar", recursive_grammar(100))], answers=1)
    assert "structured output: the grammar or pattern is too" in result.get("error", ""), str(result)[:300]
    for (_, spec), result in run([("regex", ".*" * 200 + "☃"), ("regex", "(.*a)*" * 60 + "☃")], answers=1):
        assert "answers" in result, (spec[:80], str(result)[:300])


def random_schema(source, depth=0):
    """Without regard to sense: some of these are refused."""
    kind = source.choice(["leaf", "leaf", "object", "array", "anyOf", "enum", "ref"] if depth < 4 else ["leaf"])
    if kind == "object":
        names = source.sample(["a", "b", "c d", "é", "\"q\""], source.randint(0, 3))
        schema = {"type": "object", "properties": {name: random_schema(source, depth + 1) for name in names}}
        schema["required"] = source.sample(names, source.randint(0, len(names)))
        if source.random() < 0.3:
            schema["additionalProperties"] = source.choice([True, False, {"type": "integer"}])
        return schema
    if kind == "array":
        schema = {"type": "array", "items": random_schema(source, depth + 1), "maxItems": source.randint(0, 3)}
        if source.random() < 0.4:
            schema["minItems"] = source.randint(0, 3)
        return schema
    if kind == "anyOf":
        return {"anyOf": [random_schema(source, depth + 1) for _ in range(source.randint(1, 3))]}
    if kind == "enum":
        return {"enum": source.sample([1, "x", None, False, [2], {"z": 0}, 1.25], source.randint(1, 4))}
    if kind == "ref":
        return {"$ref": source.choice(["#/$defs/one", "#/$defs/two"])}
    low = source.randint(-2000, 2000) / source.choice([1, 8, 100])
    return source.choice([
        {"type": "string", "maxLength": source.randint(0, 6)},
        {"type": "string", "pattern": source.choice(["^[a-c]+$", "^\\w\\W?$", "^[^x]{0,3}$"])},
        {"type": "integer", "minimum": low, "maximum": low + source.randint(1, 500)},
        {"type": "number", source.choice(["minimum", "exclusiveMinimum"]): low,
         source.choice(["maximum", "exclusiveMaximum"]): low + source.randint(1, 300) / source.choice([1, 16])},
        {"type": source.choice(["boolean", "null", "integer", "number"])},
    ])


def main():
    start = time.monotonic()
    assert len(corpus.SCHEMAS) >= 100, len(corpus.SCHEMAS)
    counts = {"json": expect_valid([("json", schema) for schema in corpus.SCHEMAS])}
    counts["json_object"] = expect_valid([("json_object", None)] * 3)
    counts["regex"] = expect_valid([("regex", regex) for regex in corpus.REGEXES])
    counts["choice"] = expect_valid([("choice", choices) for choices in corpus.CHOICES])
    counts["grammar"] = expect_valid([("grammar", text) for text, _ in corpus.GRAMMARS], [regex for _, regex in corpus.GRAMMARS])
    expect_refused([("json", schema) for schema in corpus.REFUSED_SCHEMAS])
    expect_refused([("regex", regex) for regex in corpus.REFUSED_REGEXES])
    expect_refused([("grammar", text) for text in corpus.REFUSED_GRAMMARS])
    expect_refused([("choice", choices) for choices in corpus.REFUSED_CHOICES])
    expect_format()
    expect_prices()
    expect_limits()

    source = random.Random(5)
    definitions = {"one": {"enum": [1, 2]}, "two": {"type": "array", "items": {"$ref": "#/$defs/one"}, "maxItems": 2}}
    schemas = [{**random_schema(source), "$defs": definitions} for _ in range(150)]
    num_random, num_refused, problems = 0, 0, []
    for (_, schema), result in run([("json", schema) for schema in schemas], answers=3):
        if "error" in result:
            num_refused += 1
            continue
        if "answers" not in result:
            problems.append((schema, result))
            continue
        for text in result["answers"]:
            num_random += 1
            try:
                check_json(schema, text)
            except Exception as error:
                problems.append((schema, text, str(error)[:200]))
    assert not problems, "\n".join(map(str, problems))
    assert num_refused < 75, num_refused
    print(f"{counts} and {num_random} answers to random schemas ({num_refused} of 150 refused), all valid;",
          f"{time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()
