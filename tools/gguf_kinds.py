"""What llama.cpp's convert_hf_to_gguf.py makes of each class of models: names, metadata, and the order and values of tensors.

A line of KINDS per class; gguf_changes.py has the changes of order and values.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gguf_changes import (
    Tensor, behind_padding, down_of_shared_expert, experts_of, gate_and_up, halves_of_columns, joined, keys_then_values,
    minus_exp, minus_exp_of_heads, norm_in_groups, nothing, num_kv_heads, plus_one, q_k_v_and_gate, q_then_k_then_v, size,
    stacked_down, stacked_gate_and_up, tiled_columns, tiled_minus_exp, tiled_rows, tiled_rows_behind_keys, times_multipliers,
    transposed, with_one_column, with_one_more_extent, without_channels)

__all__ = ["joined"]
U32, I32, FLOAT, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9

MODEL_NAMES = {
    "model.embed_tokens": "token_embd", "transformer.wte": "token_embd", "transformer.word_embeddings": "token_embd",
    "embed_tokens": "token_embd", "norm": "output_norm",  # without the class of the head
    "gpt_neox.embed_in": "token_embd", "backbone.embeddings": "token_embd",
    "transformer.wpe": "position_embd",
    "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm", "pooler.dense": "pooler",
    "model.norm": "output_norm", "transformer.ln_f": "output_norm", "gpt_neox.final_layer_norm": "output_norm",
    "backbone.norm_f": "output_norm", "model.final_layernorm": "output_norm", "model.embedding_norm": "token_embd_norm",
    "lm_head": "output", "embed_out": "output",
}
LAYER = re.compile(r"(?:(?:model\.)?layers|transformer\.h|gpt_neox\.layers|backbone\.layers|encoder\.layer)\.(\d+)\.(.+)")
LAYER_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "self_attn.qkv_proj": "attn_qkv",
    # Gate and up are rows of one matrix, gate first.
    "mlp.gate_up_proj": "ffn_up",
    # Routers and shared experts.
    "mlp.gate": "ffn_gate_inp", "block_sparse_moe.gate": "ffn_gate_inp", "block_sparse_moe.router.layer": "ffn_gate_inp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}
# Norms of the results of attention and MLP.
RESULT_NORMS = {"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"}
GEMMA_NORMS = RESULT_NORMS | {"pre_feedforward_layernorm": "ffn_norm"}
GPT2_NAMES = {"ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
              "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
GPT_NEOX_NAMES = {
    "input_layernorm": "attn_norm", "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output",
    "post_attention_layernorm": "ffn_norm", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
    # Names of Falcon. Its first norm is that of the MLP if attention has a second norm.
    "self_attention.query_key_value": "attn_qkv", "self_attention.dense": "attn_output", "ln_mlp": "attn_norm",
    "ln_attn": "attn_norm_2",
}
MIXER_NAMES = {"in_proj": "ssm_in", "conv1d": "ssm_conv1d", "x_proj": "ssm_x", "dt_proj": "ssm_dt", "out_proj": "ssm_out",
               "norm": "ssm_norm", "A_log": "ssm_a", "D": "ssm_d", "dt_bias": "ssm_dt.bias"}
MAMBA_NAMES = {"norm": "attn_norm"} | {f"mixer.{part}": name for part, name in MIXER_NAMES.items()}
HYBRID_NAMES = LAYER_NAMES | {f"mamba.{part}": name for part, name in MIXER_NAMES.items()}
FALCON_H1_NAMES = HYBRID_NAMES | {
    "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up", "feed_forward.down_proj": "ffn_down",
    "pre_ff_layernorm.weight": "ffn_norm"}
GRANITE_HYBRID_NAMES = HYBRID_NAMES | {"shared_mlp.input_linear": "ffn_gate_up", "shared_mlp.output_linear": "ffn_down"}
QWEN3_NEXT_NAMES = LAYER_NAMES | {"post_attention_layernorm": "post_attention_norm"} | {
    f"linear_attn.{part}": name for part, name in MIXER_NAMES.items()} | {
    "linear_attn.in_proj_qkvz": "attn_qkvz", "linear_attn.in_proj_ba": "ssm_ba"}
QWEN3_5_NAMES = QWEN3_NEXT_NAMES | {
    "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_a": "ssm_alpha"}
LLAMA4_NAMES = LAYER_NAMES | {
    "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up", "feed_forward.down_proj": "ffn_down",
    "feed_forward.router": "ffn_gate_inp", "feed_forward.experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "feed_forward.experts.down_proj": "ffn_down_exps.weight", "feed_forward.shared_expert.gate_proj": "ffn_gate_shexp",
    "feed_forward.shared_expert.up_proj": "ffn_up_shexp", "feed_forward.shared_expert.down_proj": "ffn_down_shexp"}
BERT_NAMES = {
    "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
LFM2_NAMES = LAYER_NAMES | {
    "operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "self_attn.out_proj": "attn_output",
    "self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm", "feed_forward.w1": "ffn_gate",
    "feed_forward.w3": "ffn_up", "feed_forward.w2": "ffn_down", "conv.conv": "shortconv.conv",
    "conv.in_proj": "shortconv.in_proj", "conv.out_proj": "shortconv.out_proj"}
GPT_OSS_NAMES = LAYER_NAMES | {
    "post_attention_layernorm": "post_attention_norm", "self_attn.sinks": "attn_sinks.weight", "mlp.router": "ffn_gate_inp",
    "mlp.experts.gate_up_proj": "ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj_bias": "ffn_gate_up_exps.bias",
    "mlp.experts.down_proj": "ffn_down_exps.weight", "mlp.experts.down_proj_bias": "ffn_down_exps.bias"}
DEEPSEEK_NAMES = LAYER_NAMES | {
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b", "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.shared_experts.gate_proj": "ffn_gate_shexp", "mlp.shared_experts.up_proj": "ffn_up_shexp",
    "mlp.shared_experts.down_proj": "ffn_down_shexp"}
GLM4_MOE_NAMES = DEEPSEEK_NAMES | {"post_attention_layernorm": "post_attention_norm"}
MINIMAX_NAMES = LAYER_NAMES | {"block_sparse_moe.e_score_correction_bias": "exp_probs_b.bias"}
ERNIE_MOE_NAMES = DEEPSEEK_NAMES | {"mlp.moe_statics.e_score_correction_bias": "exp_probs_b.bias"}
HUNYUAN_NAMES = LAYER_NAMES | {
    "self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm", "mlp.gate.wg": "ffn_gate_inp",
    "mlp.shared_mlp.gate_proj": "ffn_gate_shexp", "mlp.shared_mlp.up_proj": "ffn_up_shexp",
    "mlp.shared_mlp.down_proj": "ffn_down_shexp"}
SPARSE_DEEPSEEK_NAMES = DEEPSEEK_NAMES | {
    "self_attn.indexer.wq_b": "indexer.attn_q_b", "self_attn.indexer.wk": "indexer.attn_k",
    "self_attn.indexer.k_norm": "indexer.k_norm", "self_attn.indexer.weights_proj": "indexer.proj"}
MISTRAL4_NAMES = DEEPSEEK_NAMES | {
    "mlp.experts.gate_up_proj": "ffn_gate_up_exps.weight", "mlp.experts.down_proj": "ffn_down_exps.weight"}
MIMO2_NAMES = DEEPSEEK_NAMES | {"self_attn.attention_sink_bias": "attn_sinks.weight"}
STEP35_NAMES = LAYER_NAMES | {
    "self_attn.g_proj": "attn_gate", "moe.gate": "ffn_gate_inp", "moe.router_bias": "exp_probs_b.bias",
    "moe.gate_proj": "ffn_gate_exps", "moe.up_proj": "ffn_up_exps", "moe.down_proj": "ffn_down_exps",
    "share_expert.gate_proj": "ffn_gate_shexp", "share_expert.up_proj": "ffn_up_shexp",
    "share_expert.down_proj": "ffn_down_shexp"}
KIMI_LINEAR_NAMES = DEEPSEEK_NAMES | {
    "self_attn.q_conv1d": "ssm_conv1d_q", "self_attn.k_conv1d": "ssm_conv1d_k", "self_attn.v_conv1d": "ssm_conv1d_v",
    "self_attn.f_a_proj": "ssm_f_a", "self_attn.f_b_proj": "ssm_f_b", "self_attn.g_a_proj": "ssm_g_a",
    "self_attn.g_b_proj": "ssm_g_b", "self_attn.b_proj": "ssm_beta", "self_attn.A_log": "ssm_a",
    "self_attn.dt_bias": "ssm_dt.bias", "self_attn.o_norm": "ssm_norm",
    "block_sparse_moe.gate.e_score_correction_bias": "exp_probs_b.bias",
    "block_sparse_moe.shared_experts.gate_proj": "ffn_gate_shexp", "block_sparse_moe.shared_experts.up_proj": "ffn_up_shexp",
    "block_sparse_moe.shared_experts.down_proj": "ffn_down_shexp"}
LFM2_MOE_NAMES = LFM2_NAMES | {"feed_forward.gate": "ffn_gate_inp", "feed_forward.expert_bias": "exp_probs_b.bias"}
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


@dataclass(frozen=True)
class Kind:
    name: str
    names: dict = field(default_factory=lambda: LAYER_NAMES)
    permutes: bool = False  # the rows of q and k
    rotates_part: bool = False
    has_layer_norm: bool = False
    has_attention: bool = True
    has_stacked_experts: bool = False  # which `changes` takes apart
    # Each: key, type, and the member of the config or a function of the config. A member that is absent or null gets no
    # key.
    keys: tuple = ()
    changes: tuple = ()  # each: a regular expression for the tensor's name in the file, and a function of the tensor


MULTIPLIERS = (("attention.scale", FLOAT, "attention_multiplier"), ("embedding_scale", FLOAT, "embedding_multiplier"),
               ("residual_scale", FLOAT, "residual_multiplier"), ("logit_scale", FLOAT, "logits_scaling"))
EXPERTS = (("expert_count", U32, experts_of), ("expert_used_count", U32, "num_experts_per_tok"),
           ("expert_feed_forward_length", U32, "moe_intermediate_size"),
           ("expert_shared_feed_forward_length", U32, "shared_expert_intermediate_size"))
MINICPM = (("embedding_scale", FLOAT, "scale_emb"),
           ("residual_scale", FLOAT, lambda config: config["scale_depth"] / math.sqrt(config["num_hidden_layers"])),
           ("logit_scale", FLOAT, lambda config: config["hidden_size"] / config["dim_model_base"]))
WINDOW = (("attention.sliding_window", U32, "sliding_window"),)
WINDOW_LAYERS = (("attention.sliding_window_pattern", ARRAY,
                  lambda config: (BOOL, [kind == "sliding_attention" for kind in config["layer_types"]])),)
CAPS = (("attn_logit_softcapping", FLOAT, "attn_logit_softcapping"),
        ("final_logit_softcapping", FLOAT, "final_logit_softcapping"))
SSM = (("ssm.conv_kernel", U32, lambda config: config.get("conv_kernel") or config["mamba_d_conv"]),
       ("ssm.state_size", U32, lambda config: config.get("state_size") or config["mamba_d_state"]))
NO_ATTENTION = (("attention.head_count", U32, lambda config: 0), ("feed_forward_length", U32, lambda config: 0))
MAMBA = (*NO_ATTENTION, *SSM, ("ssm.inner_size", U32, "intermediate_size"), ("ssm.time_step_rank", U32, "time_step_rank"))


def inner_size(config: dict) -> int:
    heads, of_head = config.get("num_heads") or config["mamba_n_heads"], config.get("mamba_d_head") or config["head_dim"]
    return heads * of_head


MAMBA2 = (*SSM, ("ssm.inner_size", U32, inner_size),
          ("ssm.time_step_rank", U32, lambda config: config.get("num_heads") or config["mamba_n_heads"]),
          ("ssm.group_count", U32, lambda config: config.get("n_groups") or config["mamba_n_groups"]))


def kv_heads_of_layers(config: dict):
    heads = config["num_key_value_heads"]
    return U32, [heads if "attention" in kind and "linear" not in kind else 0 for kind in config["layer_types"]]


def lfm2_mlp_size(config: dict) -> int:
    multiple = config["block_multiple_of"]
    scaled = int(config["block_ffn_dim_multiplier"] * int(2 * config["intermediate_size"] / 3))
    return (scaled + multiple - 1) // multiple * multiple if config["block_auto_adjust_ff_dim"] else config["intermediate_size"]


QWEN3_NEXT = (
    ("ssm.conv_kernel", U32, "linear_conv_kernel_dim"), ("ssm.state_size", U32, "linear_key_head_dim"),
    ("ssm.group_count", U32, "linear_num_key_heads"), ("ssm.time_step_rank", U32, "linear_num_value_heads"),
    ("ssm.inner_size", U32, lambda config: config["linear_value_head_dim"] * config["linear_num_value_heads"]),
    ("full_attention_interval", U32, "full_attention_interval"))
def rotated_sections(config: dict):
    """The parts of a head that positions in images rotate. A text has one position for all; the format asks for them."""
    sections = rope_of(config).get("mrope_section", [11, 11, 10])
    return I32, sections + [0] * (4 - len(sections))


QWEN3_5 = (*QWEN3_NEXT, ("full_attention_interval", U32, lambda config: config.get("full_attention_interval", 4)),
           ("rope.dimension_sections", ARRAY, rotated_sections))
LLAMA4 = (("expert_count", U32, experts_of), ("expert_used_count", U32, "num_experts_per_tok"),
          ("feed_forward_length", U32, "intermediate_size_mlp"), ("expert_feed_forward_length", U32, "intermediate_size"),
          ("interleave_moe_layer_step", U32, "interleave_moe_layer_step"), ("rope.dimension_count", U32, head_dim))
BERT = (("attention.causal", BOOL, lambda config: False),)
ROBERTA = (*BERT, ("context_length", U32, lambda config: config["max_position_embeddings"] - config["pad_token_id"] - 1))
LFM2 = (("shortconv.l_cache", U32, "conv_L_cache"), ("attention.head_count_kv", ARRAY, kv_heads_of_layers),
        ("feed_forward_length", U32, lfm2_mlp_size))
LFM2_MOE = (*LFM2[:2], ("expert_count", U32, experts_of), ("expert_used_count", U32, "num_experts_per_tok"),
            ("expert_feed_forward_length", U32, "moe_intermediate_size"), ("leading_dense_block_count", U32, "num_dense_layers"),
            ("expert_weights_scale", FLOAT, "routed_scaling_factor"), ("expert_gating_func", U32, lambda config: 2))
GRANITE_HYBRID = (("attention.head_count_kv", ARRAY, kv_heads_of_layers),
                  ("rope.scaling.finetuned", BOOL, lambda config: config.get("position_embedding_type") == "rope"),
                  ("expert_shared_feed_forward_length", U32, "shared_intermediate_size"))
GPT_OSS = (*WINDOW, ("expert_count", U32, experts_of), ("expert_used_count", U32, "num_experts_per_tok"),
           ("expert_feed_forward_length", U32, "intermediate_size"))
SOFTMAX_OF_DEEPSEEK = ("DeepseekV2ForCausalLM", "Mistral4ForCausalLM")
DEEPSEEK = (
    ("attention.head_count_kv", U32, lambda config: 1),
    ("attention.q_lora_rank", U32, "q_lora_rank"), ("attention.kv_lora_rank", U32, "kv_lora_rank"),
    ("attention.key_length", U32, lambda config: config["kv_lora_rank"] + config["qk_rope_head_dim"]),
    ("attention.value_length", U32, "kv_lora_rank"),
    ("attention.key_length_mla", U32, lambda config: config["qk_nope_head_dim"] + config["qk_rope_head_dim"]),
    ("attention.value_length_mla", U32, "v_head_dim"), ("rope.dimension_count", U32, "qk_rope_head_dim"),
    ("expert_count", U32, "n_routed_experts"), ("expert_used_count", U32, "num_experts_per_tok"),
    ("expert_feed_forward_length", U32, "moe_intermediate_size"), ("expert_shared_count", U32, "n_shared_experts"),
    ("leading_dense_block_count", U32, "first_k_dense_replace"), ("expert_weights_scale", FLOAT, "routed_scaling_factor"),
    ("expert_weights_norm", BOOL, "norm_topk_prob"), ("expert_group_count", U32, "n_group"),
    ("expert_group_used_count", U32, "topk_group"),
    ("expert_gating_func", U32, lambda config: 1 if config["architectures"][0] in SOFTMAX_OF_DEEPSEEK else 2),
    ("rope.scaling.yarn_log_multiplier", FLOAT, lambda config: rope_of(config).get("mscale_all_dim", 0) / 10 or None))
SIGMOID = ("expert_gating_func", U32, lambda config: 2)
# The keys of models that choose experts like DeepSeek-V3, without the keys of DeepSeek's attention.
EXPERTS_OF_DEEPSEEK = (SIGMOID, *(key for key in DEEPSEEK if key[0].startswith(("expert_", "leading_")) and key[0] != SIGMOID[0]))
SPARSE_DEEPSEEK = (
    *DEEPSEEK, ("attention.indexer.head_count", U32, "index_n_heads"), ("attention.indexer.key_length", U32, "index_head_dim"),
    ("attention.indexer.top_k", U32, "index_topk"),
    ("attention.indexer.types", ARRAY,
     lambda config: (BOOL, [kind == "full" for kind in config["indexer_types"]]) if "indexer_types" in config else None))
# The converter calls members by names that Kimi's configs have for some of them alone.
KIMI_LINEAR = (
    *(key for key in DEEPSEEK if key[0].startswith("attention.") or key[0] == "rope.dimension_count"), SIGMOID,
    ("context_length", U32, "model_max_length"),
    ("attention.head_count_kv", ARRAY,
     lambda config: (U32, [0 if kind == "linear_attention" else 1 for kind in config["layer_types"]])),
    ("ssm.conv_kernel", U32, "linear_conv_kernel_dim"), ("kda.head_dim", U32, "linear_head_dim"),
    ("expert_count", U32, "num_experts"), ("expert_used_count", U32, "num_experts_per_token"),
    ("expert_feed_forward_length", U32, "moe_intermediate_size"), ("expert_shared_count", U32, "num_shared_experts"),
    ("leading_dense_block_count", U32, "first_k_dense_replace"), ("expert_weights_scale", FLOAT, "routed_scaling_factor"),
    ("expert_group_used_count", U32, "topk_group"))


def of_layers(config: dict, in_windows: int, elsewhere: int):
    return U32, [in_windows if kind == "sliding_attention" else elsewhere for kind in config["layer_types"]]


def limits_of_layers(config: dict, member: str):
    return (FLOAT, [limit or 0.0 for limit in config[member]]) if config.get(member) else None


ROPE_IN_WINDOWS = (
    ("rope.freq_base_swa", FLOAT, lambda config: config["rope_parameters"]["sliding_attention"]["rope_theta"]),)
MIMO2 = (
    *WINDOW, *ROPE_IN_WINDOWS, SIGMOID,
    ("attention.sliding_window_pattern", ARRAY, lambda config: (I32, of_layers(config, 1, 0)[1])),
    ("attention.head_count_kv", ARRAY,
     lambda config: of_layers(config, 2 * config["num_key_value_heads"], config["num_key_value_heads"])),
    ("attention.value_length", U32, "v_head_dim"), ("attention.value_scale", FLOAT, "attention_value_scale"),
    ("expert_count", U32, "n_routed_experts"), ("expert_used_count", U32, "num_experts_per_tok"),
    ("expert_feed_forward_length", U32, "moe_intermediate_size"), ("expert_group_count", U32, "n_group"),
    ("expert_group_used_count", U32, "topk_group"))
STEP35 = (
    *WINDOW, *WINDOW_LAYERS, *ROPE_IN_WINDOWS, SIGMOID,
    ("attention.head_count", ARRAY,
     lambda config: of_layers(config, config["num_sliding_attention_heads"], config["num_attention_heads"])),
    ("attention.head_count_kv", ARRAY,
     lambda config: of_layers(config, config["num_key_value_heads"], config["num_key_value_heads"])),
    ("expert_count", U32, "n_routed_experts"), ("expert_used_count", U32, "num_experts_per_tok"),
    ("expert_feed_forward_length", U32, "moe_intermediate_size"),
    ("expert_shared_feed_forward_length", U32, "share_expert_dim"),
    ("expert_weights_scale", FLOAT, "moe_router_scaling_factor"), ("expert_weights_norm", BOOL, lambda config: True),
    ("leading_dense_block_count", U32, lambda config: config["mlp_layer_types"].index("sparse")),
    ("moe_every_n_layers", U32, lambda config: 1),
    ("swiglu_clamp_exp", ARRAY, lambda config: limits_of_layers(config, "swiglu_limits")),
    ("swiglu_clamp_shexp", ARRAY, lambda config: limits_of_layers(config, "swiglu_limits_shared")))
MINIMAX_M2 = (("expert_count", U32, experts_of), ("expert_used_count", U32, "num_experts_per_tok"),
              ("expert_feed_forward_length", U32, "intermediate_size"), SIGMOID)
ERNIE_MOE = (("expert_count", U32, "moe_num_experts"), ("expert_used_count", U32, "moe_k"),
             ("expert_feed_forward_length", U32, "moe_intermediate_size"),
             ("expert_shared_feed_forward_length", U32,
              lambda config: config["moe_num_shared_experts"] * config["moe_intermediate_size"]),
             ("interleave_moe_layer_step", U32, "moe_layer_interval"), ("leading_dense_block_count", U32, "moe_layer_start_index"))
HUNYUAN_MOE = (("expert_count", U32, "num_experts"), ("expert_used_count", U32, "moe_topk"),
               ("expert_feed_forward_length", U32, "intermediate_size"), ("expert_shared_feed_forward_length", U32, "intermediate_size"))


def stretched_base(config: dict) -> float:
    """The base of Hunyuan's frequencies with the factor alpha, which the format has no key for."""
    rope, dim = rope_of(config), head_dim(config)
    return rope["rope_theta"] * rope.get("alpha", 1) ** (dim / (dim - 2))


