"""Compilation configurations, and the example on vLLM's page about CUDA graphs."""

import pytest
import reprise
from reprise.config import CompilationConfig, CompilationMode, CUDAGraphMode


def test_modes_say_which_routine_a_batch_takes():
    dual = CUDAGraphMode.FULL_AND_PIECEWISE
    assert (dual.decode_mode(), dual.mixed_mode()) == (CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE)
    assert dual.separate_routine() and dual.requires_piecewise_compilation()
    assert dual.has_mode(CUDAGraphMode.FULL) and not dual.has_mode(CUDAGraphMode.NONE)
    only = CUDAGraphMode.FULL_DECODE_ONLY
    assert (only.decode_mode(), only.mixed_mode()) == (CUDAGraphMode.FULL, CUDAGraphMode.NONE)
    assert not only.requires_piecewise_compilation()
    assert CUDAGraphMode["PIECEWISE"].max_cudagraph_mode() is CUDAGraphMode.PIECEWISE


def test_bad_configurations_are_refused_at_once():
    with pytest.raises(ValueError, match="cudagraph_mode"):
        CompilationConfig(cudagraph_mode="SOMETIMES")
    with pytest.raises(ValueError, match="cudagraph_mode"):
        CompilationConfig(extra={"cudagraph_mod": "FULL"})
    CompilationConfig(mode=CompilationMode.VLLM_COMPILE, cudagraph_mode=CUDAGraphMode.FULL, cudagraph_capture_sizes=[1, 2, 4])


@pytest.mark.parametrize(
    "config",
    [
        {"level": 3, "cudagraph_mode": "FULL_AND_PIECEWISE"},
        {"mode": 3, "cudagraph_mode": CUDAGraphMode.FULL_AND_PIECEWISE},
        CompilationConfig(mode=3, cudagraph_mode="FULL_AND_PIECEWISE"),
    ],
)
def test_the_example_of_the_cudagraph_page(model_path, config):
    model = reprise.LLM(model=str(model_path), dtype="auto", compilation_config=config)
    sampling_params = reprise.SamplingParams(temperature=0, max_tokens=1024)
    outputs = model.generate(["My name is John and"], sampling_params=sampling_params)
    assert outputs[0].outputs[0].text
    assert model.startup_report()["cudagraph_mode"] is CUDAGraphMode.FULL_AND_PIECEWISE
    assert model.stats()["steps_full"] > 0


def test_graphs_change_no_answer(model_path):
    params = reprise.SamplingParams(temperature=0, max_tokens=40)
    answers = []
    for mode in ("NONE", "PIECEWISE", "FULL"):
        with reprise.LLM(model=model_path, compilation_config={"cudagraph_mode": mode}) as model:
            answers.append(model.generate(["Anna has", "Once"], params, use_tqdm=False))
    tokens = [[answer.outputs[0].token_ids for answer in batch] for batch in answers]
    assert tokens[0] == tokens[1] == tokens[2]
