"""Compilation configurations, and the example on vLLM's page about CUDA graphs."""

import os
import shutil
import subprocess
import sys

import pytest
import reprise
from reprise.config import CompilationConfig, CompilationLevel, CompilationMode, CUDAGraphMode


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


def test_modes_have_the_values_of_vllm():
    assert [mode.value for mode in CUDAGraphMode] == [0, 1, 2, (2, 0), (2, 1), (2, 2)]
    assert CUDAGraphMode((2, 1)) is CUDAGraphMode.FULL_AND_PIECEWISE
    assert CUDAGraphMode.valid_runtime_modes() == {CUDAGraphMode.NONE, CUDAGraphMode.PIECEWISE, CUDAGraphMode.FULL}
    assert not CUDAGraphMode.FULL_DECODE_ONLY.is_valid_runtime_mode()
    assert CUDAGraphMode.FULL_AND_PIECEWISE.has_piecewise_cudagraphs() and CUDAGraphMode.FULL.has_full_cudagraphs()
    assert str(CUDAGraphMode.FULL) == "FULL"


def test_older_names_of_levels_and_fields_work(model_path):
    assert CompilationLevel.PIECEWISE == CompilationMode.VLLM_COMPILE
    config = CompilationConfig(level=CompilationLevel.PIECEWISE, cuda_graph_sizes=[4], cudagraph_copy_inputs=False)
    with reprise.LLM(model=model_path, compilation_config=config, max_num_seqs=8) as model:
        assert model.generate(["Once"], use_tqdm=False)[0].outputs[0].text
    with reprise.LLM(model=model_path, compilation_config=CompilationConfig(use_cudagraph=False)) as model:
        assert model.startup_report()["cudagraph_mode"] is CUDAGraphMode.NONE


def run(script, **variables):
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=os.environ | variables, check=False, timeout=300
    )


def test_variables_act_as_in_the_program(model_path):
    script = f"""import reprise
model = reprise.LLM(model={str(model_path)!r}, max_num_seqs=2, compilation_config={{"cudagraph_mode": "FULL"}})
print(model.startup_report()["cudagraph_mode"])"""
    plain = run(script)
    assert (plain.returncode, plain.stdout) == (0, "FULL\n"), plain.stderr
    assert "cudagraph_mode FULL; KV cache" in plain.stderr
    assert run(script, VLLM_FLASH_ATTN_VERSION="2").stdout == "FULL_AND_PIECEWISE\n"
    assert "KV cache" not in run(script, VLLM_LOGGING_LEVEL="ERROR").stderr
    refused = run(script, VLLM_LOGGING_LEVEL="NONSENSE")
    assert refused.returncode != 0 and "VLLM_LOGGING_LEVEL: 'NONSENSE'" in refused.stderr


def test_the_server_starts_by_vllms_module(model_path, tmp_path):
    program = shutil.which("reprise") or os.environ.get("REPRISE_PROGRAM")
    if program is None:
        pytest.skip("the program is not installed")
    (tmp_path / "reprise").symlink_to(program)
    done = subprocess.run(
        [sys.executable, "-m", "reprise.entrypoints.openai.api_server", "--model", str(model_path), "--dump-config"],
        capture_output=True, text=True, check=False, env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# reprise serve") and f"model: {model_path}" in done.stdout