HUNYUAN = (("rope.freq_base", FLOAT, stretched_base),)
MINISTRAL3 = (("attention.temperature_scale", FLOAT, lambda config: rope_of(config).get("llama_4_scaling_beta")),
              ("rope.scaling.yarn_log_multiplier", FLOAT, lambda config: rope_of(config).get("mscale_all_dim")),
              ("rope.scaling.yarn_beta_fast", FLOAT, lambda config: rope_of(config).get("beta_fast")),
              ("rope.scaling.yarn_beta_slow", FLOAT, lambda config: rope_of(config).get("beta_slow")))
LOGIT_SCALE = (("logit_scale", FLOAT, "logit_scale"),)
QKV_CHANGES = ((r"attn_qkv\.", q_then_k_then_v),)
GPT2_CHANGES = ((r"(attn_qkv|attn_output|ffn_up|ffn_down)\.weight$", transposed),)
CONV = (r"(ssm_conv1d|shortconv\.conv)\.weight$", without_channels)
MAMBA2_CHANGES = (CONV, (r"ssm_a$", minus_exp_of_heads), (r"ssm_d$", with_one_column), (r"ssm_norm\.weight$", norm_in_groups))
FALCON_H1_CHANGES = (*MAMBA2_CHANGES,
                     (r"(token_embd|output|attn_[qkv]|attn_output|ssm_in|ssm_out|ffn_gate|ffn_down)\.weight$", times_multipliers))
