"""Many requests at once from asyncio."""

import asyncio

import pytest
import reprise
from reprise import AsyncEngineArgs, AsyncLLM, RequestOutputKind, SamplingParams


@pytest.fixture(scope="module")
def engine(model_path):
    made = AsyncLLM.from_engine_args(AsyncEngineArgs(model=model_path, max_num_seqs=16))
    yield made
    made.shutdown()


def run(engine, work):
    """Each test runs in its own event loop; the loops follow each other."""

    async def bounded():
        return await asyncio.wait_for(work(), 60)

    return asyncio.run(bounded())


async def collect(engine, prompt, params, name):
    return [output async for output in engine.generate(prompt, params, name)]


def test_concurrent_streams_equal_lone_answers(engine, llm):
    prompts = ["Anna has", "Once upon", "Tom", "The cat"]
    params = SamplingParams(temperature=0, max_tokens=24)
    expected = [answer.outputs[0].text for answer in llm.generate(prompts, params, use_tqdm=False)]

    async def work():
        return await asyncio.gather(*(collect(engine, p, params, str(i)) for i, p in enumerate(prompts)))

    streams = run(engine, work)
    assert [stream[-1].outputs[0].text for stream in streams] == expected
    for stream in streams:
        texts = [output.outputs[0].text for output in stream]
        assert all(later.startswith(earlier) for earlier, later in zip(texts, texts[1:]))
        assert [output.finished for output in stream] == [False] * (len(stream) - 1) + [True]


def test_output_kinds(engine):
    def params(kind):
        return SamplingParams(temperature=0, max_tokens=20, ignore_eos=True, logprobs=0, output_kind=kind)

    async def work():
        return [await collect(engine, "Anna has", params(kind), kind.name) for kind in RequestOutputKind]

    cumulative, delta, final = run(engine, work)
    whole = cumulative[-1].outputs[0]
    assert "".join(output.outputs[0].text for output in delta) == whole.text
    assert sum((output.outputs[0].token_ids for output in delta), []) == whole.token_ids
    assert sum((output.outputs[0].logprobs for output in delta), []) == whole.logprobs
    assert len(final) == 1 and final[0].outputs[0].text == whole.text


def test_abort_ends_the_stream_and_leaving_it_ends_the_request(engine):
    endless = SamplingParams(temperature=0, max_tokens=None, ignore_eos=True)

    async def aborted():
        stream = engine.generate("Once", endless, "endless")
        await anext(stream)
        await engine.abort("endless")
        return [output async for output in stream]

    assert run(engine, aborted)[-1].outputs[0].finish_reason == "abort"

    async def left():
        async for _ in engine.generate("Once", endless, "left"):
            break
        stream = engine.generate("Once", endless, "closed")
        await anext(stream)
        await stream.aclose()
        task = asyncio.create_task(collect(engine, "Once", endless, "cancelled"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while engine.stats()["num_requests_running"]:
            await asyncio.sleep(0.01)

    run(engine, left)


def test_a_name_in_use_and_a_bad_prompt_are_refused(engine):
    params = SamplingParams(temperature=0, max_tokens=50, ignore_eos=True)

    async def work():
        stream = engine.generate("Once", params, "same")
        await anext(stream)
        with pytest.raises(ValueError, match="in use"):
            await collect(engine, "Once", params, "same")
        await stream.aclose()
        with pytest.raises(ValueError):
            await collect(engine, [2**30], params, "bad")
        await engine.check_health()

    run(engine, work)


def test_a_sleeping_engine_answers_when_it_wakes(engine):
    async def work():
        await engine.sleep(level=1)
        assert await engine.is_sleeping()
        answer = asyncio.create_task(collect(engine, "Anna has", SamplingParams(temperature=0, max_tokens=4), "late"))
        await asyncio.sleep(0.1)
        assert not answer.done()
        await engine.wake_up()
        assert not await engine.is_sleeping()
        return await answer

    assert run(engine, work)[-1].finished
