"""Code as people write it for vLLM: other import paths, a tokenizer that is called, steps, sleep, and `import vllm`."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
import reprise
from reprise import SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def test_names_are_found_where_vllm_has_them():
    from reprise.config import CompilationConfig
    from reprise.engine.arg_utils import AsyncEngineArgs, EngineArgs
    from reprise.engine.async_llm_engine import AsyncLLMEngine
    from reprise.engine.llm_engine import LLMEngine
    from reprise.entrypoints.llm import LLM
    from reprise.inputs import PromptType, TextPrompt, TokensPrompt
    from reprise.lora.request import LoRARequest
    from reprise.outputs import EmbeddingRequestOutput
    from reprise.pooling_params import PoolingParams
    from reprise.sampling_params import GuidedDecodingParams, StructuredOutputsParams
    from reprise.utils import random_uuid
    from reprise.v1.engine.async_llm import AsyncLLM

    for found in (CompilationConfig, AsyncEngineArgs, EngineArgs, AsyncLLMEngine, LLMEngine, LLM, PromptType, TextPrompt,
                  TokensPrompt, LoRARequest, EmbeddingRequestOutput, PoolingParams, GuidedDecodingParams,
                  StructuredOutputsParams, AsyncLLM):
        name = getattr(found, "__name__", "")
        if name in reprise.__all__:
            assert getattr(reprise, name) is found
    assert len({random_uuid() for _ in range(100)}) == 100


def test_custom_ops_of_python_say_what_to_do():
    from reprise.utils import direct_register_custom_op

    with pytest.raises(NotImplementedError, match="--extension"):
        direct_register_custom_op("my_op", lambda x: x, mutates_args=[])


def test_a_tokenizer_can_be_called(llm):
    tokenizer = llm.get_tokenizer()
    one = tokenizer("Anna has")
    assert one.input_ids == one["input_ids"] == tokenizer.encode("Anna has")
    assert one.attention_mask == [1] * len(one.input_ids)
    several = tokenizer(["Anna has", "Tom"], add_special_tokens=False)
    assert several["input_ids"][0] == tokenizer.encode("Anna has", add_special_tokens=False)
    assert tokenizer.batch_decode(several["input_ids"]) == ["Anna has", "Tom"]
    assert tokenizer("Anna has 12 pens", truncation=True, max_length=2).input_ids == tokenizer.encode("Anna has 12 pens")[:2]
    assert tokenizer.vocab_size == len(tokenizer)
    with pytest.raises(ValueError, match="return_tensors is not supported"):
        tokenizer("a", return_tensors="pt")
    with pytest.raises(ValueError, match="padding is not supported"):
        tokenizer(["a"], padding=True)
    with pytest.raises(ValueError, match="max_length"):
        tokenizer("a", truncation=True)
    with pytest.raises(AttributeError, match="no 'token_type_ids'"):
        one.token_type_ids


def test_steps_give_the_answers_of_generate(llm):
    prompts = ["Anna has", "Once upon a time", "Tom"]
    want = {str(i): output for i, output in enumerate(llm.generate(prompts, GREEDY, use_tqdm=False))}
    engine = llm.llm_engine
    assert engine is llm.llm_engine
    for number, prompt in enumerate(prompts):
        engine.add_request(str(number), prompt, GREEDY)
    with pytest.raises(ValueError, match="in use"):
        engine.add_request("0", "again", GREEDY)
    assert engine.get_num_unfinished_requests() == 3
    done = {}
    while engine.has_unfinished_requests():
        for output in engine.step():
            assert output.request_id not in done
            if output.finished:
                done[output.request_id] = output
    assert {name: output.outputs[0].token_ids for name, output in done.items()} == {
        name: output.outputs[0].token_ids for name, output in want.items()}
    assert engine.step() == []
    assert engine.model_config.max_model_len == llm.startup_report()["max_model_len"]
    assert engine.get_tokenizer().encode("a") == llm.get_tokenizer().encode("a")
    with pytest.raises(AttributeError, match="no 'model_executor' here"):
        engine.model_executor


def test_an_aborted_request_has_no_more_steps(llm):
    engine = llm.llm_engine
    engine.add_request("long", "Once", SamplingParams(temperature=0, max_tokens=200, ignore_eos=True))
    engine.add_request("short", "Once", GREEDY)
    engine.abort_request("long")
    names = set()
    while engine.has_unfinished_requests():
        names |= {output.request_id for output in engine.step()}
    assert names == {"short"}


def test_a_sleeping_engine_wakes_with_the_same_answers(model_path):
    with reprise.LLM(model=model_path, enforce_eager=True) as llm:
        before = llm.generate("Anna has", GREEDY, use_tqdm=False)[0].outputs[0].token_ids
        for level in (0, 1, 2):
            llm.sleep(level=level)
            assert llm.llm_engine.is_sleeping()
            if level:  # part by part
                llm.wake_up(tags=["weights"])
                assert llm.llm_engine.is_sleeping()
            llm.wake_up()
            assert not llm.llm_engine.is_sleeping()
            assert llm.generate("Anna has", GREEDY, use_tqdm=False)[0].outputs[0].token_ids == before
        with pytest.raises(ValueError, match="level: 3"):
            llm.sleep(3)
        with pytest.raises(ValueError, match="mode: 'now'"):
            llm.sleep(1, "now")
        with pytest.raises(ValueError, match="lora"):
            llm.wake_up(["lora"])


def test_download_dir_is_the_cache_of_names(model_path, tmp_path):
    snapshot = tmp_path / "models--Tiny--Model" / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (tmp_path / "models--Tiny--Model" / "refs").mkdir()
    (tmp_path / "models--Tiny--Model" / "refs" / "next").write_text("a" * 40)
    for file in model_path.iterdir():
        if file.is_file():
            (snapshot / file.name).write_bytes(file.read_bytes())
    with reprise.LLM("Tiny/Model", download_dir=tmp_path, revision="next", enforce_eager=True) as llm:
        assert llm.generate("Anna has", GREEDY, use_tqdm=False)
    with pytest.raises(ValueError, match="reprise pull Tiny/Model"):
        reprise.LLM("Tiny/Model", download_dir=tmp_path)


INSTEAD = [
    ("tensor_parallel_size", 2, "-tp N"), ("kv_transfer_config", {"a": 1}, "--kv-transfer-config"),
    ("logits_processors", ["x"], "logit_bias"), ("data_parallel_size", 2, "--data-parallel-size"),
]


@pytest.mark.parametrize("name, value, hint", INSTEAD)
def test_what_is_not_there_says_what_to_do(model_path, name, value, hint):
    with pytest.raises(ValueError, match=f"{name}=.* is not supported.*{hint}"):
        reprise.LLM(model=model_path, **{name: value})


SCRIPT = f"""
import sys
import vllm
from vllm import LLM, SamplingParams
from vllm.lora.request import LoRARequest
from vllm.sampling_params import StructuredOutputsParams
from vllm.engine.arg_utils import EngineArgs