GRANITE_HYBRID_CHANGES = (*MAMBA2_CHANGES, (r"ffn_gate_up\.", gate_and_up), (r"ffn_down\.", down_of_shared_expert))
GPT_OSS_CHANGES = ((r"ffn_gate_up_exps", stacked_gate_and_up), (r"ffn_down_exps\.weight$", stacked_down))
QWEN3_NEXT_CHANGES = (CONV, (r"ssm_a$", minus_exp), (r"attn_qkvz", q_k_v_and_gate),
                      (r"(attn|attn_q|attn_k|post_attention|output)_norm\.weight$", plus_one))
QWEN3_5_CHANGES = ((r"(attn_qkv|ssm_conv1d)\.weight$", tiled_rows_behind_keys), (r"ssm_out\.weight$", tiled_columns),
                   (r"attn_gate|ssm_beta|ssm_alpha|ssm_dt\.bias$", tiled_rows), (r"ssm_a$", tiled_minus_exp),
                   QWEN3_NEXT_CHANGES[-1])
LLAMA4_CHANGES = ((r"ffn_gate_up_exps", halves_of_columns), (r"ffn_down_exps\.weight$", stacked_down))
BERT_CHANGES = ((r"^pooler\.", nothing),)
GEMMA_CHANGES = ((r"norm\.weight$", plus_one),)
LATENT_CHANGES = ((r"attn_kv_b\.", keys_then_values),)
KIMI_LINEAR_CHANGES = (*LATENT_CHANGES, (r"ssm_conv1d_", with_one_more_extent), (r"ssm_a$", minus_exp))

