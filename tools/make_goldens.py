#!/usr/bin/env python3
"""Writes tests/goldens/<shape>/: a tiny random checkpoint and what Transformers computes with it.

    python tools/make_goldens.py            # rewrite the committed goldens (needs torch and transformers)
    python tools/make_goldens.py --check    # compute again and compare with what is committed

golden.json         prompts (token ids), 16 greedy tokens for each (f32), and the distance between the best and
                    the second-best logit at each of them
golden.safetensors  prompt_<i>.logits_f32, prompt_<i>.logits_bf16: [len(prompt), vocab_size], every position

f32 runs use eager attention; bf16 runs cast the same f32 weights to bf16 and compute in bf16.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parent))
from make_random_checkpoint import SHAPES, write_checkpoint  # noqa: E402 - after the path is set

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "goldens"
TINY = [name for name in SHAPES if name.startswith("tiny-")]
VOCAB_SIZE = 256  # keeps a checkpoint near 300 KB
PROMPT_LENGTHS = (1, 7, 16, 40)  # one token; an odd number; exactly one cache block; several blocks and a part of one
NUM_NEW_TOKENS = 16
SEED = 1234


def prompts() -> list[list[int]]:
    rng = np.random.default_rng(SEED)
    return [rng.integers(0, VOCAB_SIZE, length).tolist() for length in PROMPT_LENGTHS]


@torch.inference_mode()
def continue_greedily(model, prompt: list[int], num_new_tokens: int = NUM_NEW_TOKENS) -> tuple[list[int], list[float]]:
    """Full recomputation at each step, without a cache: the plainest oracle there is."""
    tokens, margins = list(prompt), []
    for _ in range(num_new_tokens):
        best = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1].topk(2)
        margins.append(round((best.values[0] - best.values[1]).item(), 6))
        tokens.append(best.indices[0].item())
    return tokens[len(prompt):], margins


@torch.inference_mode()
def make(shape: str, out: Path) -> None:
    config = SHAPES[shape] | {"vocab_size": VOCAB_SIZE}
    write_checkpoint(config, out, "f32", SEED, with_tokenizer=False)
    tensors, cases = {}, []
    for dtype, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        model = AutoModelForCausalLM.from_pretrained(out, dtype=dtype, attn_implementation="eager").eval()
        for i, prompt in enumerate(prompts()):
            logits = model(input_ids=torch.tensor([prompt]), use_cache=False).logits[0]
            tensors[f"prompt_{i}.logits_{name}"] = logits.clone().contiguous()
            if name == "f32":
                continuation, margins = continue_greedily(model, prompt)
                cases.append({"prompt": prompt, "continuation": continuation, "margins": margins})
    save_file(tensors, out / "golden.safetensors")
    (out / "golden.safetensors").chmod(0o644)  # the writer makes the file readable for its owner only
    lines = ",\n    ".join(json.dumps(case) for case in cases)
    (out / "golden.json").write_text(
        f'{{\n  "shape": "{shape}",\n  "transformers": "{transformers.__version__}",\n  "torch": '
        f'"{torch.__version__}",\n  "cases": [\n    {lines}\n  ]\n}}\n')


def check(shape: str) -> None:
    """Another machine rounds differently, so logits are compared with a tolerance and tokens exactly."""
    with tempfile.TemporaryDirectory() as folder:
        make(shape, Path(folder))
        for name in ("config.json", "model.safetensors"):
            assert (Path(folder) / name).read_bytes() == (GOLDENS / shape / name).read_bytes(), f"{shape}/{name} differs"
        new, old = (load_file(p / "golden.safetensors") for p in (Path(folder), GOLDENS / shape))
        for key, tensor in old.items():
            tolerance = 1e-4 if key.endswith("f32") else 6e-2
            torch.testing.assert_close(new[key].float(), tensor.float(), rtol=tolerance, atol=tolerance)
        new, old = (json.loads((p / "golden.json").read_text()) for p in (Path(folder), GOLDENS / shape))
        assert [c["continuation"] for c in new["cases"]] == [c["continuation"] for c in old["cases"]], shape


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)  # one thread, so that sums are always added in the same order
    for shape in TINY:
        check(shape) if options.check else make(shape, GOLDENS / shape)
        print(f"{shape}: {'as committed' if options.check else 'written'}")


if __name__ == "__main__":
    main()
