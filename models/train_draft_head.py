"""Trains an EAGLE-3 head for the bundled model, in the layout of published heads.

    python -m pip install -r models/requirements.txt
    python models/train_draft_head.py --model models/reprise-tiny --out models/reprise-tiny-eagle3

The head reads the bundled model's hidden states before layers 1, 3 and 5, and learns to predict the distribution of the token after
next. As in EAGLE-3, it is also trained on its own hidden states, from which it continues for later drafts. Its lm_head has the 512
tokens that are most frequent in the training text (d2t, t2d); it shares the embedding of the bundled model.
"""

import argparse
import json
import random
import time
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn
from transformers import LlamaForCausalLM

import corpus

AUXILIARY_LAYERS = [1, 3, 5]
DRAFT_VOCAB_SIZE = 512
UNROLLED_STEPS = 4
HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE = 4, 2, 32, 384


class RmsNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotate(x: torch.Tensor, theta: float) -> torch.Tensor:
    """x: [batch, heads, positions, head_dim]"""
    half = x.shape[-1] // 2
    frequencies = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.outer(torch.arange(x.shape[2], dtype=torch.float64), frequencies)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Head(nn.Module):
    """The head in the names of published checkpoints."""

    def __init__(self, hidden: int, eps: float, theta: float) -> None:
        super().__init__()
        self.theta = theta
        linear = lambda outputs, inputs: nn.Linear(inputs, outputs, bias=False)
        self.fc = linear(hidden, hidden * len(AUXILIARY_LAYERS))
        self.norm = RmsNorm(hidden, eps)
        self.lm_head = linear(DRAFT_VOCAB_SIZE, hidden)
        self.midlayer = nn.ModuleDict({
            "input_layernorm": RmsNorm(hidden, eps),
            "hidden_norm": RmsNorm(hidden, eps),
            "post_attention_layernorm": RmsNorm(hidden, eps),
            "self_attn": nn.ModuleDict({
                "q_proj": linear(HEADS * HEAD_DIM, 2 * hidden),
                "k_proj": linear(KV_HEADS * HEAD_DIM, 2 * hidden),
                "v_proj": linear(KV_HEADS * HEAD_DIM, 2 * hidden),
                "o_proj": linear(hidden, HEADS * HEAD_DIM),
            }),
            "mlp": nn.ModuleDict({
                "gate_proj": linear(INTERMEDIATE, hidden),
                "up_proj": linear(INTERMEDIATE, hidden),
                "down_proj": linear(hidden, INTERMEDIATE),
            }),
        })

    def forward(self, embedded: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns logits, and the hidden states from which later steps continue. Both inputs: [batch, positions, hidden]."""
        layer = self.midlayer
        both = torch.cat([layer["input_layernorm"](embedded), layer["hidden_norm"](hidden)], dim=-1)
        attention = layer["self_attn"]
        heads = lambda x, count: x.unflatten(-1, (count, HEAD_DIM)).transpose(1, 2)
        q = rotate(heads(attention["q_proj"](both), HEADS), self.theta)
        k = rotate(heads(attention["k_proj"](both), KV_HEADS), self.theta)
        v = heads(attention["v_proj"](both), KV_HEADS)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        residual = hidden + attention["o_proj"](attended.transpose(1, 2).flatten(2))
        normed = layer["post_attention_layernorm"](residual)
        mlp = layer["mlp"]
        output = residual + mlp["down_proj"](F.silu(mlp["gate_proj"](normed)) * mlp["up_proj"](normed))
        return self.lm_head(self.norm(output)), output


class Target:
    """The bundled model, which is not trained."""

    def __init__(self, path: Path) -> None:
        self.model = LlamaForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        self.embedding = self.model.get_input_embeddings().weight.detach()

    @torch.no_grad()
    def features(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The hidden states that the head reads, and the logits."""
        result = self.model(ids, output_hidden_states=True)
        return torch.cat([result.hidden_states[layer] for layer in AUXILIARY_LAYERS], dim=-1), result.logits


def token_stream(tokenizer: Tokenizer, seed: int):
    for document in corpus.documents(seed):
        yield tokenizer.encode("".join(text for text, _ in document), add_special_tokens=False).ids


def batches(tokenizer: Tokenizer, seed: int, rows: int, length: int):
    stream = (token for ids in token_stream(tokenizer, seed) for token in [*ids, 0])
    while True:
        yield torch.tensor([[next(stream) for _ in range(length)] for _ in range(rows)])


def loss_of(head: Head, target: Target, ids: torch.Tensor, d2t: torch.Tensor) -> tuple[torch.Tensor, list[float]]:
    features, logits = target.features(ids)
    hidden = head.fc(features)[:, :-1]
    embedded = target.embedding[ids[:, 1:]]
    wanted = logits[:, 1:][..., d2t].softmax(-1)
    most_likely = logits[:, 1:].argmax(-1)
    loss, agreement = torch.zeros(()), []
    for step in range(UNROLLED_STEPS):
        given, hidden = head(embedded[:, step:], hidden)
        agreement.append((d2t[given.argmax(-1)] == most_likely[:, step:]).float().mean().item())
        loss = loss - 0.8 ** step * (wanted[:, step:] * given.log_softmax(-1)).sum(-1).mean()
        hidden = hidden[:, :-1]  # row t of the next step continues from row t - 1 of this one
    return loss, agreement


@torch.no_grad()
def draft(head: Head, target: Target, tokens: list[int], d2t: torch.Tensor, count: int) -> tuple[list[int], float]:
    """The drafts after these tokens, and the least distance of a best logit to the second best."""
    ids = torch.tensor([tokens])
    hidden = head.fc(target.features(ids)[0])[:, :-1]
    embedded = target.embedding[ids[:, 1:]]
    drafts, margin = [], float("inf")
    while True:
        logits, outputs = head(embedded, hidden)
        best = logits[0, -1].topk(2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        drafts.append(int(d2t[best.indices[0]]))
        if len(drafts) == count:
            return drafts, margin
        hidden = torch.cat([hidden, outputs[:, -1:]], dim=1)
        embedded = torch.cat([embedded, target.embedding[torch.tensor([[drafts[-1]]])]], dim=1)


def config_of(target: Target) -> dict:
    config = target.model.config
    return {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "draft_vocab_size": DRAFT_VOCAB_SIZE,
        "vocab_size": config.vocab_size, "hidden_size": config.hidden_size, "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM,
        "hidden_act": "silu", "rms_norm_eps": config.rms_norm_eps, "rope_theta": 10000.0,
        "max_position_embeddings": config.max_position_embeddings, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": AUXILIARY_LAYERS, "use_aux_hidden_state": True},
    }


def export(head: Head, target: Target, d2t: torch.Tensor, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().to(torch.bfloat16).contiguous() for name, tensor in head.state_dict().items()}
    tensors["d2t"] = d2t - torch.arange(DRAFT_VOCAB_SIZE)
    tensors["t2d"] = torch.zeros(target.embedding.shape[0], dtype=torch.bool).index_fill(0, d2t, True)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(config_of(target), indent=2) + "\n")


def write_goldens(head: Head, target: Target, d2t: torch.Tensor, path: Path) -> None:
    rounded = {name: tensor.to(torch.bfloat16).float() for name, tensor in head.state_dict().items()}
    head.load_state_dict(rounded)
    cases = []
    for number, ids in zip(range(24), token_stream(target.tokenizer, seed=991), strict=False):
        tokens = ids[: 2 + number * 4]
        drafts, margin = draft(head, target, tokens, d2t, count=5)
        cases.append({"tokens": tokens, "drafts": drafts, "margin": round(margin, 5)})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--goldens", type=Path)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--minutes", type=float, default=8, help="stop earlier if this time is over")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="go on from the head in --out; with --steps 0 only write goldens")
    args = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    torch.set_num_threads(args.threads)
    target = Target(args.model)
    counts: Counter = Counter()
    for _, ids in zip(range(2000), token_stream(target.tokenizer, seed=7), strict=False):
        counts.update(ids)
    for token in range(3):  # the special tokens
        counts[token] += 1 << 40
    d2t = torch.tensor(sorted(token for token, _ in counts.most_common(DRAFT_VOCAB_SIZE)))
    assert len(d2t) == DRAFT_VOCAB_SIZE, "too few different tokens"
    head = Head(target.model.config.hidden_size, target.model.config.rms_norm_eps, 10000.0)
    if args.resume:
        stored = load_file(args.out / "model.safetensors")
        head.load_state_dict({name: stored[name].float() for name in head.state_dict()})
    optimizer = torch.optim.AdamW(head.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.01)
    begin = time.monotonic()
    done = lambda step: max(step / max(args.steps, 1), (time.monotonic() - begin) / (60 * args.minutes))
    for step, ids in enumerate(batches(target.tokenizer, seed=12 if args.resume else 11, rows=12, length=192)):
        if args.steps == 0 or done(step) >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1, (step + 1) / 50) * (1 - done(step))
        loss, agreement = loss_of(head, target, ids, d2t)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            print(f"{step:5d} loss {loss.item():.3f} agreement {[round(a, 3) for a in agreement]} "
                  f"{time.monotonic() - begin:.0f} s", flush=True)
    export(head, target, d2t, args.out)
    if args.goldens:
        write_goldens(head, target, d2t, args.goldens)


if __name__ == "__main__":
    main()
