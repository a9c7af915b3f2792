"""Answers have the required form, checked with Python's json and re."""

import json
import re

import pytest
from reprise import GuidedDecodingParams, SamplingParams, StructuredOutputsParams

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def answers(llm, asked, **fields):
    params = SamplingParams(temperature=1.3, seed=3, n=4, max_tokens=200, structured_outputs=asked, **fields)
    try:
        outputs = llm.generate("Answer:", params, use_tqdm=False)[0].outputs
    except ValueError as error:
        if "xgrammar" in str(error):
            pytest.skip(str(error))
        raise
    assert all(output.finish_reason == "stop" for output in outputs)
    return [output.text for output in outputs]


@pytest.mark.parametrize("schema", [SCHEMA, json.dumps(SCHEMA)])
def test_json_is_valid(llm, schema):
    for text in answers(llm, StructuredOutputsParams(json=schema)):
        value = json.loads(text)
        assert set(value) == {"name", "age"} and len(value["name"]) <= 8 and 0 <= value["age"] <= 99


@pytest.mark.parametrize("pattern", [r"\d{3}-[a-f]{1,9}x", "[^a-z]{4}"])
def test_patterns_match(llm, pattern):
    assert all(re.fullmatch(pattern, text) for text in answers(llm, StructuredOutputsParams(regex=pattern)))


def test_choices_and_grammars(llm):
    assert set(answers(llm, StructuredOutputsParams(choice=["red", "green"]))) <= {"red", "green"}
    grammar = 'root ::= "(" root ")" | "x"'
    assert all(re.fullmatch(r"\(*x\)*", text) for text in answers(llm, StructuredOutputsParams(grammar=grammar)))


def test_the_former_name_works(llm):
    params = SamplingParams(temperature=0, max_tokens=50, guided_decoding=GuidedDecodingParams(choice=["maybe"]))
    assert params.structured_outputs.choice == ["maybe"]
    with pytest.raises(ValueError, match="give one"):
        SamplingParams(guided_decoding=GuidedDecodingParams(regex="a"), structured_outputs=StructuredOutputsParams(regex="a"))


def test_what_cannot_be_is_refused(llm):
    for fields in ({}, {"regex": "a", "choice": ["b"]}):
        with pytest.raises(ValueError, match="exactly one"):
            StructuredOutputsParams(**fields)
    for asked in (StructuredOutputsParams(regex="("), StructuredOutputsParams(grammar='root ::= "a" root')):
        with pytest.raises(ValueError):
            answers(llm, asked)
