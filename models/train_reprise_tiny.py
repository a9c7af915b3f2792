"""Trains the bundled model from nothing: tokenizer, weights, chat template, held-back problems.

    python models/train_reprise_tiny.py --out models/reprise-tiny

Deterministic for one machine and one set of package versions (requirements.txt). The result is an ordinary
Hugging Face folder. See README.md for what a run costs and what it reaches.
"""

import argparse
import itertools
import json
import random
import re
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

import corpus

VOCAB_SIZE = 1024
SPECIAL_TOKENS = [corpus.END_OF_TEXT, corpus.IM_START, corpus.IM_END]
# Qwen2's pre-tokenizer: words keep their leading space, every digit stands alone.
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
CHAT_TEMPLATE = """\
{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant") %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
CORPUS_SEED, TOKENIZER_SEED, HELD_BACK_SEED, WEIGHT_SEED = 1, 2, 3, 4
NUM_HELD_BACK = 400
IGNORED = -100  # label of a prompt token or of padding


def train_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB_SIZE, special_tokens=SPECIAL_TOKENS, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    sample = itertools.islice(corpus.documents(TOKENIZER_SEED), 20_000)
    # Special tokens are cut out, or their letters would be counted as ordinary text.
    special = re.compile("|".join(map(re.escape, SPECIAL_TOKENS)))
    tokenizer.train_from_iterator((special.sub("\n", text) for document in sample for text, _ in document), trainer)
    return tokenizer


def model_config(tokenizer: Tokenizer) -> LlamaConfig:
    # Thin and deep on purpose: the engine's graph benchmarks want many small launches per step.
    return LlamaConfig(
        vocab_size=VOCAB_SIZE, hidden_size=128, intermediate_size=384, num_hidden_layers=6, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, max_position_embeddings=1024, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=True,
        initializer_range=0.04, bos_token_id=tokenizer.token_to_id(corpus.END_OF_TEXT),
        eos_token_id=tokenizer.token_to_id(corpus.IM_END), pad_token_id=tokenizer.token_to_id(corpus.END_OF_TEXT))


def encode(document: list[corpus.Segment], tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Tokens and labels. Labels come from character offsets of the *whole* text, so that the tokens are exactly
    those an engine gets from the same text, also across segment borders."""
    text = "".join(part for part, _ in document)
    encoding = tokenizer.encode(text, add_special_tokens=False)
    borders, learned, end = [], [], 0
    for part, is_learned in document:
        end += len(part)
        borders.append(end)
        learned.append(is_learned)
    labels, segment = [], 0
    for token, (start, _) in zip(encoding.ids, encoding.offsets):
        while start >= borders[segment]:
            segment += 1
        labels.append(token if learned[segment] else IGNORED)
    return encoding.ids, labels


def batches(stream, tokenizer: Tokenizer, tokens_per_batch: int, seed: int, pool_size: int = 4096):
    """Endless padded batches of documents of similar length, so that padding stays below a few percent.

    Each document starts at position 0, as it will in the engine."""
    shuffle = random.Random(seed)
    while True:
        pool = sorted((encode(d, tokenizer) for d in itertools.islice(stream, pool_size)), key=lambda pair: len(pair[0]))
        groups, group = [], []
        for pair in pool:
            if group and len(pair[0]) * (len(group) + 1) > tokens_per_batch:
                groups.append(group)
                group = []
            group.append(pair)
        groups.append(group)
        shuffle.shuffle(groups)
        for group in groups:
            width = len(group[-1][0])
            ids = torch.zeros(len(group), width, dtype=torch.long)
            labels = torch.full((len(group), width), IGNORED)
            for row, (tokens, targets) in enumerate(group):
                ids[row, :len(tokens)] = torch.tensor(tokens)
                labels[row, :len(tokens)] = torch.tensor(targets)
            yield ids, labels


