"""The offline engine, used through the package like in a script."""

import dataclasses
import math
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import reprise
from reprise import SamplingParams
from reprise.engine_args import EngineArgs

GREEDY = SamplingParams(temperature=0, max_tokens=32)
LONG = SamplingParams(temperature=0, max_tokens=400, ignore_eos=True)


def test_answers_come_in_the_order_of_the_prompts(llm, apples):
    alone = [llm.generate(p, GREEDY, use_tqdm=False)[0].outputs[0].text for p in ("Anna has", "Once upon")]
    together = llm.generate(["Anna has", "Once upon"], GREEDY, use_tqdm=False)
    assert [answer.outputs[0].text for answer in together] == alone
    assert alone[0] != alone[1]
    answer = llm.chat(apples, GREEDY, use_tqdm=False)[0]
    assert "37" in answer.outputs[0].text
    assert answer.finished and answer.outputs[0].finish_reason == "stop"


def test_every_form_of_a_prompt_means_the_same(llm):
    ids = llm.get_tokenizer().encode("Anna has")
    expected = llm.generate("Anna has", GREEDY, use_tqdm=False)[0].outputs[0].token_ids
    for prompt in (ids, {"prompt": "Anna has"}, {"prompt_token_ids": ids}, [ids], ["Anna has"]):
        assert llm.generate(prompt, GREEDY, use_tqdm=False)[0].outputs[0].token_ids == expected


def test_each_prompt_may_have_its_own_parameters(llm):
    short, longer = llm.generate(
        ["Anna has", "Anna has"],
        [SamplingParams(temperature=0, max_tokens=3, ignore_eos=True), SamplingParams(temperature=0, max_tokens=7, ignore_eos=True)],
        use_tqdm=False,
    )
    assert len(short.outputs[0].token_ids) == 3 and short.outputs[0].finish_reason == "length"
    assert longer.outputs[0].token_ids[:3] == short.outputs[0].token_ids
    with pytest.raises(ValueError, match="expected one or 2"):
        llm.generate(["a", "b"], [GREEDY], use_tqdm=False)


def test_n_answers_with_a_seed_differ_and_repeat(llm):
    params = SamplingParams(n=3, seed=7, temperature=1.5, max_tokens=12, ignore_eos=True)
    first, second = (llm.generate("Once", params, use_tqdm=False)[0] for _ in range(2))
    texts = [choice.text for choice in first.outputs]
    assert len(set(texts)) > 1
    assert texts == [choice.text for choice in second.outputs]
    assert [choice.index for choice in first.outputs] == [0, 1, 2]


def test_logprobs_add_up(llm):
    params = SamplingParams(temperature=0, max_tokens=5, logprobs=2, prompt_logprobs=1, ignore_eos=True)
    answer = llm.generate("Anna has 12", params, use_tqdm=False)[0]
    choice = answer.outputs[0]
    assert len(choice.logprobs) == len(choice.token_ids) == 5
    chosen = [position[token] for position, token in zip(choice.logprobs, choice.token_ids)]
    assert all(entry.rank == 1 for entry in chosen)
    assert math.isclose(choice.cumulative_logprob, sum(entry.logprob for entry in chosen), abs_tol=1e-6)
    assert "".join(entry.decoded_token for entry in chosen) == choice.text
    assert answer.prompt_logprobs[0] is None
    assert len(answer.prompt_logprobs) == len(answer.prompt_token_ids)
    for token, position in zip(answer.prompt_token_ids[1:], answer.prompt_logprobs[1:]):
        assert position[token].logprob <= 0


def test_logprobs_of_given_tokens(llm):
    params = SamplingParams(temperature=0, max_tokens=3, logprob_token_ids=[300, 301], ignore_eos=True)
    choice = llm.generate("Anna has 12", params, use_tqdm=False)[0].outputs[0]
    every = SamplingParams(temperature=0, max_tokens=3, logprobs=20, ignore_eos=True)
    likeliest = llm.generate("Anna has 12", every, use_tqdm=False)[0].outputs[0]
    for position, best, token in zip(choice.logprobs, likeliest.logprobs, choice.token_ids, strict=True):
        assert set(position) == {token, 300, 301}
        for number, entry in position.items():
            if number in best:
                assert entry.logprob == best[number].logprob
    with pytest.raises(ValueError, match="logprob_token_ids"):
        SamplingParams(logprob_token_ids=[1] * 129)
    with pytest.warns(UserWarning, match="extra_args"):
        SamplingParams(extra_args={"a": 1})
    assert SamplingParams(seed=-1).seed is None


