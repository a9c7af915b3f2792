#!/usr/bin/env python3
"""Writes tests/goldens/draft_head/<name>/: a tiny random checkpoint with an MTP head, and what the head drafts.

    python tools/make_mtp_goldens.py [NAME ...]   # write these, or all (needs torch and transformers)
    python tools/make_mtp_goldens.py --check      # compute again from the committed checkpoints and compare

The model is that of tests/goldens/architectures/<name>/. Transformers ignores MTP heads, so the head is put together here from the
model's own classes of layers and norms, as section 2.2 of the report on DeepSeek-V3 describes it: a projection of the normed
embedding of the next token and the normed hidden state beside it, a layer with full attention, a norm, and the model's lm_head. The
hidden states are those behind the last norm, of the model and of the head.

drafts.json     for prefixes of greedy texts: the tokens, the next drafts, and the least distance between the best and the
                second-best logit of a draft
"""

import argparse
import copy
import importlib
import json
import sys
import zlib
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parent))
from make_architecture_goldens import load  # noqa: E402 - after the path is set
from make_goldens import continue_greedily  # noqa: E402

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "goldens"
NAMES = ("qwen3-next", "qwen3_5", "qwen3_5-moe")
VOCAB_SIZE = 96
PROMPT_LENGTHS = (2, 16, 40)
PROMPTS_SEED = 1
NUM_NEW_TOKENS = 32
NUM_DRAFTS = 4
EVERY = 4  # prefixes that are this many tokens apart
LEAST_MARGIN = 1e-3


class Head(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        classes = importlib.import_module(type(model).__module__)

        def find(ending):
            return next(getattr(classes, name) for name in dir(classes) if name.endswith(ending) and "Vision" not in name)

        config = copy.deepcopy(model.config)
        config.num_hidden_layers, config.layer_types, config.mlp_only_layers = 1, ["full_attention"], []
        size, norm = config.hidden_size, find("RMSNorm")
        self.fc = torch.nn.Linear(2 * size, size, bias=False)
        self.pre_fc_norm_embedding, self.pre_fc_norm_hidden, self.norm = (norm(size, eps=config.rms_norm_eps) for _ in range(3))
        self.layers = torch.nn.ModuleList([find("DecoderLayer")(config, 0)])
        self.rotary = find("RotaryEmbedding")(config)

    def forward(self, embedded, hidden):
        both = torch.cat([self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(hidden)], dim=-1)[None]
        count = both.shape[1]
        positions = torch.arange(count)[None]
        mask = torch.full((count, count), torch.finfo(torch.float32).min).triu(1)[None, None]
        x = self.fc(both)
        x = self.layers[0](x, position_embeddings=self.rotary(x, positions), attention_mask=mask, position_ids=positions)
        return self.norm(x)[0]


def draw(head, seed):
    """Weights from the seed and their names. The projection leans towards the hidden state, so that some drafts are right."""
    for name, parameter in head.named_parameters():
        generator = torch.Generator().manual_seed(seed * 1_000_003 + zlib.crc32(name.encode()))
        values = torch.randn(parameter.shape, generator=generator) * (0.1 if parameter.dim() == 1 else 0.15)
        if name == "fc.weight":
            size = parameter.shape[0]
            values = values + 0.3 * torch.cat([torch.zeros(size, size), torch.eye(size)], dim=1)
        parameter.data.copy_(values.to(torch.bfloat16))


def published(head, name):
    """The tensors as checkpoints have them: Qwen3-Next has a tensor for each expert."""
    tensors = {}
    for key, tensor in head.state_dict().items():
        key = f"mtp.{key}"
        if key.startswith("mtp.rotary."):
            continue
        if name != "qwen3-next" or ".experts." not in key:
            tensors[key] = tensor
            continue
        module, part = key.split(".experts.")
        for expert, matrix in enumerate(tensor):
            parts = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}[part]
            for to, rows in zip(parts, matrix.chunk(len(parts)), strict=True):
                tensors[f"{module}.experts.{expert}.{to}.weight"] = rows
    return {key: tensor.to(torch.bfloat16).contiguous() for key, tensor in tensors.items()}


