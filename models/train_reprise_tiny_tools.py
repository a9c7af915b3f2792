"""Trains the second bundled model, which calls tools and answers in JSON: tokenizer, weights, chat template.

    python models/train_reprise_tiny_tools.py --out models/reprise-tiny-tools

Deterministic for one machine and one set of package versions (requirements.txt). See README.md for what a run costs and
what it reaches.
"""

import argparse
import itertools
import json
import random
import re
import tempfile
import time
from pathlib import Path

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

import tool_corpus
from tool_words import Words
from train_reprise_tiny import batches, export, greedy, loss_of

VOCAB_SIZE = 2048
SPECIAL_TOKENS = [tool_corpus.END_OF_TEXT, tool_corpus.IM_START, tool_corpus.IM_END]
# Spaces, digits and the punctuation of values stand alone, and a capital begins a word: a value has the same tokens in a
# question as between the quotes of JSON, so that the model can copy it. Only JSON's own punctuation forms longer tokens.
SPLIT = r"\p{Lu}?\p{Ll}+|\p{L}|\p{N}| ?[{}\[\]\":,]+|\s|[^\s\p{L}\p{N}]"
CHAT_TEMPLATE = """\
{%- set system = messages[0].content if messages[0].role == 'system' else '' %}
{%- if tools %}
    {{- '<|im_start|>system\\n' + (system + '\\n' if system else '') + 'Tools:' }}
    {%- for tool in tools %}
        {%- set function = tool.function if tool.function is defined else tool %}
        {{- '\\n- ' }}
        {%- if function.description %}
            {{- function.description.strip().split('\\n')[0][:160] + ': ' }}
        {%- endif %}
        {{- function.name + '(' }}
        {%- if function.parameters and function.parameters.properties %}
            {%- for name, schema in function.parameters.properties.items() %}
                {{- (', ' if not loop.first else '') + name + ': ' }}
                {%- if schema.enum %}
                    {{- schema.enum | join('|') }}
                {%- elif schema.type is string %}
                    {{- schema.type }}
                {%- else %}
                    {{- 'any' }}
                {%- endif %}
            {%- endfor %}
        {%- endif %}
        {{- ')' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- elif system %}
    {{- '<|im_start|>system\\n' + system + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if not (loop.first and message.role == 'system') %}
        {{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
        {%- for call in message.tool_calls or [] %}
            {%- set function = call.function if call.function is defined else call %}
            {{- '<tool_call>{"name": "' + function.name + '", "arguments": ' }}
            {{- function.arguments if function.arguments is string else function.arguments | tojson }}
            {{- '}</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
CORPUS_SEED, TOKENIZER_SEED, HELD_BACK_SEED, WEIGHT_SEED = 11, 12, 13, 14
POOL_SIZE = 1024
CURRICULUM_STEPS = 600  # in which simple documents become rarer


def train_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    added = [*SPECIAL_TOKENS, tool_corpus.CALL, tool_corpus.CALL_END]
    trainer = trainers.BpeTrainer(vocab_size=VOCAB_SIZE, special_tokens=added, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    sample = itertools.islice(tool_corpus.documents(TOKENIZER_SEED), 20_000)
    # Special tokens are cut out, or their letters would be counted as ordinary text.
    special = re.compile("|".join(map(re.escape, added)))
    tokenizer.train_from_iterator((special.sub("\n", text) for document in sample for text, _ in document), trainer)
    # Clients see the marks of calls as text, as in Qwen's tokenizers.
    described = json.loads(tokenizer.to_str())
    for token in described["added_tokens"]:
        token["special"] = token["content"] in SPECIAL_TOKENS
    return Tokenizer.from_str(json.dumps(described))


def model_config(tokenizer: Tokenizer) -> LlamaConfig:
    # Copying needs attention more than it needs wide layers.
    return LlamaConfig(
        vocab_size=VOCAB_SIZE, hidden_size=192, intermediate_size=448, num_hidden_layers=6, num_attention_heads=6,
        num_key_value_heads=3, head_dim=32, max_position_embeddings=2048, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=True,
        initializer_range=0.04, bos_token_id=0, eos_token_id=tokenizer.token_to_id(tool_corpus.IM_END), pad_token_id=0)


def held_back_calls(number: int) -> list[tuple[str, str]]:
    """Prompts with tools that training never shows, and the calls that they ask for."""
    words = Words(random.Random(HELD_BACK_SEED), is_held_back=True)
    pairs = []
    for _ in range(number):
        conversation, task = tool_corpus.tool_conversation(words)
        text = "".join(part for part, _ in tool_corpus.segments(conversation))
        call = tool_corpus.call_text(task.tool["name"], task.arguments)
        pairs.append((text[: text.index(tool_corpus.CALL)], call))
    return pairs


def learning_rate(step: int, options: argparse.Namespace) -> float:
    """Warm-up, plateau, linear decay: a plateau can be resumed with another number of steps."""
    share_left = (options.steps - step) / options.decay_steps
    return options.peak_lr * min(1.0, step / 200, max(0.02, share_left))


def exact_match(model: LlamaForCausalLM, tokenizer: Tokenizer, calls: list[tuple[str, str]]) -> tuple[float, list]:
    model.eval()
    answers = greedy(model, [tokenizer.encode(prompt).ids for prompt, _ in calls], tokenizer.token_to_id(tool_corpus.IM_END))
    model.train()
    texts = [tokenizer.decode(answer) for answer in answers]
    wrong = [(prompt, text, call) for text, (prompt, call) in zip(texts, calls) if text != call]
    return 1 - len(wrong) / len(calls), wrong


def optimizers_of(model: LlamaForCausalLM, peak: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for the embeddings and the norms."""
    hidden = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    chosen = {id(p) for p in hidden}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    return [torch.optim.Muon(hidden, lr=peak, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(rest, lr=peak, weight_decay=0.0, betas=(0.9, 0.98))]


def average_gradients(model: LlamaForCausalLM, processes: int) -> None:
    if processes == 1:
        return
    flat = torch.cat([p.grad.view(-1) for p in model.parameters()])
    torch.distributed.all_reduce(flat)
    flat /= processes
    for p, gradient in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
        p.grad.copy_(gradient.view_as(p))


class Report:
    """What the first process prints, logs and writes at an evaluation."""

    def __init__(self, options: argparse.Namespace, tokenizer: Tokenizer):
        self.options, self.tokenizer, self.calls = options, tokenizer, held_back_calls(50)
        self.began, self.recent = time.monotonic(), []

    def step(self, step: int, loss: float) -> None:
        self.recent.append(loss)
        if step % 50 == 0:
            print(f"step {step} loss {sum(self.recent[-50:]) / 50:.4f} {time.monotonic() - self.began:.0f}s", flush=True)

    def evaluate(self, step: int, model: LlamaForCausalLM, optimizers: list[torch.optim.Optimizer], tokens: int) -> None:
        share, wrong = exact_match(model, self.tokenizer, self.calls)
        row = {"step": step, "loss": round(sum(self.recent) / len(self.recent), 4), "tokens": tokens,
               "exact_calls_f32": round(share, 4), "seconds": round(time.monotonic() - self.began)}
        self.recent.clear()
        print(json.dumps(row), *(f"\n  {text!r}\n  {call!r}" for _, text, call in wrong[:4]), flush=True)
        if self.options.log:
            with self.options.log.open("a") as log:
                log.write(json.dumps(row) + "\n")
        export(model, self.tokenizer, CHAT_TEMPLATE, self.options.out)
        if self.options.state:
            torch.save({"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers], "step": step,
                        "tokens": tokens}, self.options.state)


def train(rank: int, options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(WEIGHT_SEED)
    if options.processes > 1:
        torch.distributed.init_process_group("gloo", init_method=options.meeting, rank=rank, world_size=options.processes)
    is_resumed = bool(options.state and options.state.exists())
    tokenizer = Tokenizer.from_file(str(options.out / "tokenizer.json")) if is_resumed else train_tokenizer()
    model = LlamaForCausalLM(model_config(tokenizer))
    optimizers = optimizers_of(model, options.peak_lr)
    first_step, tokens = 1, 0
    if is_resumed:
        state = torch.load(options.state)
        model.load_state_dict(state["model"])
        for optimizer, kept in zip(optimizers, state["optimizers"]):
            optimizer.load_state_dict(kept)
        first_step, tokens = state["step"] + 1, state["tokens"]
    report = Report(options, tokenizer) if rank == 0 else None
    # Each process, and a resumed run, reads documents of its own.
    seed = CORPUS_SEED * 1_000_000 + 10 * first_step + rank
    done = [first_step / CURRICULUM_STEPS]
    stream = batches(tool_corpus.documents(seed, lambda: done[0]), tokenizer, options.tokens_per_batch, seed, POOL_SIZE)
    for step, (ids, labels) in zip(range(first_step, options.steps + 1), stream):
        done[0] = step / CURRICULUM_STEPS
        for group in itertools.chain(*(optimizer.param_groups for optimizer in optimizers)):
            group["lr"] = learning_rate(step, options)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, ids, labels)
        loss.backward()
        average_gradients(model, options.processes)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        tokens += ids.numel() * options.processes
        if report:
            report.step(step, loss.item())
            if step % options.evaluate_every == 0 or step == options.steps:
                report.evaluate(step, model, optimizers, tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--decay-steps", type=int, default=1200, help="the last so many steps, in which the learning rate falls")
    parser.add_argument("--tokens-per-batch", type=int, default=2048, help="of one process")
    parser.add_argument("--peak-lr", type=float, default=3e-3)
    parser.add_argument("--processes", type=int, default=2, help="of one thread each, which share a machine better than threads")
    parser.add_argument("--evaluate-every", type=int, default=300)
    parser.add_argument("--log", type=Path, help="append one JSON object per evaluation")
    parser.add_argument("--state", type=Path, help="resume from this file if it exists; rewrite it at evaluations")
    options = parser.parse_args()
    if options.processes == 1:
        train(0, options)
        return
    with tempfile.TemporaryDirectory() as folder:
        options.meeting = f"file://{folder}/meeting"
        torch.multiprocessing.spawn(train, (options,), options.processes)


if __name__ == "__main__":
    main()
