"""Compares beam search with Transformers, and with a plain implementation over 20 tokens per beam."""

import pytest
import reprise
from reprise import BeamSearchParams, SamplingParams

PROMPTS = ["Anna has", "Once upon a time"]


# Made with transformers 5 in float32: generate(num_beams=4, num_return_sequences=4, max_new_tokens=8,
# length_penalty=1.0, eos_token_id=None). The tokens follow the prompt; the number is the mean log-probability.
TRANSFORMERS = {
    "Anna has": (
        [[223, 282, 267, 223, 19, 19, 259, 223], [223, 282, 267, 223, 259, 223, 19, 21], [223, 282, 267, 223, 19, 20, 259, 223], [223, 282, 267, 223, 23, 259, 223, 24]],
        -0.13803,
    ),
    "Once upon a time": (
        [[14, 530, 401, 263, 294, 87, 368, 738], [14, 530, 323, 263, 294, 87, 368, 738], [14, 263, 294, 87, 368, 738, 271, 911], [14, 263, 294, 87, 368, 738, 495, 841]],
        -0.45204,
    ),
    "Tom has 14 apples. He buys": (
        [[592, 223, 19, 22, 259, 223, 27, 22], [592, 223, 19, 22, 259, 223, 26, 22], [882, 592, 223, 19, 22, 259, 223, 27], [592, 223, 19, 22, 259, 223, 223, 27]],
        -0.35286,
    ),
}


def test_transformers_finds_the_same_beams(model_path):
    params = BeamSearchParams(beam_width=4, max_tokens=8, ignore_eos=True)
    with reprise.LLM(model=model_path, dtype="float32") as llm:
        found = llm.beam_search(list(TRANSFORMERS), params)
        for (prompt, (tokens, mean)), output in zip(TRANSFORMERS.items(), found, strict=True):
            num_prompt = len(llm.get_tokenizer().encode(prompt))
            assert [beam.tokens[num_prompt:] for beam in output.sequences] == tokens
            assert output.sequences[0].cum_logprob / 8 == pytest.approx(mean, abs=1e-4)


def next_logprobs(llm, tokens):
    params = SamplingParams(temperature=0, max_tokens=1, logprobs=20, ignore_eos=True)
    answer = llm.generate({"prompt_token_ids": tokens}, params, use_tqdm=False)[0].outputs[0]
    return {token: entry.logprob for token, entry in answer.logprobs[0].items()}


def textbook(llm, prompt, width, steps, penalty, ignore_eos):
    """The likeliest continuations of all beams are scored; beams that ended compete at the end."""
    eos = llm.get_tokenizer().eos_token_id

    def score(beam):
        tokens, total = beam
        return total / (len(tokens) - (tokens[-1] == eos)) ** penalty

    beams, ended = [(prompt, 0.0)], []
    for _ in range(steps):
        longer = [([*tokens, token], total + logprob) for tokens, total in beams for token, logprob in next_logprobs(llm, tokens).items()]
        if not ignore_eos:
            ended += [beam for beam in longer if beam[0][-1] == eos]
            longer = [beam for beam in longer if beam[0][-1] != eos]
        beams = sorted(longer, key=score, reverse=True)[:width]
    return sorted(ended + beams, key=score, reverse=True)[:width]


@pytest.mark.parametrize(("width", "steps", "penalty", "ignore_eos"), [(1, 6, 1.0, True), (3, 6, 1.0, False), (2, 5, 0.0, False), (4, 4, 2.0, True)])
def test_the_textbook_finds_the_same_beams(llm, width, steps, penalty, ignore_eos):
    tokenizer = llm.get_tokenizer()
    params = BeamSearchParams(beam_width=width, max_tokens=steps, length_penalty=penalty, ignore_eos=ignore_eos)
    found = llm.beam_search(PROMPTS, params)
    for prompt, output in zip(PROMPTS, found, strict=True):
        expected = textbook(llm, tokenizer.encode(prompt), width, steps, penalty, ignore_eos)
        assert [beam.tokens for beam in output.sequences] == [tokens for tokens, _ in expected]
        for beam, (_, total) in zip(output.sequences, expected):
            assert beam.cum_logprob == pytest.approx(total, abs=1e-4)
            assert beam.text.startswith(prompt)


def test_one_beam_is_greedy(llm):
    greedy = llm.generate(PROMPTS[0], SamplingParams(temperature=0, max_tokens=8, ignore_eos=True), use_tqdm=False)[0]
    beams = llm.beam_search(PROMPTS[0], BeamSearchParams(beam_width=1, max_tokens=8, ignore_eos=True))[0].sequences
    assert beams[0].tokens == [*greedy.prompt_token_ids, *greedy.outputs[0].token_ids]
    assert beams[0].finish_reason == "length" and len(beams[0].logprobs) == 8


def test_ranges_are_checked(llm):
    with pytest.raises(ValueError, match="beam_width"):
        BeamSearchParams(beam_width=0, max_tokens=1)
    with pytest.raises(ValueError, match="1 to 10"):
        BeamSearchParams(beam_width=11, max_tokens=1)
    with pytest.raises(ValueError, match="max_tokens"):
        BeamSearchParams(beam_width=1, max_tokens=0)