@torch.inference_mode()
def texts_of(model):
    """Greedy texts, the length of their prompts, and the hidden states of all tokens."""
    generator = torch.Generator().manual_seed(PROMPTS_SEED)
    texts = []
    for length in PROMPT_LENGTHS:
        prompt = torch.randint(0, VOCAB_SIZE, (length,), generator=generator).tolist()
        text = prompt + continue_greedily(model, prompt, NUM_NEW_TOKENS)[0]
        texts.append((text, length, model.model(input_ids=torch.tensor([text]), use_cache=False).last_hidden_state[0]))
    return texts


@torch.inference_mode()
def drafts_after(model, head, tokens, hidden):
    known, drafts, margin = list(tokens), [], float("inf")
    for _ in range(NUM_DRAFTS):
        embedded = model.get_input_embeddings()(torch.tensor(known[1:]))
        given = head(embedded, hidden)
        best = model.lm_head(given[-1]).topk(2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        drafts.append(best.indices[0].item())
        known.append(drafts[-1])
        hidden = torch.cat([hidden, given[-1:]])
    return drafts, margin


def open_model(name):
    torch.set_num_threads(1)
    model = load(name, GOLDENS / "architectures" / name)
    return model, Head(model).float().eval()


def compute(model, head, texts):
    cases, num_right = [], 0
    for text, length, hidden in texts:
        for end in range(length + 1, len(text), EVERY):
            drafts, margin = drafts_after(model, head, text[:end], hidden[: end - 1])
            num_right += drafts[0] == text[end]
            cases.append({"tokens": text[:end], "drafts": drafts, "margin": round(margin, 5)})
    return cases, num_right


def make(name):
    model, head = open_model(name)
    texts = texts_of(model)
    for seed in range(1, 100):
        draw(head, seed)
        cases, num_right = compute(model, head, texts)
        clear = sum(case["margin"] >= LEAST_MARGIN for case in cases)
        if 2 <= num_right <= len(cases) // 2 and clear > 0.9 * len(cases):
            break
    out = GOLDENS / "draft_head" / name
    out.mkdir(parents=True, exist_ok=True)
    source = GOLDENS / "architectures" / name
    (out / "config.json").write_text((source / "config.json").read_text())
    tensors = load_file(source / "model.safetensors") | published(head, name)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)
    lines = ",\n    ".join(json.dumps(case) for case in cases)
    (out / "drafts.json").write_text(
        f'{{\n  "seed": {seed},\n  "transformers": "{transformers.__version__}",\n  "num_right": {num_right},\n  "cases": [\n    '
        f'{lines}\n  ]\n}}\n')
    print(f"{name}: seed {seed}, {num_right} of {len(cases)} first drafts are right, {clear} are clear")


def check(name):
    """Another machine rounds differently, so only drafts with a clear distance are compared."""
    golden = json.loads((GOLDENS / "draft_head" / name / "drafts.json").read_text())
    model, head = open_model(name)
    draw(head, golden["seed"])
    stored = load_file(GOLDENS / "draft_head" / name / "model.safetensors")
    assert all(torch.equal(stored[key], tensor) for key, tensor in published(head, name).items()), f"{name}: weights differ"
    cases, _ = compute(model, head, texts_of(model))
    for new, old in zip(cases, golden["cases"], strict=True):
        assert new["tokens"] == old["tokens"], name
        assert new["drafts"] == old["drafts"] or old["margin"] < LEAST_MARGIN, name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, help="folders to write; without any: all")
    parser.add_argument("--check", action="store_true", help="compute again from the committed checkpoints and compare")
    args = parser.parse_args()
    for name in args.names:
        (check if args.check else make)(name)


if __name__ == "__main__":
    main()
