"""Measures the bundled model with Transformers: exact match on the held-back problems, and samples.

    python models/check_reprise_tiny.py models/reprise-tiny [--limit 100] [--transcripts out.jsonl]

The numbers in README.md come from here. An engine that disagrees with these transcripts is wrong, or has
met a near tie: see the margins in the transcript file.
"""

import argparse
import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from train_reprise_tiny import greedy

MAX_NEW_TOKENS = 80
FEW_SHOT = 5


def chat_prompt(question: str, tokenizer) -> str:
    return tokenizer.apply_chat_template([{"role": "user", "content": question}], tokenize=False,
                                         add_generation_prompt=True)


def plain_prompt(question: str) -> str:
    return f"Question: {question}\nAnswer:"


def few_shot_prompt(question: str, examples: list[dict]) -> str:
    shown = "".join(f"Question: {e['question']}\nAnswer: {e['answer']}\n\n" for e in examples)
    return shown + plain_prompt(question)


@torch.inference_mode()
def complete(model, tokenizer, prompt: str, max_new_tokens: int = MAX_NEW_TOKENS) -> tuple[str, list[int], float]:
    """Greedy text, token ids, and the smallest distance between the best and the second-best logit on the way."""
    ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
    cache, made, margin = None, [], float("inf")
    for _ in range(max_new_tokens):
        out = model(input_ids=ids, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        best = out.logits[0, -1].float().topk(2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        made.append(best.indices[0].item())
        if made[-1] in model.generation_config.eos_token_id:
            break
        ids = best.indices[:1].view(1, 1)
    return tokenizer.decode(made, skip_special_tokens=True), made, margin


def write_transcripts(path: Path, model, tokenizer, prompts: list[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for prompt in prompts:
            text, made, margin = complete(model, tokenizer, prompt)
            row = {"prompt": prompt, "text": text, "token_ids": made, "smallest_margin": round(margin, 4)}
            file.write(json.dumps(row) + "\n")


def final_number(text: str) -> str:
    """The number after the first `####`: what follows belongs to a question the model made up."""
    return text.split("####")[1].split("\n")[0].strip() if "####" in text else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, help="only the first so many problems")
    parser.add_argument("--transcripts", type=Path, help="write the f32 chat answers here, one JSON object per line")
    options = parser.parse_args()

    tokenizer = AutoTokenizer.from_pretrained(options.folder)
    rows = [json.loads(line) for line in (options.folder / "eval" / "problems.jsonl").read_text().splitlines()]
    tested = rows[:options.limit]
    prompts = {
        "chat": [chat_prompt(row["question"], tokenizer) for row in tested],
        "plain": [plain_prompt(row["question"]) for row in tested],
        # The rows after a problem serve as its examples, so that no problem sees its own answer.
        f"{FEW_SHOT}-shot": [few_shot_prompt(row["question"], [rows[(i + 1 + k) % len(rows)] for k in range(FEW_SHOT)])
                             for i, row in enumerate(tested)],
    }
    for dtype in (torch.float32, torch.bfloat16):
        model = AutoModelForCausalLM.from_pretrained(options.folder, dtype=dtype).eval()
        for form, texts in prompts.items():
            ids = [tokenizer(text, add_special_tokens=False).input_ids for text in texts]
            stop = tokenizer.convert_tokens_to_ids("<|im_end|>" if form == "chat" else "<|endoftext|>")
            answers = [tokenizer.decode(a) for a in greedy(model, ids, stop, MAX_NEW_TOKENS)]
            right = sum(final_number(answer) == row["final"] for answer, row in zip(answers, tested))
            print(f"{str(dtype):15} {form:7} exact match {right}/{len(tested)} = {right / len(tested):.4f}", flush=True)
        if options.transcripts and dtype == torch.float32:
            write_transcripts(options.transcripts, model, tokenizer, prompts["chat"])
        for prompt in ("Once upon a time", "Once upon a time, there was a little fox named Lily.",
                       chat_prompt("Tell me a short story about a rabbit named Max.", tokenizer),
                       chat_prompt("Who are you?", tokenizer), prompts["chat"][0]):
            print(f"--- {dtype}\n{prompt}>>>{complete(model, tokenizer, prompt, 220)[0]}")


if __name__ == "__main__":
    main()