KINDS = {
    "LlamaForCausalLM": Kind("llama", permutes=True),
    "MistralForCausalLM": Kind("llama", permutes=True),
    "Ministral3ForCausalLM": Kind("mistral3", permutes=True, keys=MINISTRAL3),
    "MixtralForCausalLM": Kind("llama", permutes=True, keys=EXPERTS),
    "Qwen2ForCausalLM": Kind("qwen2"),
    "Qwen2MoeForCausalLM": Kind("qwen2moe", keys=EXPERTS),
    "Qwen3ForCausalLM": Kind("qwen3"),
    "Qwen3MoeForCausalLM": Kind("qwen3moe", keys=EXPERTS),
    "GraniteForCausalLM": Kind("granite", permutes=True, keys=MULTIPLIERS),
    "GraniteMoeForCausalLM": Kind("granitemoe", permutes=True, keys=MULTIPLIERS + EXPERTS),
    "Olmo2ForCausalLM": Kind("olmo2", LAYER_NAMES | RESULT_NORMS),
    "Olmo3ForCausalLM": Kind("olmo2", LAYER_NAMES | RESULT_NORMS, keys=WINDOW + WINDOW_LAYERS),
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
    "Starcoder2ForCausalLM": Kind("starcoder2", LAYER_NAMES | {"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"},
                                  has_layer_norm=True),
    "GPTBigCodeForCausalLM": Kind("starcoder", GPT2_NAMES, has_layer_norm=True),
    "GPT2LMHeadModel": Kind("gpt2", GPT2_NAMES, has_layer_norm=True, changes=GPT2_CHANGES),
    "GPTNeoXForCausalLM": Kind("gptneox", GPT_NEOX_NAMES, has_layer_norm=True, rotates_part=True, changes=QKV_CHANGES,
                               keys=(("use_parallel_residual", BOOL, "use_parallel_residual"),)),
    "FalconForCausalLM": Kind("falcon", GPT_NEOX_NAMES, has_layer_norm=True, changes=QKV_CHANGES),
    "StableLmForCausalLM": Kind("stablelm", has_layer_norm=True, rotates_part=True),
    "CohereForCausalLM": Kind("command-r", has_layer_norm=True, keys=LOGIT_SCALE),
    "Cohere2ForCausalLM": Kind("cohere2", has_layer_norm=True, keys=LOGIT_SCALE + WINDOW),
    "GlmForCausalLM": Kind("chatglm", rotates_part=True),
    "Glm4ForCausalLM": Kind("glm4", LAYER_NAMES | {"post_self_attn_layernorm": "post_attention_norm",
                                                  "post_mlp_layernorm": "post_ffw_norm"}, rotates_part=True),
    "MambaForCausalLM": Kind("mamba", MAMBA_NAMES, has_attention=False, keys=MAMBA, changes=(CONV, (r"ssm_a$", minus_exp))),
    "Mamba2ForCausalLM": Kind("mamba2", MAMBA_NAMES, has_attention=False, keys=NO_ATTENTION + MAMBA2, changes=MAMBA2_CHANGES),
    "GptOssForCausalLM": Kind("gpt-oss", GPT_OSS_NAMES, has_stacked_experts=True, keys=GPT_OSS, changes=GPT_OSS_CHANGES),
    "DeepseekV2ForCausalLM": Kind("deepseek2", DEEPSEEK_NAMES, keys=DEEPSEEK, changes=LATENT_CHANGES),
    "DeepseekV3ForCausalLM": Kind("deepseek2", DEEPSEEK_NAMES, keys=DEEPSEEK, changes=LATENT_CHANGES),
    "DeepseekV32ForCausalLM": Kind("deepseek32", SPARSE_DEEPSEEK_NAMES, keys=SPARSE_DEEPSEEK, changes=LATENT_CHANGES),
    "GlmMoeDsaForCausalLM": Kind("glm-dsa", SPARSE_DEEPSEEK_NAMES, keys=SPARSE_DEEPSEEK, changes=LATENT_CHANGES),
    # The converter does not write the temperature of queries.
    "Mistral4ForCausalLM": Kind("mistral4", MISTRAL4_NAMES, has_stacked_experts=True, keys=DEEPSEEK, changes=LATENT_CHANGES),
    "KimiLinearForCausalLM": Kind("kimi-linear", KIMI_LINEAR_NAMES, keys=KIMI_LINEAR, changes=KIMI_LINEAR_CHANGES),
    "MiMoV2FlashForCausalLM": Kind("mimo2", MIMO2_NAMES, rotates_part=True, keys=MIMO2),
    "Step3p5ForCausalLM": Kind("step35", STEP35_NAMES, keys=STEP35, changes=GEMMA_CHANGES),
    "Step3p7ForConditionalGeneration": Kind("step35", STEP35_NAMES, keys=STEP35, changes=GEMMA_CHANGES),
    "Glm4MoeForCausalLM": Kind("glm4moe", GLM4_MOE_NAMES, rotates_part=True, keys=EXPERTS_OF_DEEPSEEK),
    "SolarOpenForCausalLM": Kind("glm4moe", GLM4_MOE_NAMES, rotates_part=True, keys=EXPERTS_OF_DEEPSEEK),
    "Dots1ForCausalLM": Kind("dots1", DEEPSEEK_NAMES, keys=EXPERTS_OF_DEEPSEEK),
    "MiniMaxM2ForCausalLM": Kind("minimax-m2", MINIMAX_NAMES, rotates_part=True, keys=MINIMAX_M2),
    "Ernie4_5_MoeForCausalLM": Kind("ernie4_5-moe", ERNIE_MOE_NAMES, keys=ERNIE_MOE),
    "HunYuanDenseV1ForCausalLM": Kind("hunyuan-dense", HUNYUAN_NAMES, keys=HUNYUAN),
    "HunYuanMoEV1ForCausalLM": Kind("hunyuan-moe", HUNYUAN_NAMES, keys=HUNYUAN + HUNYUAN_MOE),
    "Exaone4ForCausalLM": Kind("exaone4", LAYER_NAMES | RESULT_NORMS, keys=WINDOW + WINDOW_LAYERS),
    "Lfm2MoeForCausalLM": Kind("lfm2moe", LFM2_MOE_NAMES, keys=LFM2_MOE, changes=(CONV,)),
    "Lfm2ForCausalLM": Kind("lfm2", LFM2_NAMES, keys=LFM2, changes=(CONV,)),
    "FalconH1ForCausalLM": Kind("falcon-h1", FALCON_H1_NAMES, keys=MAMBA2, changes=FALCON_H1_CHANGES),
    "GraniteMoeHybridForCausalLM": Kind("granitehybrid", GRANITE_HYBRID_NAMES, permutes=True, changes=GRANITE_HYBRID_CHANGES,
                                        keys=MULTIPLIERS + EXPERTS + MAMBA2 + GRANITE_HYBRID),
    "Llama4ForCausalLM": Kind("llama4", LLAMA4_NAMES, has_stacked_experts=True, keys=LLAMA4, changes=LLAMA4_CHANGES),
    "Qwen3_5ForCausalLM": Kind("qwen35", QWEN3_5_NAMES, rotates_part=True, keys=QWEN3_5, changes=QWEN3_5_CHANGES),
    "Qwen3_5MoeForCausalLM": Kind("qwen35moe", QWEN3_5_NAMES, rotates_part=True, keys=EXPERTS + QWEN3_5,
                                  changes=QWEN3_5_CHANGES),
    "BertModel": Kind("bert", BERT_NAMES, has_layer_norm=True, keys=BERT, changes=BERT_CHANGES),
    "RobertaModel": Kind("bert", BERT_NAMES, has_layer_norm=True, keys=ROBERTA,
                         changes=(*BERT_CHANGES, (r"position_embd", behind_padding))),
    "XLMRobertaModel": Kind("bert", BERT_NAMES, has_layer_norm=True, keys=ROBERTA,
                            changes=(*BERT_CHANGES, (r"position_embd", behind_padding))),
    "Qwen3NextForCausalLM": Kind("qwen3next", QWEN3_NEXT_NAMES, rotates_part=True, keys=EXPERTS + QWEN3_NEXT,
                                 changes=QWEN3_NEXT_CHANGES),
}


