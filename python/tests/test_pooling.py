"""Vectors, scores and probabilities, beside those of Transformers (tests/goldens)."""

import contextlib
import json
import math
import pathlib
import shutil
import sys
import tempfile

import pytest
import reprise
from reprise import PoolingParams

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests"
sys.path.insert(0, str(TESTS / "integration"))
from architectures_test import write_tokenizer  # noqa: E402


@contextlib.contextmanager
def model(name, **arguments):
    with tempfile.TemporaryDirectory(prefix="reprise_pooling_") as parent:
        folder = pathlib.Path(parent) / "model"
        shutil.copytree(TESTS / "goldens" / name, folder)
        if not (folder / "tokenizer.json").exists():
            write_tokenizer(folder)
        with reprise.LLM(model=folder, dtype="float32", disable_compile_cache=True, **arguments) as llm:
            yield llm, json.loads((folder / "golden.json").read_text())


def norm(vector):
    return math.sqrt(sum(x * x for x in vector))


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / (norm(a) * norm(b))


def test_embed_gives_the_vectors_of_transformers():
    for name in ("pooling/bert-mean", "pooling/qwen3-last"):
        with model(name) as (llm, golden):
            prompts = [{"prompt_token_ids": case["text"]} for case in golden["cases"]]
            outputs = llm.embed(prompts, use_tqdm=False)
            for output, case in zip(outputs, golden["cases"], strict=True):
                assert isinstance(output, reprise.EmbeddingRequestOutput) and output.finished
                assert output.prompt_token_ids == case["text"]
                assert output.outputs.embedding == pytest.approx(case["vector"], abs=1e-5)
                assert output.outputs.hidden_size == len(case["vector"])
            raw = llm.encode(prompts, PoolingParams(normalize=False), use_tqdm=False)
            for output, case in zip(raw, golden["cases"], strict=True):
                length = norm(output.outputs.data)
                assert abs(length - 1) > 0.01
                assert [x / length for x in output.outputs.data] == pytest.approx(case["vector"], abs=1e-5)
            with pytest.raises(ValueError, match="dimensions: the vectors of this model may not be cut"):
                llm.embed(prompts, pooling_params=PoolingParams(dimensions=4), use_tqdm=False)
            with pytest.raises(ValueError, match="use embed"):
                llm.classify(prompts, use_tqdm=False)
            with pytest.raises(ValueError, match="needs a model that generates text"):
                llm.generate(prompts, use_tqdm=False)


def test_vectors_that_may_be_cut_are_cut():
    with model("pooling/bert-mean", hf_overrides={"is_matryoshka": True}) as (llm, golden):
        case = golden["cases"][0]
        [output] = llm.embed({"prompt_token_ids": case["text"]}, pooling_params=PoolingParams(dimensions=3), use_tqdm=False)
        length = norm(case["vector"][:3])
        assert output.outputs.embedding == pytest.approx([x / length for x in case["vector"][:3]], abs=1e-5)
        with pytest.raises(ValueError, match="dimensions: expected 1 to"):
            llm.embed("a", pooling_params=PoolingParams(dimensions=0), use_tqdm=False)


def test_classify_gives_probabilities():
    with model("classifiers/bert-labels") as (llm, golden):
        texts = [case["texts"][0] for case in golden["texts"]]
        for output, case in zip(llm.classify(texts, use_tqdm=False), golden["texts"], strict=True):
            powers = [math.exp(score) for score in case["scores"]]
            assert output.outputs.probs == pytest.approx([power / sum(powers) for power in powers], abs=1e-4)
            assert output.outputs.num_classes == len(powers)
            assert output.prompt_token_ids == case["ids"]
        raw = llm.encode(texts, PoolingParams(use_activation=False), pooling_task="classify", use_tqdm=False)
        assert raw[0].outputs.data == pytest.approx(golden["texts"][0]["scores"], abs=1e-4)
        with pytest.raises(ValueError, match="use classify"):
            llm.embed(texts, use_tqdm=False)
        with pytest.raises(ValueError, match="labels: use classify"):
            llm.score("a", "b", use_tqdm=False)
        with pytest.raises(ValueError, match="pooling_task: 'token_embed' is not supported"):
            llm.encode(texts, pooling_task="token_embed")


@pytest.mark.parametrize("name", ["bert-pairs", "qwen3-yes-no"])
def test_a_cross_encoder_scores_pairs(name):
    with model(f"classifiers/{name}") as (llm, golden):
        firsts, seconds = zip(*(case["texts"] for case in golden["pairs"]))
        want = [1 / (1 + math.exp(-case["scores"][0])) for case in golden["pairs"]]
        outputs = llm.score(list(firsts), list(seconds), use_tqdm=False)
        assert [output.outputs.score for output in outputs] == pytest.approx(want, abs=1e-5)
        assert [output.prompt_token_ids for output in outputs] == [case["ids"] for case in golden["pairs"]]
        [one] = llm.score(firsts[0], seconds[0], use_tqdm=False)
        assert one.outputs.score == outputs[0].outputs.score
        assert len(llm.score(firsts[0], list(seconds), use_tqdm=False)) == len(seconds)
        for first, second in ((["a", "b"], ["c", "d", "e"]), ([], "a"), ("a", [1])):
            with pytest.raises(ValueError, match="score: "):
                llm.score(first, second, use_tqdm=False)


def test_vectors_are_scored_by_their_cosine(model_path):
    with reprise.LLM(model=model_path, runner="pooling", disable_compile_cache=True) as llm:
        texts = ["The cat sat on the mat.", "A cat sat on a mat.", "Seven times nine"]
        vectors = [output.outputs.embedding for output in llm.embed(texts, use_tqdm=False)]
        scores = [output.outputs.score for output in llm.score(texts[0], texts[1:], use_tqdm=False)]
        assert scores == pytest.approx([cosine(vectors[0], vectors[1]), cosine(vectors[0], vectors[2])], abs=1e-6)
        [same] = llm.score(texts[0], texts[0], use_tqdm=False)
        assert same.outputs.score == pytest.approx(1)


def test_a_model_that_generates_says_how_to_get_vectors(llm):
    for call in (llm.embed, llm.classify, llm.encode):
        with pytest.raises(ValueError, match='runner="pooling"'):
            call("a", use_tqdm=False)
    with pytest.raises(ValueError, match='runner="pooling"'):
        llm.score("a", "b", use_tqdm=False)


RUNNERS = [("embed", "pooling"), ("score", "pooling"), ("classify", "pooling"), ("generate", "generate")]


@pytest.mark.parametrize("task, runner", RUNNERS)
def test_the_older_argument_task_names_a_runner(model_path, task, runner):
    assert reprise.EngineArgs.from_arguments(model_path, {"task": task}).runner == runner
    with pytest.raises(ValueError, match="task=\"transcription\" is not one of"):
        reprise.EngineArgs.from_arguments(model_path, {"task": "transcription"})
