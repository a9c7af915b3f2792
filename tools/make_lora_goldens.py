#!/usr/bin/env python3
"""Writes tests/goldens/lora/<name>/: PEFT adapters of a committed checkpoint, and what PEFT computes with them.

    python tools/make_lora_goldens.py           # rewrite the committed goldens (needs torch, transformers and peft)
    python tools/make_lora_goldens.py --check   # compute again from the committed adapters and compare

Each adapter folder is as save_pretrained() of PEFT writes it, without the model card. PEFT computes in float32, with eager
attention and without a cache:

golden.json         the base checkpoint; for each adapter and prompt (token ids) 16 greedy tokens, and the distance between
                    the best and the second-best logit at each of them
golden.safetensors  <adapter>.prompt_<i>.logits_f32: [len(prompt), vocab_size], every position
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parent))
from make_goldens import continue_greedily  # noqa: E402 - after the path is set

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "goldens"
PROMPT_LENGTHS = (7, 40)  # shorter than a cache block; several blocks and a part of one
NUM_NEW_TOKENS = 16
LEAST_MARGIN = 1e-3  # if two greedy tokens are nearer than this, two correct programs could choose differently
LLAMA = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

# The base checkpoint, and the adapters by name. All adapters together cover: separate and fused projections, rows that
# the engine reorders (rotation, heads of gpt-neox), weights that are stored transposed (gpt2), adapters of only some
# modules, and rsLoRA.
SHAPES: dict[str, tuple[str, dict[str, dict]]] = {
    "tiny-qwen3": ("tiny-qwen3", {
        "all": dict(r=8, lora_alpha=16, target_modules=LLAMA),
        "rslora": dict(r=4, lora_alpha=3, use_rslora=True, target_modules=["q_proj", "v_proj"]),
        "mlp": dict(r=3, lora_alpha=6, target_modules=["up_proj", "down_proj"])}),
    "phi3": ("architectures/phi3", {
        "all": dict(r=4, lora_alpha=8, target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"])}),
    "gpt2": ("architectures/gpt2", {
        "all": dict(r=4, lora_alpha=8, fan_in_fan_out=True, target_modules=["c_attn", "c_proj", "c_fc"])}),
    "gpt-neox": ("architectures/gpt-neox", {
        "all": dict(r=4, lora_alpha=8,
                    target_modules=["query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"])}),
    "glm": ("architectures/glm", {"all": dict(r=4, lora_alpha=8, target_modules=LLAMA[:4] + ["gate_up_proj", "down_proj"])}),
}


def load_base(name: str):
    base = GOLDENS / SHAPES[name][0]
    return AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager").eval()


def write_adapter(name: str, adapter: str, folder: Path, seed: int) -> None:
    torch.manual_seed(seed)
    # init_lora_weights=False draws B at random, too. By default PEFT starts with B = 0, an adapter without effect.
    config = peft.LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **SHAPES[name][1][adapter])
    model = peft.get_peft_model(load_base(name), config)
    for key, parameter in model.named_parameters():
        if "lora_B" in key:
            parameter.data.mul_(0.5)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    saved = json.loads((folder / "adapter_config.json").read_text())
    saved["base_model_name_or_path"] = SHAPES[name][0]  # not the path on this machine
    (folder / "adapter_config.json").write_text(json.dumps(saved, indent=2, sort_keys=True) + "\n")
    (folder / "adapter_model.safetensors").chmod(0o644)


def prompts(name: str, seed: int) -> list[list[int]]:
    vocab_size = json.loads((GOLDENS / SHAPES[name][0] / "config.json").read_text())["vocab_size"]
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, vocab_size, (length,), generator=generator).tolist() for length in PROMPT_LENGTHS]


@torch.inference_mode()
def compute(name: str, folder: Path, seed: int) -> tuple[dict, list]:
    tensors, cases = {}, []
    for adapter in SHAPES[name][1]:
        model = peft.PeftModel.from_pretrained(load_base(name), folder / adapter).eval()
        for i, prompt in enumerate(prompts(name, seed)):
            logits = model(input_ids=torch.tensor([prompt]), use_cache=False).logits[0]
            tensors[f"{adapter}.prompt_{i}.logits_f32"] = logits.float().clone().contiguous()
            continuation, margins = continue_greedily(model, prompt, NUM_NEW_TOKENS)
            cases.append({"adapter": adapter, "prompt": prompt, "continuation": continuation, "margins": margins})
    return tensors, cases


def make(name: str) -> None:
    out = GOLDENS / "lora" / name
    shutil.rmtree(out, ignore_errors=True)
    for seed in range(1, 100):
        for adapter in SHAPES[name][1]:
            write_adapter(name, adapter, out / adapter, seed)
        tensors, cases = compute(name, out, seed)
        if min(min(case["margins"]) for case in cases) > LEAST_MARGIN:
            break
    save_file(tensors, out / "golden.safetensors")
    (out / "golden.safetensors").chmod(0o644)  # the writer makes the file readable for its owner only
    lines = ",\n    ".join(json.dumps(case) for case in cases)
    (out / "golden.json").write_text(
        f'{{\n  "base": "{SHAPES[name][0]}",\n  "seed": {seed},\n  "peft": "{peft.__version__}",\n  "transformers": '
        f'"{transformers.__version__}",\n  "torch": "{torch.__version__}",\n  "cases": [\n    {lines}\n  ]\n}}\n')


def check(name: str) -> None:
    """Another machine rounds differently, so logits are compared with a tolerance and tokens exactly."""
    out = GOLDENS / "lora" / name
    golden = json.loads((out / "golden.json").read_text())
    tensors, cases = compute(name, out, golden["seed"])
    for key, tensor in load_file(out / "golden.safetensors").items():
        torch.testing.assert_close(tensors[key], tensor, rtol=1e-4, atol=1e-4)
    assert [c["continuation"] for c in cases] == [c["continuation"] for c in golden["cases"]], name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *SHAPES], default=[])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    for name in arguments.names or SHAPES:
        (check if arguments.check else make)(name)
        print(f"{name}: {'agrees' if arguments.check else 'written'}")


if __name__ == "__main__":
    main()