def test_stop_strings_end_the_text(llm, apples):
    full = llm.chat(apples, GREEDY, use_tqdm=False)[0].outputs[0].text
    word = full.split()[3]
    choice = llm.chat(apples, SamplingParams(temperature=0, max_tokens=32, stop=word), use_tqdm=False)[0].outputs[0]
    assert choice.text == full[: full.index(word)]
    assert choice.stop_reason == word and choice.finish_reason == "stop"


# The named arguments of vLLM 0.32's LLM(), and those of its EngineArgs that its documents use.
VLLM_ARGUMENTS = """
    model runner convert tokenizer tokenizer_mode skip_tokenizer_init trust_remote_code allowed_local_media_path
    tensor_parallel_size dtype quantization revision tokenizer_revision seed gpu_memory_utilization cpu_offload_gb
    enforce_eager disable_custom_all_reduce hf_token hf_overrides mm_processor_kwargs pooler_config
    structured_outputs_config kv_cache_memory_bytes compilation_config logits_processors attention_backend
    async_scheduling block_size code_revision config_format data_parallel_size disable_log_stats
    distributed_executor_backend enable_chunked_prefill enable_expert_parallel enable_lora enable_prefix_caching
    enable_prompt_embeds generation_config hf_config_path kv_cache_dtype kv_transfer_config limit_mm_per_prompt
    load_format long_prefill_token_threshold max_logprobs max_model_len max_num_batched_tokens max_num_seqs
    model_impl num_gpu_blocks_override override_generation_config pipeline_parallel_size scheduling_policy
    speculative_config download_dir task max_seq_len_to_capture enable_sleep_mode
""".split()


@pytest.mark.parametrize("name", VLLM_ARGUMENTS)
def test_an_argument_of_vllm_is_taken_or_refused_by_name(model_path, name):
    class Nonsense:
        pass

    if name in {field.name for field in dataclasses.fields(EngineArgs)}:
        if name not in ("model", "compilation_config"):
            with pytest.raises((ValueError, TypeError), match=name):
                EngineArgs.from_arguments(model_path, {name: Nonsense()}).for_engine()
    elif name in ("trust_remote_code", "disable_custom_all_reduce", "disable_log_stats", "max_seq_len_to_capture", "enable_sleep_mode"):
        with pytest.warns(UserWarning, match=f"{name} has no effect"):
            EngineArgs.from_arguments(model_path, {name: True})
    else:
        with pytest.raises(ValueError, match=f"{name}=.* is not "):
            EngineArgs.from_arguments(model_path, {name: Nonsense()})


def test_arguments_reach_the_engine(model_path):
    arguments = {
        "hf_overrides": {"max_position_embeddings": 96}, "override_generation_config": {"temperature": 0.0},
        "enable_prefix_caching": False, "scheduling_policy": "priority", "num_gpu_blocks_override": 40,
        "max_logprobs": 2, "async_scheduling": True, "long_prefill_token_threshold": 8, "max_num_seqs": 2,
    }
    with reprise.LLM(model=model_path, **arguments) as engine:
        report = engine.startup_report()
        assert report["max_model_len"] == 96
        assert engine.get_default_sampling_params().temperature == 0.0
        with pytest.raises(ValueError, match="logprobs"):
            engine.generate(["Anna"], SamplingParams(logprobs=3), use_tqdm=False)
        prompt = [list(range(40, 80))]
        for _ in range(2):
            engine.generate(prompt, GREEDY, use_tqdm=False)
        assert engine.stats()["prefix_cache_hits"] == 0, "prefix caching is off"


