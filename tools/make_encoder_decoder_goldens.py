#!/usr/bin/env python3
"""Writes tests/goldens/encoder_decoder/<name>/: a tiny random BART, and what Transformers computes.

    python tools/make_encoder_decoder_goldens.py           # write (needs torch and transformers)
    python tools/make_encoder_decoder_goldens.py --check   # compute again from the committed checkpoints and compare

Each folder is as save_pretrained() writes it, with weights in bfloat16 to keep it small; Transformers then computes in
float32, with eager attention and without a cache:

golden.json         texts of the encoder (token ids), the tokens with which the decoder starts, 32 greedy tokens for each
                    text, and the distance between the best and the second-best logit at each of them
golden.safetensors  text_<i>.logits_f32: [32, vocab_size], of each greedy token
"""

import argparse
import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "encoder_decoder"
VOCAB_SIZE = 96
TEXT_LENGTHS = (1, 2, 15, 16, 17, 40, 63)
NUM_NEW_TOKENS = 32
LEAST_MARGIN = 1e-3
SIZES = dict(vocab_size=VOCAB_SIZE, d_model=32, encoder_attention_heads=4, decoder_attention_heads=4, max_position_embeddings=64,
             bos_token_id=0, pad_token_id=1, eos_token_id=2, forced_eos_token_id=None)
SHAPES = {
    # Like facebook/bart-large-cnn, the start token is the end token. Encoder and decoder differ in their sizes.
    "bart": SIZES | dict(encoder_layers=3, decoder_layers=2, encoder_ffn_dim=48, decoder_ffn_dim=64, decoder_start_token_id=2),
    "bart-scaled": SIZES | dict(encoder_layers=1, decoder_layers=2, encoder_ffn_dim=64, decoder_ffn_dim=48,
                                decoder_start_token_id=2, scale_embedding=True, activation_function="relu"),
}
FORCED_BOS = {"bart": 0}


def write_checkpoint(name: str, out: Path, seed: int) -> None:
    model = transformers.BartForConditionalGeneration(transformers.BartConfig(**SHAPES[name]))
    generator = torch.Generator().manual_seed(seed)
    for key, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if key.endswith("bias"):
            parameter.data = 0.1 * noise
        elif parameter.dim() == 1:  # a norm
            parameter.data = 1 + 0.1 * noise
        else:
            parameter.data = noise * (0.5 if "embed" in key or "shared" in key else 0.3)
    model.tie_weights()
    model.to(torch.bfloat16).save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)
    (out / "model.safetensors").chmod(0o644)
    config = json.loads((out / "config.json").read_text())
    if name in FORCED_BOS:
        config["forced_bos_token_id"] = FORCED_BOS[name]  # where published checkpoints have it
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


@torch.inference_mode()
def compute(name: str, folder: Path) -> tuple[dict, list]:
    model = transformers.BartForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(7)
    start = [SHAPES[name]["decoder_start_token_id"]] + ([FORCED_BOS[name]] if name in FORCED_BOS else [])
    tensors, cases = {}, []
    for i, length in enumerate(TEXT_LENGTHS):
        text = torch.randint(3, VOCAB_SIZE, (1, length), generator=generator)
        tokens, rows, margins = list(start), [], []
        for _ in range(NUM_NEW_TOKENS):
            logits = model(input_ids=text, decoder_input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]
            best = logits.topk(2)
            rows.append(logits.float())
            margins.append(round((best.values[0] - best.values[1]).item(), 6))
            tokens.append(best.indices[0].item())
        tensors[f"text_{i}.logits_f32"] = torch.stack(rows).contiguous()
        cases.append(dict(text=text[0].tolist(), continuation=tokens[len(start):], margins=margins))
    return tensors, cases


def make(name: str, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for seed in range(1, 100):
        write_checkpoint(name, out, seed)
        tensors, cases = compute(name, out)
        has_variety = len({token for case in cases for token in case["continuation"]}) > 8
        if min(min(case["margins"]) for case in cases) > LEAST_MARGIN and has_variety:
            break
    save_file(tensors, out / "golden.safetensors")
    (out / "golden.safetensors").chmod(0o644)
    lines = ",\n    ".join(json.dumps(case) for case in cases)
    (out / "golden.json").write_text(
        f'{{\n  "shape": "{name}",\n  "seed": {seed},\n  "transformers": "{transformers.__version__}",\n  "torch": '
        f'"{torch.__version__}",\n  "cases": [\n    {lines}\n  ]\n}}\n')


def check(name: str) -> None:
    """Another machine rounds differently, so logits are compared with a tolerance and tokens exactly."""
    golden = json.loads((GOLDENS / name / "golden.json").read_text())
    tensors, cases = compute(name, GOLDENS / name)
    for key, tensor in load_file(GOLDENS / name / "golden.safetensors").items():
        torch.testing.assert_close(tensors[key], tensor, rtol=1e-4, atol=1e-4)
    assert [c["continuation"] for c in cases] == [c["continuation"] for c in golden["cases"]], name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SHAPES))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)  # one thread, so that sums are always added in the same order
    for name in options.names or SHAPES:
        check(name) if options.check else make(name, GOLDENS / name)
        print(f"{name}: {'as committed' if options.check else 'written'}", flush=True)


if __name__ == "__main__":
    main()
