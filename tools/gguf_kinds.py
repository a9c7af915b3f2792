"""What llama.cpp's convert_hf_to_gguf.py makes of each class of models: names, metadata, and the order and values of tensors.

A line of KINDS per class. Values are float32 in an array.array or a numpy array; both can be cut and joined alike.
"""

import array
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

try:
    import numpy
except ImportError:
    numpy = None

U32, FLOAT, BOOL, STRING = 4, 6, 7, 8

MODEL_NAMES = {
    "model.embed_tokens": "token_embd", "transformer.wte": "token_embd", "transformer.word_embeddings": "token_embd",
    "gpt_neox.embed_in": "token_embd", "backbone.embeddings": "token_embd",
    "transformer.wpe": "position_embd",
    "model.norm": "output_norm", "transformer.ln_f": "output_norm", "gpt_neox.final_layer_norm": "output_norm",
    "backbone.norm_f": "output_norm", "model.final_layernorm": "output_norm",
    "lm_head": "output", "embed_out": "output",
}
LAYER = re.compile(r"(?:model\.layers|transformer\.h|gpt_neox\.layers|backbone\.layers)\.(\d+)\.(.+)")
LAYER_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "self_attn.qkv_proj": "attn_qkv",
    # Gate and up one above the other.
    "mlp.gate_up_proj": "ffn_up",
    # Routers and shared experts.
    "mlp.gate": "ffn_gate_inp", "block_sparse_moe.gate": "ffn_gate_inp", "block_sparse_moe.router.layer": "ffn_gate_inp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}
# Norms that lie behind attention and MLP.
RESULT_NORMS = {"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"}
GEMMA_NORMS = RESULT_NORMS | {"pre_feedforward_layernorm": "ffn_norm"}
# The other names of sizes.
SIZES = {
    "hidden_size": ("hidden_size", "n_embd"), "num_layers": ("num_hidden_layers", "n_layer"),
    "num_heads": ("num_attention_heads", "n_head"), "positions": ("max_position_embeddings", "n_positions"),
    "intermediate_size": ("ffn_hidden_size", "intermediate_size", "n_inner"),
    "epsilon": ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"),
}


def size(config: dict, name: str, default=None):
    return next((config[member] for member in SIZES[name] if config.get(member) is not None), default)


def head_dim(config: dict) -> int:
    return config.get("head_dim") or size(config, "hidden_size") // size(config, "num_heads")


def rope_of(config: dict) -> dict:
    """The parameters of the layers that see everything, in the form of Transformers 5."""
    rope = config.get("rope_parameters") or {}
    rope = dict(rope.get("full_attention", rope))
    if "rope_theta" in config:
        rope.setdefault("rope_theta", config["rope_theta"])
    old = config.get("rope_scaling") or {}
    return rope | old | ({"rope_type": old["type"]} if "type" in old else {})


def num_kv_heads(config: dict) -> int:
    heads = size(config, "num_heads")
    if "multi_query" in config and not config.get("new_decoder_architecture"):
        return 1 if config["multi_query"] else heads
    return config.get("num_kv_heads" if "multi_query" in config else "num_key_value_heads", heads)


def joined(arrays: list):
    if numpy:
        return numpy.concatenate(arrays)
    return array.array("f", b"".join(values.tobytes() for values in arrays))


def mapped(values, function: Callable[[float], float]):
    changed = array.array("f", map(function, values))
    return numpy.frombuffer(changed, "<f4") if numpy else changed


# One tensor of a checkpoint, and the tensors of the file that it becomes: name in the file, shape, values.
Tensor = tuple[str, list[int], object]
Change = Callable[[str, list[int], object, dict], Iterator[Tensor]]