assert vllm.__version__ and LLM.__module__ == "reprise.llm"
llm = LLM(model={str(REPOSITORY / "models" / "reprise-tiny")!r}, enforce_eager=True)
[answer] = llm.generate("Anna has", SamplingParams(max_tokens=4, ignore_eos=True), use_tqdm=False)
print(len(answer.outputs[0].token_ids), *sys.argv[1:])
for name in ("multimodal", "distributed.parallel_state"):
    try:
        __import__("vllm." + name)
    except ModuleNotFoundError as error:
        assert "docs/howto/python.md" in str(error), error
    else:
        raise AssertionError(name)
try:
    from vllm import ModelRegistry
except ImportError:
    pass
else:
    raise AssertionError("ModelRegistry")
"""


def run_python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300, check=False)


def test_a_script_for_vllm_runs_unchanged(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    run = run_python("-m", "reprise.vllm", str(script), "--flag", "x")
    assert (run.returncode, run.stdout.split()) == (0, ["4", "--flag", "x"]), run.stderr
    run = run_python("-c", "import reprise.vllm\n" + SCRIPT)
    assert (run.returncode, run.stdout.split()) == (0, ["4"]), run.stderr


def test_the_other_package_is_not_replaced_behind_its_back(tmp_path):
    (tmp_path / "vllm.py").write_text("x = 1\n")
    lines = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import vllm, reprise; assert vllm.x == 1; import reprise.vllm"
    run = run_python("-c", lines)
    assert run.returncode == 1 and "imported already" in run.stderr, run.stderr
    run = run_python("-m", "reprise.vllm")
    assert run.returncode == 1 and "usage" in run.stderr


def test_plug_ins_are_loaded(model_path, tmp_path):
    with pytest.raises(ValueError, match="no-such-plug-in.so"):
        reprise.LLM(model=model_path, extension=[tmp_path / "no-such-plug-in.so"])
    with pytest.raises(ValueError, match="extension: .* is of type str"):
        reprise.LLM(model=model_path, extension="one.so")
    example = pathlib.Path(os.environ.get("REPRISE_PROGRAM", "")).parent / "example_extension.so"
    if not example.exists():
        pytest.skip("the examples were not built")
    with reprise.LLM(model=model_path, extension=[example]) as llm:
        assert llm.generate("Anna has", GREEDY, use_tqdm=False)