def test_what_cannot_run_is_refused_by_name(llm, model_path):
    with pytest.raises(ValueError, match="temperature"):
        SamplingParams(temperature=-1)
    with pytest.raises(ValueError, match="top_p"):
        SamplingParams(top_p=0)
    with pytest.raises(ValueError, match="max_tokens"):
        SamplingParams(max_tokens="many")
    with pytest.raises(ValueError, match="^n: "):
        SamplingParams(n=0)
    with pytest.raises(ValueError, match="prompt"):
        llm.generate([[]], GREEDY, use_tqdm=False)
    with pytest.raises(ValueError, match="no key 'multi_modal_data'"):
        llm.generate([{"prompt": "a", "multi_modal_data": {"image": b""}}], GREEDY, use_tqdm=False)
    with pytest.raises(TypeError, match="got float"):
        llm.generate([1.5], GREEDY, use_tqdm=False)
    with pytest.raises(TypeError, match="did you mean 'max_num_seqs'"):
        reprise.LLM(model=model_path, max_num_seq=3)
    with pytest.raises(ValueError, match="scheduling_policy: 'lifo' is not one of fcfs, priority"):
        reprise.LLM(model=model_path, scheduling_policy="lifo")
    with pytest.raises(ValueError, match="tensor_parallel_size=2"):
        reprise.LLM(model=model_path, tensor_parallel_size=2)
    with pytest.raises(ValueError, match="no-such-folder"):
        reprise.LLM(model="no-such-folder")
    # After a refusal no request of the batch may still run.
    with pytest.raises(ValueError):
        llm.generate(["Anna has", [2**30]], LONG, use_tqdm=False)
    deadline = time.monotonic() + 240
    while llm.stats()["num_requests_running"] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert llm.stats()["num_requests_running"] == 0


def test_the_gil_is_free_while_the_engine_works(llm):
    ticks = 0
    done = threading.Event()

    def count():
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=count)
    thread.start()
    llm.generate("Once", LONG, use_tqdm=False)
    done.set()
    thread.join()
    assert ticks > 5


def test_progress_goes_to_a_given_bar(llm):
    import tqdm

    seen = []

    class Bar(tqdm.tqdm):
        def __init__(self, *args, **kwargs):
            seen.append(kwargs["desc"])
            super().__init__(*args, **(kwargs | {"disable": True}))

    llm.generate(["a", "b"], GREEDY, use_tqdm=Bar)
    assert seen == ["Adding requests", "Processed prompts"]


def test_ctrl_c_aborts_and_the_engine_goes_on(model_path):
    script = textwrap.dedent(
        f"""
        import os, signal, threading, time
        import reprise
        llm = reprise.LLM(model={str(model_path)!r}, max_num_seqs=4)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        endless = reprise.SamplingParams(temperature=0, max_tokens=None, ignore_eos=True)
        try:
            llm.generate(["Once"] * 400, endless, use_tqdm=False)
            print("not interrupted")
        except KeyboardInterrupt:
            print("interrupted")
        deadline = time.monotonic() + 240
        while llm.stats()["num_requests_running"] + llm.stats()["num_requests_waiting"] and time.monotonic() < deadline:
            time.sleep(0.01)
        print("running", llm.stats()["num_requests_running"])
        print("then", len(llm.generate("Anna has", use_tqdm=False)))
        """
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert result.stdout.split("\n")[:3] == ["interrupted", "running 0", "then 1"], result.stderr


def test_a_forked_child_is_told_so(llm):
    reader, writer = multiprocessing.Pipe()
    child = os.fork()
    if child == 0:
        try:
            llm.generate("a", GREEDY, use_tqdm=False)
            writer.send("it ran")
        except RuntimeError as error:
            writer.send(str(error))
        os._exit(0)
    assert reader.poll(30) and "forked child" in reader.recv()
    os.waitpid(child, 0)


def test_a_shut_down_engine_says_so(model_path):
    engine = reprise.LLM(model=model_path, enforce_eager=True)
    assert engine.startup_report()["cudagraph_mode"] is reprise.CUDAGraphMode.NONE
    engine.shutdown()
    with pytest.raises(ValueError, match="shut down"):
        engine.generate("a", GREEDY, use_tqdm=False)


def test_answers_are_plain_values(llm):
    answer = llm.generate("Anna has", GREEDY, use_tqdm=False)[0]
    assert pickle.loads(pickle.dumps(answer)) == answer
    assert "finish_reason=" in repr(answer)
