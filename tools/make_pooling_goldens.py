#!/usr/bin/env python3
"""Writes tests/goldens/pooling/<name>/: a tiny random model that makes vectors of texts, and the vectors of Transformers.

    python tools/make_pooling_goldens.py [NAME ...]   # write these, or all (needs torch and transformers)
    python tools/make_pooling_goldens.py --check      # compute again from the committed checkpoints and compare

Each folder is laid out as Sentence Transformers publishes it: config.json, model.safetensors (bfloat16), modules.json,
1_Pooling/config.json and the folders of projections. golden.json has texts as token ids, and for each the vector that Transformers computes in float32 with
eager attention, each text alone, pooled and divided by its length.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModel

sys.path.insert(0, str(Path(__file__).resolve().parent))
from make_architecture_goldens import BASE, IDS, PROMPT_LENGTHS, VOCAB_SIZE, draw  # noqa: E402 - after the path is set

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "pooling"
BERT = IDS | dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64,
                  type_vocab_size=2)

ROBERTA = BERT | dict(pad_token_id=1, max_position_embeddings=66)  # two rows are not of positions

MODERN_BERT = IDS | dict(hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, max_position_embeddings=64,
                         local_attention=16, cls_token_id=0, sep_token_id=1)
NOMIC = {key: value for key, value in BERT.items() if key != "hidden_act"} | dict(pad_token_id=0)

# Each: the class of Transformers, the arguments of its config, the pooling, and the name of the class in the published
# config.json.
SHAPES: dict[str, tuple[str, dict, str, str]] = {
    "bert-mean": ("Bert", BERT, "mean", "BertModel"),
    "bert-cls": ("Bert", BERT | dict(hidden_act="gelu_new", type_vocab_size=1), "cls", "BertModel"),
    "roberta-cls": ("Roberta", ROBERTA, "cls", "RobertaModel"),
    "xlm-roberta-mean": ("XLMRoberta", ROBERTA | dict(pad_token_id=3, type_vocab_size=1), "mean", "XLMRobertaModel"),
    "qwen3-last": ("Qwen3", BASE | dict(head_dim=16, tie_word_embeddings=True), "lasttoken", "Qwen3ForCausalLM"),
    "qwen2-last": ("Qwen2", BASE, "lasttoken", "Qwen2Model"),
    "mistral-mean": ("Mistral", BASE | dict(sliding_window=9), "mean", "MistralModel"),
    # A decoder that was trained further with attention in both directions.
    "llama-both-mean": ("Llama", BASE | dict(is_causal=False), "mean", "LlamaModel"),
    "camembert-mean": ("Camembert", ROBERTA, "mean", "CamembertModel"),
    "xlm-roberta-xl-cls": ("XLMRobertaXL", ROBERTA | dict(layer_norm_eps=1e-5), "cls", "XLMRobertaXLModel"),
    "distilbert-mean": ("DistilBert", IDS | dict(dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=64), "mean",
                        "DistilBertModel"),
    # The windows are shorter than the longest text.
    "modernbert-cls": ("ModernBert", MODERN_BERT, "cls", "ModernBertModel"),
    "nomic-mean": ("NomicBert", NOMIC, "mean", "NomicBertModel"),
    "nomic-published-mean": ("NomicBert", NOMIC, "mean", "NomicBertModel"),
    # EmbeddingGemma.
    "gemma3-dense": ("Gemma3Text", BASE | dict(
        head_dim=16, tie_word_embeddings=True, query_pre_attn_scalar=24, sliding_window=12, use_bidirectional_attention=True,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=1e6),
                             sliding_attention=dict(rope_type="default", rope_theta=1e4))), "mean", "Gemma3TextModel"),
}
# Projections after the pooling, each: size, whether it has a bias, activation function.
DENSE = {"gemma3-dense": ((48, True, "activation.Tanh"), (24, False, "linear.Identity"))}
# The names that the first program for Nomic's models gave to the members of its config.
NOMIC_MEMBERS = dict(n_embd="hidden_size", n_inner="intermediate_size", n_layer="num_hidden_layers", n_head="num_attention_heads",
                     n_positions="max_position_embeddings", layer_norm_epsilon="layer_norm_eps", vocab_size="vocab_size",
                     type_vocab_size="type_vocab_size")
MODES = {"mean": "mean_tokens", "cls": "cls_token", "lasttoken": "lasttoken"}


def draw_encoder(model: torch.nn.Module, config) -> None:
    draw(model, config, seed=1)
    if config.model_type == "bert":
        return  # these goldens were made with norms near zero
    for name, parameter in model.named_parameters():
        if name.endswith("LayerNorm.weight"):
            parameter.data += 1


def write_checkpoint(name: str, out: Path) -> None:
    cls, arguments, pooling, architecture = SHAPES[name]
    config = getattr(transformers, cls + "Config")(**arguments)
    model = AutoModel.from_config(config, attn_implementation="eager")
    draw_encoder(model, config)
    model.to(torch.bfloat16).save_pretrained(out)
    path = out / "config.json"
    published = json.loads(path.read_text()) | dict(architectures=[architecture])
    if name == "nomic-published-mean":
        published = {old: published[new] for old, new in NOMIC_MEMBERS.items()} | dict(
            architectures=[architecture], model_type="nomic_bert", activation_function="swiglu", rotary_emb_base=1000,
            rotary_emb_fraction=1.0, rotary_scaling_factor=None, qkv_proj_bias=False, prenorm=False)
    path.write_text(json.dumps(published, indent=2) + "\n")
    (out / "model.safetensors").chmod(0o644)
    dense = write_dense(name, out, config.hidden_size)
    kinds = ("Transformer", ""), ("Pooling", "1_Pooling"), *dense, ("Normalize", f"{2 + len(dense)}_Normalize")
    modules = [dict(idx=i, name=str(i), path=folder, type=f"sentence_transformers.models.{kind}")
               for i, (kind, folder) in enumerate(kinds)]
    (out / "modules.json").write_text(json.dumps(modules, indent=2) + "\n")
    (out / "1_Pooling").mkdir(exist_ok=True)
    modes = {f"pooling_mode_{mode}": mode == MODES[pooling] for mode in ("max_tokens", *MODES.values())}
    (out / "1_Pooling" / "config.json").write_text(
        json.dumps(dict(word_embedding_dimension=config.hidden_size) | modes, indent=2) + "\n")


def write_dense(name: str, out: Path, size: int) -> list[tuple[str, str]]:
    modules = []
    for i, (out_features, bias, function) in enumerate(DENSE.get(name, ())):
        folder = out / f"{2 + i}_Dense"
        folder.mkdir(exist_ok=True)
        generator = torch.Generator().manual_seed(i)
        tensors = {"linear.weight": 0.2 * torch.randn(out_features, size, generator=generator)}
        if bias:
            tensors["linear.bias"] = 0.2 * torch.randn(out_features, generator=generator)
        save_file(tensors, folder / "model.safetensors")
        (folder / "model.safetensors").chmod(0o644)
        (folder / "config.json").write_text(json.dumps(dict(
            in_features=size, out_features=out_features, bias=bias, activation_function=f"torch.nn.modules.{function}"), indent=2) + "\n")
        modules.append(("Dense", folder.name))
        size = out_features
    return modules


def project(name: str, folder: Path, vector: torch.Tensor) -> torch.Tensor:
    """What the modules Dense of Sentence Transformers make of a vector."""
    for i, (_, _, function) in enumerate(DENSE.get(name, ())):
        tensors = load_file(folder / f"{2 + i}_Dense" / "model.safetensors")
        vector = torch.nn.functional.linear(vector, tensors["linear.weight"], tensors.get("linear.bias"))
        vector = vector.tanh() if function == "activation.Tanh" else vector
    return vector


def load(name: str, folder: Path):
    cls = SHAPES[name][0]
    options = dict(dtype=torch.float32, attn_implementation="eager")
    if name == "nomic-published-mean":
        options |= dict(config=transformers.NomicBertConfig(**SHAPES[name][1]))
    return getattr(transformers, cls + "Model").from_pretrained(folder, **options).eval()


@torch.inference_mode()
def compute(name: str, folder: Path) -> list[dict]:
    pooling = SHAPES[name][2]
    model = load(name, folder)
    generator = torch.Generator().manual_seed(1)
    cases = []
    for length in PROMPT_LENGTHS:
        text = torch.randint(0, VOCAB_SIZE, (1, length), generator=generator)
        text[text == model.config.pad_token_id] = VOCAB_SIZE - 1  # Transformers ignores padding tokens in a text
        hidden = model(input_ids=text).last_hidden_state[0]
        vector = {"mean": hidden.mean(0), "cls": hidden[0], "lasttoken": hidden[-1]}[pooling]
        vector = project(name, folder, vector)
        cases.append(dict(text=text[0].tolist(), vector=(vector / vector.norm()).tolist()))
    return cases


def make(name: str, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_checkpoint(name, out)
    lines = ",\n    ".join(json.dumps(case) for case in compute(name, out))
    (out / "golden.json").write_text(
        f'{{\n  "shape": "{name}",\n  "transformers": "{transformers.__version__}",\n  "torch": "{torch.__version__}",\n'
        f'  "cases": [\n    {lines}\n  ]\n}}\n')


def check(name: str) -> None:
    golden = json.loads((GOLDENS / name / "golden.json").read_text())["cases"]
    for case, want in zip(compute(name, GOLDENS / name), golden, strict=True):
        assert case["text"] == want["text"], name
        torch.testing.assert_close(torch.tensor(case["vector"]), torch.tensor(want["vector"]), rtol=1e-4, atol=1e-5)


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