def text_config(config: dict) -> dict:
    """The config of the language model, with the class of the whole model."""
    text = config.get("text_config", {}) | {"architectures": config["architectures"]}
    return {member: value for member, value in (config | text).items() if member != "text_config"}


def kind_of_model(config: dict) -> Kind:
    return KINDS[config["architectures"][0]]


def gguf_name(name: str, kind: Kind) -> str:
    layer = LAYER.fullmatch(name)
    if layer and layer[2] in kind.names:  # a tensor that is no module
        return f"blk.{layer[1]}.{kind.names[layer[2]]}"
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
    ]
    rope = rope_of(config)
    if kind.has_attention:
        keys += [("attention.head_count", U32, size(config, "num_heads")),
                 ("attention.head_count_kv", U32, num_kv_heads(config)),
                 ("attention.key_length", U32, head_dim(config)),
                 ("attention.value_length", U32, head_dim(config))] + scaling_keys(config)
    if "rope_theta" in rope:
        keys.append(("rope.freq_base", FLOAT, rope["rope_theta"]))
    if kind.rotates_part:
        partial = rope.get("partial_rotary_factor", config.get("partial_rotary_factor", 1))
        keys.append(("rope.dimension_count", U32, int(head_dim(config) * partial)))
    replaced = {}
    for key, key_type, source in kind.keys:
        value = source(config) if callable(source) else config.get(source)
        if value is not None and not (key.startswith("expert_") and not value):
            replaced[key] = (key, key_type, value)
    return [key for key in keys if key[0] not in replaced] + list(replaced.values())
