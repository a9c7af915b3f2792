"""Adapters of single requests."""

import pathlib
import sys

import pytest
import reprise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "integration"))
from lora_serve_test import write_adapter  # noqa: E402 - after the path is set

PROMPT = "Once upon a time"
PARAMS = reprise.SamplingParams(max_tokens=12, temperature=0)


@pytest.fixture(scope="module")
def adapters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters")
    return [
        reprise.LoRARequest(name, number, str(write_adapter(folder / name, number)))
        for number, name in enumerate(("fox", "owl"), 1)
    ]


@pytest.fixture(scope="module")
def lora_llm(model_path):
    with reprise.LLM(model=model_path, max_num_seqs=8, enable_lora=True, max_loras=2) as engine:
        yield engine


def texts(outputs):
    return [output.outputs[0].text for output in outputs]


def test_each_prompt_has_its_own_adapter(lora_llm, adapters, llm):
    fox, owl = adapters
    mixed = lora_llm.generate([PROMPT] * 3, PARAMS, lora_request=[fox, None, owl])
    assert len(set(texts(mixed))) == 3
    assert [output.lora_request for output in mixed] == [fox, None, owl]
    assert texts(lora_llm.generate([PROMPT], PARAMS, lora_request=owl)) == [mixed[2].outputs[0].text]
    assert texts(llm.generate([PROMPT], PARAMS)) == [mixed[1].outputs[0].text]


def test_an_adapter_is_found_by_its_name_once_it_was_read(lora_llm, adapters):
    named = reprise.LoRARequest("fox", 1)
    assert texts(lora_llm.generate([PROMPT], PARAMS, lora_request=named)) == texts(
        lora_llm.generate([PROMPT], PARAMS, lora_request=adapters[0])
    )


def test_what_cannot_work_says_why(lora_llm, adapters, llm, tmp_path):
    with pytest.raises(ValueError, match="enable_lora"):
        llm.generate([PROMPT], PARAMS, lora_request=adapters[0])
    with pytest.raises(ValueError, match="no adapter 'bear'"):
        lora_llm.generate([PROMPT], PARAMS, lora_request=reprise.LoRARequest("bear", 3))
    with pytest.raises(ValueError, match="E_MISSING"):
        lora_llm.generate([PROMPT], PARAMS, lora_request=reprise.LoRARequest("bear", 3, str(tmp_path / "bear")))
    with pytest.raises(ValueError, match="one for each prompt"):
        lora_llm.generate([PROMPT] * 3, PARAMS, lora_request=adapters)