def plus_one(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    yield name, shape, mapped(values, lambda value: value + 1)


def text_key(key: str, value: str):
    return (key, STRING, lambda config: value)


@dataclass(frozen=True)
class Kind:
    name: str
    names: dict = field(default_factory=lambda: LAYER_NAMES)
    permutes: bool = False  # the rows of q and k
    rotates_part: bool = False
    has_layer_norm: bool = False
    # Key, type, and the member of the config or a function of it. A member that is absent or null has no key.
    keys: tuple = ()
    changes: tuple = ()  # of tensors whose name in the file matches: expression, function


def experts_of(config: dict) -> int:
    return config.get("num_local_experts") or config.get("num_experts") or 0


MULTIPLIERS = (("attention.scale", FLOAT, "attention_multiplier"), ("embedding_scale", FLOAT, "embedding_multiplier"),
               ("residual_scale", FLOAT, "residual_multiplier"), ("logit_scale", FLOAT, "logits_scaling"))
EXPERTS = (("expert_count", U32, experts_of), ("expert_used_count", U32, "num_experts_per_tok"),
           ("expert_feed_forward_length", U32, "moe_intermediate_size"),
           ("expert_shared_feed_forward_length", U32, "shared_expert_intermediate_size"))
MINICPM = (("embedding_scale", FLOAT, "scale_emb"),
           ("residual_scale", FLOAT, lambda config: config["scale_depth"] / math.sqrt(config["num_hidden_layers"])),
           ("logit_scale", FLOAT, lambda config: config["hidden_size"] / config["dim_model_base"]))
WINDOW = (("attention.sliding_window", U32, "sliding_window"),)
CAPS = (("attn_logit_softcapping", FLOAT, "attn_logit_softcapping"),
        ("final_logit_softcapping", FLOAT, "final_logit_softcapping"))
GEMMA_CHANGES = ((r"norm\.weight$", plus_one),)

KINDS = {
    "LlamaForCausalLM": Kind("llama", permutes=True),
    "MistralForCausalLM": Kind("llama", permutes=True),
    "MixtralForCausalLM": Kind("llama", permutes=True, keys=EXPERTS),
    "Qwen2ForCausalLM": Kind("qwen2"),
    "Qwen2MoeForCausalLM": Kind("qwen2moe", keys=EXPERTS),
    "Qwen3ForCausalLM": Kind("qwen3"),
    "Qwen3MoeForCausalLM": Kind("qwen3moe", keys=EXPERTS),
    "GraniteForCausalLM": Kind("granite", permutes=True, keys=MULTIPLIERS),
    "GraniteMoeForCausalLM": Kind("granitemoe", permutes=True, keys=MULTIPLIERS + EXPERTS),
    "Olmo2ForCausalLM": Kind("olmo2", LAYER_NAMES | RESULT_NORMS),
    "OlmoeForCausalLM": Kind("olmoe", keys=EXPERTS),
    "Ernie4_5ForCausalLM": Kind("ernie4_5"),
    "MiniCPMForCausalLM": Kind("minicpm", permutes=True, keys=MINICPM),
    "Phi3ForCausalLM": Kind("phi3", rotates_part=True, keys=(
        *WINDOW, ("rope.scaling.original_context_length", U32, "original_max_position_embeddings"))),
    "SeedOssForCausalLM": Kind("seed_oss", LAYER_NAMES | {"post_attention_layernorm": "post_attention_norm"}),
    "SmolLM3ForCausalLM": Kind("smollm3", permutes=True),
    "GemmaForCausalLM": Kind("gemma", changes=GEMMA_CHANGES),
    "Gemma2ForCausalLM": Kind("gemma2", LAYER_NAMES | GEMMA_NORMS, keys=CAPS + WINDOW, changes=GEMMA_CHANGES),
    "Gemma3ForCausalLM": Kind("gemma3", LAYER_NAMES | GEMMA_NORMS, keys=CAPS + WINDOW, changes=GEMMA_CHANGES),
}


def kind_of_model(config: dict) -> Kind:
    return KINDS[config["architectures"][0]]


def gguf_name(name: str, kind: Kind) -> str:
    layer = LAYER.fullmatch(name)
    module, _, leaf = (layer[2] if layer else name).rpartition(".")
    return f"blk.{layer[1]}.{kind.names[module]}.{leaf}" if layer else f"{MODEL_NAMES[module]}.{leaf}"


def in_file(name: str, shape: list[int], values, config: dict) -> Iterator[Tensor]:
    """The tensors of the file that a tensor of the checkpoint becomes."""
    kind = kind_of_model(config)
    stored = gguf_name(name, kind)
    for pattern, change in kind.changes:
        if re.search(pattern, stored):
            yield from change(stored, shape, values, config)
            return
    yield stored, shape, values


def scaling_keys(config: dict) -> list[tuple[str, int, object]]:
    rope = rope_of(config)
    kind = rope.get("rope_type", "default")
    if kind not in ("linear", "yarn"):
        return []
    keys = [("rope.scaling.type", STRING, kind), ("rope.scaling.factor", FLOAT, rope["factor"])]
    if kind == "yarn":
        keys.append(("rope.scaling.original_context_length", U32, rope["original_max_position_embeddings"]))
    return keys


def keys_of_model(config: dict) -> list[tuple[str, int, object]]:
    """Metadata of the architecture, without its name before each key."""
    kind = kind_of_model(config)
    hidden = size(config, "hidden_size")
    keys = [
        ("block_count", U32, size(config, "num_layers")),
        ("context_length", U32, size(config, "positions", 2048)),
        ("embedding_length", U32, hidden),
        ("feed_forward_length", U32, size(config, "intermediate_size", 4 * hidden)),
        ("attention.layer_norm_epsilon" if kind.has_layer_norm else "attention.layer_norm_rms_epsilon", FLOAT,
         size(config, "epsilon")),
        ("attention.head_count", U32, size(config, "num_heads")),
        ("attention.head_count_kv", U32, num_kv_heads(config)),
        ("attention.key_length", U32, head_dim(config)),
        ("attention.value_length", U32, head_dim(config)),
    ]
    rope = rope_of(config)
    if "rope_theta" in rope:
        keys.append(("rope.freq_base", FLOAT, rope["rope_theta"]))
    if kind.rotates_part:
        partial = rope.get("partial_rotary_factor", config.get("partial_rotary_factor", 1))
        keys.append(("rope.dimension_count", U32, int(head_dim(config) * partial)))
    keys += scaling_keys(config)
    replaced = {}
    for key, key_type, source in kind.keys:
        value = source(config) if callable(source) else config.get(source)
        if value is not None:
            replaced[key] = (key, key_type, value)
    return [key for key in keys if key[0] not in replaced] + list(replaced.values())