def loss_of(model: LlamaForCausalLM, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    # Padding is on the right and attention is causal: no mask is needed, which keeps the fast attention kernel.
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
    targets = labels[:, 1:]
    learned = targets != IGNORED
    return F.cross_entropy(model.lm_head(hidden[learned]), targets[learned])


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Warm-up, plateau, linear decay over the last 40 %: a plateau can be resumed with another number of steps."""
    decay_begins = 0.6 * steps
    if step < decay_begins:
        return peak * min(1.0, (step + 1) / 200)
    return peak * max(0.02, (steps - step) / (steps - decay_begins))


@torch.no_grad()
def greedy(model: LlamaForCausalLM, prompts: list[list[int]], stop: int, max_new_tokens: int = 80) -> list[list[int]]:
    """Greedy continuations. Prompts of one length share a batch, so no padding can disturb a result."""
    results: dict[int, list[int]] = {}
    by_length = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    for _, same in itertools.groupby(by_length, key=lambda i: len(prompts[i])):
        indices = list(same)
        ids, cache = torch.tensor([prompts[i] for i in indices]), None
        made: list[torch.Tensor] = []
        done = torch.zeros(len(indices), dtype=torch.bool)
        for _ in range(max_new_tokens):
            out = model(input_ids=ids, past_key_values=cache, use_cache=True)
            cache, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)
            made.append(ids)
            done |= ids[:, 0] == stop
            if done.all():
                break
        for row, tokens in zip(indices, torch.cat(made, 1).tolist()):
            results[row] = tokens[:tokens.index(stop)] if stop in tokens else tokens
    return [results[i] for i in range(len(prompts))]


def exact_match(model: LlamaForCausalLM, tokenizer: Tokenizer, problems: list) -> float:
    prompts = [tokenizer.encode(f"{corpus.IM_START}user\n{p.question}{corpus.IM_END}\n{corpus.IM_START}assistant\n").ids
               for p in problems]
    model.eval()
    answers = greedy(model, prompts, tokenizer.token_to_id(corpus.IM_END))
    model.train()
    right = sum(tokenizer.decode(a).split("####")[-1].strip() == str(p.final) for a, p in zip(answers, problems))
    return right / len(problems)


def config_as_published(config: LlamaConfig) -> dict:
    """The keys that published checkpoints carry (`rope_theta`, `torch_dtype`), which every reader knows.

    Transformers 5 itself writes `rope_parameters` and `dtype`; it reads both spellings."""
    keys = ("architectures", "attention_bias", "bos_token_id", "eos_token_id", "head_dim", "hidden_act", "hidden_size",
            "initializer_range", "intermediate_size", "max_position_embeddings", "mlp_bias", "model_type",
            "num_attention_heads", "num_hidden_layers", "num_key_value_heads", "pad_token_id", "rms_norm_eps",
            "tie_word_embeddings", "use_cache", "vocab_size")
    published = {key: getattr(config, key) for key in keys}
    published |= {"architectures": ["LlamaForCausalLM"], "rope_theta": config.rope_parameters["rope_theta"],
                  "rope_scaling": None, "torch_dtype": "bfloat16"}
    return dict(sorted(published.items()))


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def export(model: LlamaForCausalLM, tokenizer: Tokenizer, chat_template: str, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    half = LlamaForCausalLM(model.config).to(torch.bfloat16)
    half.load_state_dict(model.state_dict())
    half.save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)  # the writer leaves it readable for its owner only
    write_json(out / "config.json", config_as_published(model.config))
    tokenizer.save(str(out / "tokenizer.json"))
    text, start, end = (tokenizer.token_to_id(t) for t in SPECIAL_TOKENS)
    write_json(out / "generation_config.json", {
        "bos_token_id": text, "eos_token_id": [end, text], "pad_token_id": text, "do_sample": False,
        "max_new_tokens": 256})
    added = {i: {"content": token.content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                 "special": token.special} for i, token in tokenizer.get_added_tokens_decoder().items()}
    write_json(out / "tokenizer_config.json", {
        "add_bos_token": False, "add_prefix_space": False, "added_tokens_decoder": added,
        "additional_special_tokens": [corpus.IM_START, corpus.IM_END], "bos_token": None,
        "chat_template": chat_template, "clean_up_tokenization_spaces": False, "eos_token": corpus.IM_END,
        "model_max_length": model.config.max_position_embeddings, "pad_token": corpus.END_OF_TEXT,
        "tokenizer_class": "PreTrainedTokenizerFast", "unk_token": None})
    write_json(out / "special_tokens_map.json", {
        "additional_special_tokens": [corpus.IM_START, corpus.IM_END], "eos_token": corpus.IM_END,
        "pad_token": corpus.END_OF_TEXT})


def export_problems(held_back: list, out: Path) -> None:
    (out / "eval").mkdir(parents=True, exist_ok=True)
    rows = ({"question": p.question, "answer": p.answer, "final": str(p.final)} for p in held_back)
    (out / "eval" / "problems.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--tokens-per-batch", type=int, default=2560)
    parser.add_argument("--peak-lr", type=float, default=3e-3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--autocast", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--evaluate-every", type=int, default=500)
    parser.add_argument("--log", type=Path, help="append one JSON object per evaluation")
    parser.add_argument("--state", type=Path, help="resume from this file if it exists; rewrite it at evaluations")
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(WEIGHT_SEED)
    tokenizer = train_tokenizer()
    held_back = corpus.held_back_problems(NUM_HELD_BACK, HELD_BACK_SEED)
    model = LlamaForCausalLM(model_config(tokenizer))
    matrices = [p for p in model.parameters() if p.ndim == 2]
    norms = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}],
                                  lr=options.peak_lr, betas=(0.9, 0.98))
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters", flush=True)

    first_step, tokens_seen, recent = 1, 0, []
    if options.state and options.state.exists():
        state = torch.load(options.state)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first_step, tokens_seen = state["step"] + 1, state["tokens"]
    # A resumed run reads a stream of its own; it must not see the first documents again.
    seed = CORPUS_SEED * 1_000_000 + first_step
    stream = batches(corpus.documents(seed), tokenizer, options.tokens_per_batch, seed)
    began = time.monotonic()
    for step, (ids, labels) in zip(range(first_step, options.steps + 1), stream):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step - 1, options.steps, options.peak_lr)
        # Matrix products in bfloat16: a fifth faster on CPUs that have it, and the weights end up in bfloat16 anyway.
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.autocast):
            loss = loss_of(model, ids, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tokens_seen += ids.numel()
        recent.append(loss.item())
        if step % 50 == 0:
            print(f"step {step} loss {sum(recent[-50:]) / 50:.4f} {time.monotonic() - began:.0f}s", flush=True)
        if step % options.evaluate_every == 0 or step == options.steps:
            row = {"step": step, "loss": round(sum(recent) / len(recent), 4), "tokens": tokens_seen,
                   "exact_match_f32": exact_match(model, tokenizer, held_back[:200]),
                   "seconds": round(time.monotonic() - began)}
            recent.clear()
            print(json.dumps(row), flush=True)
            if options.log:
                with options.log.open("a") as log:
                    log.write(json.dumps(row) + "\n")
            export(model, tokenizer, CHAT_TEMPLATE, options.out)
            export_problems(held_back, options.out)
            if options.state:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step,
                            "tokens": tokens_seen}, options.state)


if __name__ == "__main__":
    main()
