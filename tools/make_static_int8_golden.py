#!/usr/bin/env python3
"""Writes tests/goldens/quantized/static-int8: a tiny Llama in int8 whose checkpoint has a scale for what each projection
reads, and what PyTorch computes with it.

    tools/make_static_int8_golden.py            # needs torch, transformers and safetensors

The layout is that of compressed-tensors (int-quantized, input_activations of strategy tensor, not dynamic). The model is
Llama's of Transformers with each projection replaced by its definition: codes are x / input_scale, rounded to even and
clamped to int8, and a product is the sum of products of codes times both scales. The scales are so small that the largest
activations are clamped: a model with other scales gives other probabilities.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaForCausalLM

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "goldens"
SOURCE, TARGET = GOLDENS / "tiny-llama", GOLDENS / "quantized" / "static-int8"
NUM_TOKENS = 12
INPUTS = {"num_bits": 8, "type": "int", "strategy": "tensor", "dynamic": False, "symmetric": True}
CONFIG = {
    "quant_method": "compressed-tensors", "format": "int-quantized", "ignore": ["lm_head"],
    "config_groups": {"group_0": {
        "targets": ["Linear"], "input_activations": INPUTS,
        "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "dynamic": False, "symmetric": True}}}}


class StaticInt8(torch.nn.Module):
    def __init__(self, linear: torch.nn.Linear):
        super().__init__()
        scale = linear.weight.abs().amax(1, keepdim=True) / 127
        self.weight = (linear.weight / scale).round().clamp(-128, 127).to(torch.int8)
        self.weight_scale = scale.detach()
        self.input_scale = None
        self.largest = torch.zeros(1)

    def forward(self, x):
        if self.input_scale is None:  # the calibration
            self.largest = torch.maximum(self.largest, x.abs().max())
            return x @ (self.weight.float() * self.weight_scale).T
        codes = (x / self.input_scale).round().clamp(-128, 127)
        return (codes.double() @ self.weight.double().T).float() * self.input_scale * self.weight_scale[:, 0]


def main() -> None:
    torch.manual_seed(7)
    model = LlamaForCausalLM.from_pretrained(SOURCE, dtype=torch.float32, attn_implementation="eager").eval()
    projections = {}
    for name, module in list(model.named_modules()):
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            projections[name] = StaticInt8(module)
            model.set_submodule(name, projections[name])
    prompts = [torch.randint(3, 250, (1, length)) for length in (1, 7, 33)]
    with torch.no_grad():
        for prompt in prompts:
            model(prompt)
        for name, projection in projections.items():
            # q, k and v have the same input, and so have gate and up.
            projection.input_scale = projection.largest * 0.4 / 127
        cases = []
        for prompt in prompts:
            tokens = prompt
            for _ in range(NUM_TOKENS):
                tokens = torch.cat([tokens, model(tokens, use_cache=False).logits[:, -1].argmax(-1, keepdim=True)], 1)
            logprobs = model(tokens, use_cache=False).logits[0].log_softmax(-1)
            following = logprobs[:-1].gather(1, tokens[0, 1:, None])[:, 0]
            best = logprobs.topk(2).values
            cases.append({"prompt": prompt[0].tolist(), "continuation": tokens[0, prompt.shape[1]:].tolist(),
                          "logprobs": [round(float(value), 6) for value in following],
                          "least_gap": round(float((best[:, 0] - best[:, 1])[prompt.shape[1] - 1:-1].min()), 6)})
    tensors = {name: tensor for name, tensor in model.state_dict().items()}
    for name, projection in projections.items():
        for part in ("weight", "weight_scale", "input_scale"):
            tensors[f"{name}.{part}"] = getattr(projection, part)
    TARGET.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, TARGET / "model.safetensors")
    config = json.loads((SOURCE / "config.json").read_text()) | {"quantization_config": CONFIG}
    (TARGET / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (TARGET / "logprobs.json").write_text(json.dumps({"cases": cases}) + "\n")
    print([case["least_gap"] for case in cases], (TARGET / "model.safetensors").stat().st_size)


if __name__ == "__main__":
    main()
