#!/usr/bin/env python3
"""Writes tests/goldens/architectures/<name>/: a tiny random checkpoint of each architecture, and what Transformers computes.

    python tools/make_architecture_goldens.py [NAME ...]   # write these, or all (needs torch and transformers)
    python tools/make_architecture_goldens.py --check      # compute again from the committed checkpoints and compare

Each folder is as save_pretrained() writes it, with weights in bfloat16 to keep it small; Transformers then computes in
float32, with eager attention and without a cache:

golden.json         prompts (token ids), 32 or 48 greedy tokens for each, and the distance between the best and the second-best
                    logit at each of them
golden.safetensors  prompt_<i>.logits_f32: [len(prompt), vocab_size], every position
"""

import argparse
import contextlib
import json
import math
import re
import sys
import tempfile
import zlib
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parent))
from make_goldens import continue_greedily  # noqa: E402 - after the path is set

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "architectures"
VOCAB_SIZE = 96  # the vocabulary of the prompts; no class has a smaller vocabulary here
PROMPT_LENGTHS = (1, 7, 16, 40)  # one token; an odd number; exactly one cache block; several blocks and a part of one
NUM_NEW_TOKENS = 32
MORE_NEW_TOKENS = 48  # of families that came later
MORE_TOKENS_OF = ("kimi-linear", "mistral4", "mimo-v2", "step3p7", "deepseek-v3_2", "glm-moe-dsa")  # the beginnings of their names
LEAST_DISTANCE = 2e-5  # the least distance between index scores that decide which position is chosen
LEAST_MARGIN = 1e-3  # if two greedy tokens are nearer than this, two correct programs could choose differently

IDS = dict(vocab_size=VOCAB_SIZE, bos_token_id=0, eos_token_id=1, pad_token_id=None)
BASE = IDS | dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                  max_position_embeddings=256, tie_word_embeddings=False)
PLAIN = {key: value for key, value in BASE.items() if key != "num_key_value_heads"}
WIDE_HEADS = BASE | dict(head_dim=16)
ROPE = dict(rope_type="default", rope_theta=10000.0)
# The first layer is dense, the others have experts.
LATENT = BASE | dict(num_key_value_heads=4, num_hidden_layers=3, kv_lora_rank=24, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10,
                      moe_intermediate_size=20, first_k_dense_replace=1)
EXPERTS = dict(n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1, moe_intermediate_size=20, routed_scaling_factor=1.5,
               norm_topk_prob=True)
SPARSE = dict(index_topk=20, index_head_dim=20, index_n_heads=12)
EXPERT_ROUTING = {key: value for key, value in EXPERTS.items() if key != "n_shared_experts"}
DEEPSEEK_YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32, mscale=0.7, mscale_all_dim=1.0)
LONG = [1.0 + 0.5 * i for i in range(6)]
# Two groups of heads, and fewer states than a block of the convolution. No two sizes are equal, so that no mistake is
# hidden.
MAMBA2 = dict(mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=12, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=8)

FALCON_H1 = dict(mamba_d_ssm=64, embedding_multiplier=5.5, lm_head_multiplier=0.4, key_multiplier=0.7, attention_in_multiplier=1.3,
                 attention_out_multiplier=0.9, ssm_in_multiplier=1.25, ssm_out_multiplier=0.6, mlp_multipliers=[0.8, 1.2],
                 ssm_multipliers=[0.7, 1.4, 0.6, 1.5, 0.5])
GRANITE = dict(embedding_multiplier=6.0, attention_multiplier=0.25, residual_multiplier=0.6, logits_scaling=0.5)
MROPE = ROPE | dict(mrope_section=[1, 1, 2])
# Heads of windowed layers and of full layers differ in size. This also holds for the last layers, which read the keys
# of earlier layers.
GEMMA4 = IDS | dict(vocab_size=97, hidden_size=32, intermediate_size=40, head_dim=16, global_head_dim=24, max_position_embeddings=256,
                    sliding_window=9, final_logit_softcapping=5.0)
GEMMA4_SHARED = GEMMA4 | dict(
    num_hidden_layers=5, num_attention_heads=7, num_key_value_heads=1, head_dim=80, global_head_dim=96, hidden_size_per_layer_input=12,
    vocab_size_per_layer_input=97, num_kv_shared_layers=2, use_double_wide_mlp=True,
    layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"])
NEMOTRON_H = IDS | dict(
    vocab_size=97, hidden_size=32, intermediate_size=40, max_position_embeddings=256, mamba_num_heads=6, mamba_head_dim=8, ssm_state_size=12,
    n_groups=2, conv_kernel=4, chunk_size=8, tie_word_embeddings=False)
NEMOTRON_EXPERTS = dict(n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=20, moe_shared_expert_intermediate_size=28,
                        routed_scaling_factor=2.5, n_group=2, topk_group=1)
DELTA_NET = dict(num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"], linear_conv_kernel_dim=4,
                 linear_key_head_dim=8, linear_value_head_dim=12, linear_num_key_heads=2, linear_num_value_heads=4)

# The class of Transformers, and the arguments of its config. With these sizes every branch of a layer has an effect:
# windows and original positions are shorter than the longest prompt, soft caps change most values, heads share keys.
SHAPES: dict[str, tuple[str, dict]] = {
    "gemma2": ("Gemma2", WIDE_HEADS | dict(tie_word_embeddings=True, query_pre_attn_scalar=24, sliding_window=9,
                                           attn_logit_softcapping=2.0, final_logit_softcapping=5.0)),
    "gemma3": ("Gemma3Text", WIDE_HEADS | dict(
        tie_word_embeddings=True, query_pre_attn_scalar=24, sliding_window=9,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters=dict(full_attention=ROPE | dict(rope_type="linear", factor=4.0, rope_theta=1e6),
                             sliding_attention=ROPE))),
    "phi3": ("Phi3", BASE | dict(sliding_window=11, rope_parameters=ROPE)),
    "phi3-longrope": ("Phi3", BASE | dict(
        num_attention_heads=2, num_key_value_heads=1, original_max_position_embeddings=6,
        rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
                             short_factor=[1.0] * 6, long_factor=LONG, original_max_position_embeddings=6))),
    "llama-yarn": ("Llama", WIDE_HEADS | dict(
        rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32))),
    "llama-linear": ("Llama", BASE | dict(attention_bias=True, mlp_bias=True,
                                          rope_parameters=ROPE | dict(rope_type="linear", factor=2.5))),
    "llama-dynamic": ("Llama", BASE | dict(rope_parameters=ROPE | dict(rope_type="dynamic", factor=2.0))),
    "seed-oss": ("SeedOss", WIDE_HEADS | dict(attention_bias=True, attention_out_bias=True, mlp_bias=True)),
    "ernie4_5": ("Ernie4_5", WIDE_HEADS | dict(rope_parameters=ROPE | dict(rope_theta=500000.0))),
    "gemma": ("Gemma", WIDE_HEADS | dict(tie_word_embeddings=True)),
    "glm": ("Glm", WIDE_HEADS | dict(rope_parameters=ROPE | dict(partial_rotary_factor=0.5))),
    "starcoder2": ("Starcoder2", BASE | dict(sliding_window=10)),
    "cohere": ("Cohere", BASE | dict(logit_scale=0.25, tie_word_embeddings=True)),
    "smollm3": ("SmolLM3", BASE | dict(no_rope_layers=[1, 0], tie_word_embeddings=True)),
    "granite": ("Granite", BASE | GRANITE),
    "minicpm": ("Granite", BASE | dict(tie_word_embeddings=True, embedding_multiplier=6.0, attention_multiplier=8 ** -0.5,
                                       residual_multiplier=1.4 / 2 ** 0.5, logits_scaling=32 / 64)),
    "glm4": ("Glm4", WIDE_HEADS | dict(attention_bias=True, rope_parameters=ROPE | dict(partial_rotary_factor=0.5))),
    "olmo2": ("Olmo2", BASE),
    "olmo3": ("Olmo3", BASE | dict(sliding_window=9, layer_types=["sliding_attention", "full_attention"], rope_parameters=dict(
        sliding_attention=ROPE, full_attention=ROPE | dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)))),
    "cohere-qk-norm": ("Cohere", BASE | dict(logit_scale=0.25, tie_word_embeddings=True, use_qk_norm=True)),
    "cohere2": ("Cohere2", BASE | dict(logit_scale=0.25, tie_word_embeddings=True, sliding_window=9,
                                       layer_types=["sliding_attention", "full_attention"])),
    "gpt-bigcode": ("GPTBigCode", IDS | dict(n_embd=32, n_layer=2, n_head=4, n_positions=256)),
    "gpt-bigcode-multi-head": ("GPTBigCode", IDS | dict(n_embd=32, n_layer=2, n_head=4, n_positions=256, multi_query=False)),
    # From the 21st token of a text on, tokens choose some of the positions. If they chose fewer positions, a program in
    # bfloat16 would have other logits.
    "deepseek-v3_2": ("DeepseekV32", LATENT | EXPERTS | SPARSE | dict(
        q_lora_rank=16, n_group=2, topk_group=1, mlp_layer_types=["dense", "sparse", "sparse"], rope_parameters=ROPE | DEEPSEEK_YARN)),
    "glm-moe-dsa": ("GlmMoeDsa", LATENT | EXPERTS | SPARSE | dict(
        num_attention_heads=14, num_key_value_heads=14, vocab_size=97, q_lora_rank=20, n_group=1, topk_group=1,
        mlp_layer_types=["dense", "sparse", "sparse"], rope_parameters=ROPE)),
    # The factor of queries grows three times before the last token of the longest answer.
    "ministral3": ("Ministral3", WIDE_HEADS | dict(rope_parameters=dict(
        rope_type="yarn", rope_theta=1e6, factor=8.0, original_max_position_embeddings=20, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
        mscale_all_dim=1.0, llama_4_scaling_beta=0.4))),
    "gpt2-inverse-layers": ("GPT2", IDS | dict(n_embd=32, n_layer=3, n_head=4, n_positions=256, scale_attn_by_inverse_layer_idx=True)),
    "gpt2": ("GPT2", IDS | dict(n_embd=32, n_layer=2, n_head=4, n_positions=256)),
    "opt": ("OPT", IDS | dict(hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4,
                              max_position_embeddings=256, word_embed_proj_dim=32, pad_token_id=1)),
    "opt-350m": ("OPT", IDS | dict(hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=256,
                                   word_embed_proj_dim=24, do_layer_norm_before=False, pad_token_id=1)),
    "gpt-neox": ("GPTNeoX", PLAIN | dict(num_attention_heads=2, rope_parameters=ROPE | dict(partial_rotary_factor=0.25))),
    "gpt-neox-sequential": ("GPTNeoX", PLAIN | dict(use_parallel_residual=False, hidden_act="gelu_new",
                                                    rope_parameters=ROPE | dict(partial_rotary_factor=1.0))),
    "falcon-7b": ("Falcon", PLAIN | dict(multi_query=True, parallel_attn=True, bias=False)),
    "falcon-40b": ("Falcon", PLAIN | dict(new_decoder_architecture=True, num_kv_heads=2, bias=False)),
    "falcon-11b": ("Falcon", PLAIN | dict(new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1)),
    "falcon-rw": ("Falcon", PLAIN | dict(multi_query=False, parallel_attn=False, bias=True, alibi=False)),
    # The biases are numbers that bfloat16 rounds: only with up to 8 heads all slopes are powers of two.
    "falcon-rw-alibi": ("Falcon", PLAIN | dict(hidden_size=64, num_attention_heads=16, multi_query=False, parallel_attn=False, bias=True,
                                               alibi=True)),
    "stablelm": ("StableLm", BASE | dict(use_qkv_bias=True, num_attention_heads=2, num_key_value_heads=1,
                                         rope_parameters=ROPE | dict(partial_rotary_factor=0.25))),
    "stablelm-parallel": ("StableLm", BASE | dict(use_parallel_residual=True, num_attention_heads=2, num_key_value_heads=2,
                                                  rope_parameters=ROPE | dict(partial_rotary_factor=0.25))),
    "stablelm-qk-norm": ("StableLm", BASE | dict(use_parallel_residual=True, qk_layernorm=True,
                                                 rope_parameters=ROPE | dict(partial_rotary_factor=0.5))),
    "gpt-oss": ("GptOss", WIDE_HEADS | dict(
        num_local_experts=6, num_experts_per_tok=2, intermediate_size=24, sliding_window=9, swiglu_limit=0.75,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters=dict(rope_type="yarn", rope_theta=150000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                             original_max_position_embeddings=32))),
    "deepseek-v2": ("DeepseekV2", LATENT | dict(
        q_lora_rank=16, n_routed_experts=8, n_group=4, topk_group=2, topk_method="group_limited_greedy", num_experts_per_tok=3,
        n_shared_experts=2, routed_scaling_factor=2.0, rope_parameters=ROPE)),
    "deepseek-v2-lite": ("DeepseekV2", LATENT | dict(
        q_lora_rank=None, n_routed_experts=6, topk_method="greedy", num_experts_per_tok=2, n_shared_experts=1,
        rope_parameters=ROPE | DEEPSEEK_YARN)),
    "deepseek-v3": ("DeepseekV3", LATENT | dict(
        q_lora_rank=16, n_routed_experts=8, n_group=4, topk_group=2, num_experts_per_tok=3, n_shared_experts=1,
        routed_scaling_factor=2.5, num_nextn_predict_layers=0, rope_parameters=ROPE | DEEPSEEK_YARN)),
    "deepseek-v3-scores": ("DeepseekV3", LATENT | dict(
        q_lora_rank=16, n_routed_experts=8, n_group=4, topk_group=2, num_experts_per_tok=3, n_shared_experts=1,
        routed_scaling_factor=2.5, norm_topk_prob=False, num_nextn_predict_layers=0, rope_parameters=ROPE)),
    # The factor of queries grows three times before the last token of the longest answer. There are seven heads, and no
    # size of a head is a power of two.
    "mistral4": ("Mistral4", LATENT | dict(
        num_attention_heads=7, num_key_value_heads=7, vocab_size=97, q_lora_rank=20, n_routed_experts=8, num_experts_per_tok=3,
        n_shared_experts=1, rope_parameters=dict(
            rope_type="yarn", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=20, beta_fast=32.0, beta_slow=1.0,
            mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.4))),
    "mistral4-scaled-experts": ("Mistral4", LATENT | dict(
        q_lora_rank=None, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=2, first_k_dense_replace=0, routed_scaling_factor=1.7,
        rope_interleave=False, rope_parameters=ROPE | DEEPSEEK_YARN | dict(llama_4_scaling_beta=0.0))),
    # The longest prompt has five chunks; the last layer has no rotation, and the second one no experts.
    "llama4": ("Llama4Text", WIDE_HEADS | dict(
        num_hidden_layers=4, num_local_experts=4, num_experts_per_tok=1, intermediate_size=24, intermediate_size_mlp=48,
        moe_layers=[0, 2, 3], attention_chunk_size=9, floor_scale=5, attn_scale=0.4, rope_parameters=ROPE)),
    "llama4-two-experts": ("Llama4Text", WIDE_HEADS | dict(
        num_local_experts=4, num_experts_per_tok=2, intermediate_size=24, intermediate_size_mlp=48, moe_layers=[0, 1],
        attention_chunk_size=9, floor_scale=5, attn_scale=0.4, rope_parameters=ROPE)),
    "mixtral": ("Mixtral", BASE | dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=24, sliding_window=13)),
    "qwen2-moe": ("Qwen2Moe", BASE | dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20,
                                          shared_expert_intermediate_size=36, decoder_sparse_step=1, mlp_only_layers=[])),
    "olmoe": ("Olmoe", BASE | dict(num_experts=6, num_experts_per_tok=3, intermediate_size=20)),
    "olmoe-clip": ("Olmoe", BASE | dict(num_experts=6, num_experts_per_tok=3, intermediate_size=20, clip_qkv=0.75)),
    "mamba": ("Mamba", IDS | dict(hidden_size=32, num_hidden_layers=2, expand=2, state_size=6, conv_kernel=4, time_step_rank=5)),
    "mamba2": ("Mamba2", IDS | dict(hidden_size=32, num_hidden_layers=2, expand=2, num_heads=4, head_dim=16, state_size=12, n_groups=2,
                                    conv_kernel=4, chunk_size=8)),
    "bamba": ("Bamba", BASE | MAMBA2 | dict(num_hidden_layers=3, attn_layer_indices=[1])),
    "falcon-h1": ("FalconH1", BASE | MAMBA2 | FALCON_H1),
    "falcon-h1-norm": ("FalconH1", BASE | MAMBA2 | FALCON_H1 | dict(mamba_rms_norm=True, mamba_norm_before_gate=False)),
    "falcon-h1-norm-first": ("FalconH1", BASE | MAMBA2 | FALCON_H1 | dict(mamba_rms_norm=True, mamba_norm_before_gate=True)),
    "granite-moe-hybrid": ("GraniteMoeHybrid", BASE | MAMBA2 | GRANITE | dict(
        num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"], shared_intermediate_size=48,
        num_local_experts=0, num_experts_per_tok=0, position_embedding_type="nope", tie_word_embeddings=True)),
    "qwen3-next": ("Qwen3Next", WIDE_HEADS | DELTA_NET | dict(
        num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20, shared_expert_intermediate_size=36, decoder_sparse_step=1, mlp_only_layers=[1],
        norm_topk_prob=True, rope_parameters=ROPE | dict(partial_rotary_factor=0.5))),
    "qwen3_5": ("Qwen3_5Text", WIDE_HEADS | DELTA_NET | dict(rope_parameters=ROPE | dict(partial_rotary_factor=0.5))),
    # The config asks to rotate five of 16 elements; the class rotates six.
    "qwen3_5-odd-rotation": ("Qwen3_5Text", WIDE_HEADS | DELTA_NET | dict(rope_parameters=ROPE | dict(partial_rotary_factor=0.35))),
    "qwen3_5-moe": ("Qwen3_5MoeText", WIDE_HEADS | DELTA_NET | dict(
        num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20, shared_expert_intermediate_size=36,
        rope_parameters=ROPE | dict(partial_rotary_factor=0.5))),
    "granite-moe": ("GraniteMoe", BASE | GRANITE | dict(num_local_experts=6, num_experts_per_tok=2, intermediate_size=20)),
    "granite-moe-hybrid-experts": ("GraniteMoeHybrid", BASE | MAMBA2 | GRANITE | dict(
        num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"], shared_intermediate_size=48,
        num_local_experts=6, num_experts_per_tok=2, intermediate_size=20, position_embedding_type="nope",
        tie_word_embeddings=True)),
    "lfm2": ("Lfm2", BASE | dict(num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], conv_L_cache=3, conv_bias=True,
                                 block_multiple_of=8, tie_word_embeddings=True)),
    "gemma4": ("Gemma4Text", GEMMA4_SHARED),
    "gemma4-experts": ("Gemma4Text", GEMMA4 | dict(
        num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, num_global_key_value_heads=1, attention_k_eq_v=True,
        hidden_size_per_layer_input=0, layer_types=["sliding_attention", "sliding_attention", "full_attention"], enable_moe_block=True,
        num_experts=6, top_k_experts=2, moe_intermediate_size=20)),
    "gemma4-unified": ("Gemma4UnifiedText", GEMMA4 | dict(
        num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        layer_types=["sliding_attention", "full_attention", "full_attention"])),
    "nemotron-h": ("NemotronH", NEMOTRON_H | dict(
        layers_block_type=["linear_attention", "mlp", "full_attention", "mlp", "linear_attention"], num_attention_heads=7,
        num_key_value_heads=1, head_dim=80, mlp_bias=True, use_bias=True, mamba_proj_bias=True)),
    "nemotron-h-experts": ("NemotronH", NEMOTRON_H | NEMOTRON_EXPERTS | dict(
        layers_block_type=["linear_attention", "moe", "full_attention", "moe"], num_attention_heads=4, num_key_value_heads=2, head_dim=16)),
    "nemotron-h-latent": ("NemotronH", NEMOTRON_H | NEMOTRON_EXPERTS | dict(
        layers_block_type=["moe", "full_attention", "linear_attention", "moe"], num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        moe_latent_size=24)),
    # The language models of classes that also read images. The prompts are texts.
    "qwen2_5-vl": ("Qwen2_5_VL", dict(text_config=BASE | dict(rope_parameters=MROPE), vision_config=dict(
        depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32))),
    "gemma3-vl": ("Gemma3", dict(
        text_config=WIDE_HEADS | dict(query_pre_attn_scalar=24, sliding_window=9, num_hidden_layers=2, tie_word_embeddings=True,
                                      layer_types=["sliding_attention", "full_attention"],
                                      rope_parameters=dict(full_attention=ROPE, sliding_attention=ROPE)),
        vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28))),
    "gemma4-vl": ("Gemma4", dict(
        text_config=GEMMA4 | dict(
            num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size_per_layer_input=12, vocab_size_per_layer_input=97,
            layer_types=["sliding_attention", "full_attention"], pad_token_id=0),
        vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
                           head_dim=8, position_embedding_size=16),
        image_token_id=200, video_token_id=201, audio_token_id=202, boi_token_id=203, eoi_token_id=204, boa_token_id=205, eoa_token_index=206)),
    # Every second layer has experts, as in Maverick.
    "llama4-vl": ("Llama4", dict(
        text_config=WIDE_HEADS | dict(
            num_hidden_layers=4, num_local_experts=4, num_experts_per_tok=1, intermediate_size=24, intermediate_size_mlp=48,
            interleave_moe_layer_step=2, attention_chunk_size=9, floor_scale=5, attn_scale=0.4, rope_parameters=ROPE),
        vision_config=dict(hidden_size=16, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14,
                           vision_output_dim=16, projector_input_dim=16, projector_output_dim=16))),
    # A sigmoid or a softmax, with a bias, chooses the experts. The first layer is dense if the class has such layers.
    "glm4-moe": ("Glm4Moe", WIDE_HEADS | EXPERTS | dict(
        num_hidden_layers=3, attention_bias=True, use_qk_norm=True, n_group=2, topk_group=1, first_k_dense_replace=1,
        rope_parameters=ROPE | dict(partial_rotary_factor=0.5), num_mtp_layers=0)),
    "glm4-moe-lite": ("Glm4MoeLite", LATENT | EXPERTS | dict(
        q_lora_rank=16, n_group=1, topk_group=1, mlp_layer_types=["dense", "sparse", "sparse"], rope_parameters=ROPE)),
    "solar-open": ("SolarOpen", WIDE_HEADS | EXPERTS | dict(n_group=2, topk_group=2, rope_parameters=ROPE)),
    "dots1": ("Dots1", WIDE_HEADS | EXPERTS | dict(
        num_hidden_layers=3, first_k_dense_replace=1, sliding_window=9, max_window_layers=2, rope_parameters=ROPE)),
    # No two sizes of heads are equal; the latent attention has no rotation.
    "kimi-linear": ("KimiLinear", dict(
        vocab_size=97, bos_token_id=0, eos_token_id=1, pad_token_id=None, hidden_size=32, intermediate_size=48, moe_intermediate_size=20,
        num_hidden_layers=4, num_attention_heads=7, num_key_value_heads=7, num_experts=8, num_experts_per_token=3, num_shared_experts=1,
        num_expert_group=2, topk_group=1, routed_scaling_factor=1.5, kv_lora_rank=24, qk_nope_head_dim=12, qk_rope_head_dim=8,
        v_head_dim=10, model_max_length=256, first_k_dense_replace=1, linear_attn_config=dict(
            head_dim=12, num_heads=5, short_conv_kernel_size=4, kda_layers=[1, 3, 4], full_attn_layers=[2]))),
    # Layers without a window have three heads for each key/value head, layers with a window have five. Some layers
    # limit the values of their experts, of their shared expert or MLP, or of both.
    "step3p7": ("Step3p7", dict(
        text_config=dict(
            vocab_size=97, bos_token_id=0, eos_token_id=1, pad_token_id=0, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
            num_attention_heads=6, num_sliding_attention_heads=10, num_key_value_heads=2, head_dim=16, max_position_embeddings=256,
            sliding_window=9, layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
            mlp_layer_types=["dense", "sparse", "sparse", "sparse"], n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=20,
            share_expert_dim=28, moe_router_scaling_factor=1.7, query_pre_attn_scalar=24, swiglu_limits=[None, 0.3, 0.0, 0.1],
            swiglu_limits_shared=[0.2, None, 0.4, 0.0], rope_parameters=dict(
                full_attention=dict(rope_type="llama3", rope_theta=1e6, partial_rotary_factor=0.5, factor=2.0, low_freq_factor=1.0,
                                    high_freq_factor=4.0, original_max_position_embeddings=16),
                sliding_attention=ROPE | dict(partial_rotary_factor=1.0))),
        vision_config=dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, mlp_ratio=1.0,
                           max_position_embeddings=4),
        image_token_id=200)),
    # In full layers seven heads share one key/value head. The second layer is dense; the last layer has no window, like
    # the first.
    "mimo-v2": ("MiMoV2Flash", BASE | EXPERT_ROUTING | dict(
        num_hidden_layers=4, vocab_size=97, num_attention_heads=14, num_key_value_heads=1, head_dim=96, v_head_dim=80, sliding_window=9,
        attention_value_scale=0.6, layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        mlp_layer_types=["sparse", "dense", "sparse", "sparse"], rope_parameters=dict(
            full_attention=ROPE | dict(rope_theta=1e6, partial_rotary_factor=0.334),
            sliding_attention=ROPE | dict(partial_rotary_factor=0.25)))),
    # The config asks to rotate five of 16 elements; the class rotates six. Values are as wide as keys.
    "mimo-v2-odd-rotation": ("MiMoV2Flash", WIDE_HEADS | EXPERT_ROUTING | dict(
        num_hidden_layers=3, num_key_value_heads=2, v_head_dim=16, sliding_window=9, attention_bias=True,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"], rope_parameters=dict(
            full_attention=ROPE | dict(partial_rotary_factor=0.334), sliding_attention=ROPE | dict(partial_rotary_factor=0.334)))),
    "minimax-m2": ("MiniMaxM2", WIDE_HEADS | dict(
        num_local_experts=6, num_experts_per_tok=3, intermediate_size=20, rope_parameters=ROPE | dict(partial_rotary_factor=0.5))),
    "ernie4_5-moe": ("Ernie4_5_Moe", WIDE_HEADS | dict(
        num_hidden_layers=3, moe_num_experts=6, moe_k=3, moe_intermediate_size=20, moe_num_shared_experts=2, moe_layer_start_index=1,
        moe_layer_end_index=-1, rope_parameters=ROPE | dict(rope_theta=500000.0))),
    "hunyuan": ("HunYuanDenseV1", WIDE_HEADS | dict(
        attention_bias=True, rope_parameters=ROPE | dict(rope_type="dynamic", alpha=7.5, factor=1.0))),
    "hunyuan-moe": ("HunYuanMoEV1", WIDE_HEADS | dict(
        num_experts=6, moe_topk=2, intermediate_size=20, rope_parameters=ROPE | dict(rope_type="dynamic", alpha=7.5, factor=1.0))),
    "lfm2-moe": ("Lfm2Moe", BASE | dict(
        num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], conv_L_cache=3, num_dense_layers=1, num_experts=6,
        num_experts_per_tok=2, moe_intermediate_size=20, routed_scaling_factor=1.5, tie_word_embeddings=True)),
    "exaone4": ("Exaone4", WIDE_HEADS | dict(
        num_hidden_layers=3, sliding_window=9, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters=ROPE)),
    "qwen3-moe": ("Qwen3Moe", WIDE_HEADS | dict(num_experts=5, num_experts_per_tok=3, moe_intermediate_size=20,
                                                num_hidden_layers=3, mlp_only_layers=[1], norm_topk_prob=True)),
}


def draw(model: torch.nn.Module, config, seed: int) -> None:
    """Weights from the seed and their own names. Norms lie near one and biases are not zero, so that a program that ignores
    them is caught."""
    is_gemma = "gemma" in config.model_type and "gemma4" not in config.model_type
    counts_from_one = is_gemma or config.model_type in ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "step3p7")
    biases = [item for item in model.named_buffers() if item[0].endswith(("e_score_correction_bias", "expert_bias", "layer_scalar"))]
    for name, parameter in [*model.named_parameters(), *biases]:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + zlib.crc32(name.encode()))
        values = torch.randn(parameter.shape, generator=generator)
        is_norm = ("norm" in name or ".ln_" in name) and name.endswith("weight")
        if is_norm:
            # In every class, the gated norm after a delta net multiplies by its weight alone, not by 1 + weight.
            is_offset = counts_from_one and "linear_attn" not in name
            values = 0.1 * values if is_offset else 1.0 + 0.1 * values
            if "gemma4" in config.model_type and name.endswith(("q_norm.weight", "k_norm.weight")):
                # These scores are not scaled: with larger ones each softmax would choose one token.
                values = 0.4 * values
        elif name.endswith(("layer_scalar", "router.scale", "per_expert_scale")):
            values = 1.0 + 0.2 * values
        elif parameter.dim() == 1:
            values = 0.1 * values
        else:
            is_embedding = any(part in name for part in ("embed", "wte", "wpe", "lm_head"))
            values = values * (0.15 if is_embedding else 0.25)
        parameter.data.copy_(values.to(torch.bfloat16))


def model_class(name: str):
    cls, arguments = SHAPES[name]
    if "text_config" in arguments:
        return getattr(transformers, cls + "ForConditionalGeneration")
    if cls == "Mistral4":  # AutoModel finds this class only as a part of Mistral 3
        return transformers.Mistral4ForCausalLM
    return transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING[getattr(transformers, cls + "Config")]


def write_checkpoint(name: str, out: Path, seed: int) -> None:
    cls, arguments = SHAPES[name]
    config = getattr(transformers, cls + "Config")(**arguments)
    model = model_class(name)._from_config(config, attn_implementation="eager")
    draw(model, config, seed)
    model.to(torch.bfloat16).save_pretrained(out)
    for extra in ("generation_config.json",):
        (out / extra).unlink(missing_ok=True)


def publish_minicpm(out: Path) -> None:
    """Transformers has no class for MiniCPM, whose layers are those of Granite under other names."""
    config = json.loads((out / "config.json").read_text())
    for key in ("embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"):
        del config[key]
    config |= dict(architectures=["MiniCPMForCausalLM"], model_type="minicpm", scale_emb=6.0, scale_depth=1.4, dim_model_base=64)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def publish_kimi(out: Path) -> None:
    """The first layer has an MLP, which Transformers writes under the name of experts. It reads both names."""
    tensors = load_file(out / "model.safetensors")
    mlp = re.compile(r"\.block_sparse_moe\.((gate|up|down)_proj\.weight)$")
    save_file({mlp.sub(r".mlp.\1", name): tensor for name, tensor in tensors.items()}, out / "model.safetensors",
              metadata={"format": "pt"})


def load(name: str, folder: Path):
    if name != "minicpm":
        # The eager attention of Falcon adds its biases twice: once directly and once with the mask.
        attention = "sdpa" if name == "falcon-rw-alibi" else "eager"
        return model_class(name).from_pretrained(folder, dtype=torch.float32, attn_implementation=attention).eval()
    config = transformers.GraniteConfig(**SHAPES[name][1])
    model = transformers.GraniteForCausalLM._from_config(config, attn_implementation="eager").float()
    missing = model.load_state_dict({k: v.float() for k, v in load_file(folder / "model.safetensors").items()}, strict=False)
    assert missing.missing_keys in ([], ["lm_head.weight"]) and not missing.unexpected_keys, missing
    model.tie_weights()
    return model.eval()


def prompts(name: str, seed: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    # For texts up to the original length, longrope uses other frequencies, but one table serves texts of one kind only.
    lengths = PROMPT_LENGTHS[1:] if name == "phi3-longrope" else PROMPT_LENGTHS
    return [torch.randint(0, VOCAB_SIZE, (length,), generator=generator).tolist() for length in lengths]


@contextlib.contextmanager
def watched_choices(name: str):
    """Gives the least distance between the index scores of the last chosen position and of the first one left out. Programs that
    round differently choose the same positions only if it is not small."""
    count = SHAPES[name][1].get("index_topk")
    distances, top_k = [math.inf], torch.Tensor.topk

    def watched(scores, k, *args, **kwargs):
        if count is not None and k == count and scores.shape[-1] > count:
            best = top_k(scores, count + 1, dim=-1).values
            distances.append((best[..., -2] - best[..., -1])[best[..., -1] > -1e30].min().item())
        return top_k(scores, k, *args, **kwargs)

    torch.Tensor.topk = watched
    try:
        yield distances
    finally:
        torch.Tensor.topk = top_k


@torch.inference_mode()
def compute(name: str, folder: Path, seed: int) -> tuple[dict, list]:
    model = load(name, folder)
    tensors, cases = {}, []
    for i, prompt in enumerate(prompts(name, seed)):
        logits = model(input_ids=torch.tensor([prompt]), use_cache=False).logits[0]
        tensors[f"prompt_{i}.logits_f32"] = logits.float().clone().contiguous()
        continuation, margins = continue_greedily(model, prompt, num_new_tokens(name))
        cases.append({"prompt": prompt, "continuation": continuation, "margins": margins})
    return tensors, cases


def num_new_tokens(name: str) -> int:
    return MORE_NEW_TOKENS if name.startswith(MORE_TOKENS_OF) else NUM_NEW_TOKENS


def make(name: str, out: Path) -> None:
    for seed in range(1, 2000 if "index_topk" in SHAPES[name][1] else 100):
        write_checkpoint(name, out, seed)
        if name == "minicpm":
            publish_minicpm(out)
        if name == "kimi-linear":
            publish_kimi(out)
        with watched_choices(name) as distances:
            tensors, cases = compute(name, out, seed)
        if min(min(case["margins"]) for case in cases) > LEAST_MARGIN and min(distances) > LEAST_DISTANCE:
            break
    save_file(tensors, out / "golden.safetensors")
    (out / "golden.safetensors").chmod(0o644)  # the writer makes the file readable for its owner only
    (out / "model.safetensors").chmod(0o644)
    lines = ",\n    ".join(json.dumps(case) for case in cases)
    (out / "golden.json").write_text(
        f'{{\n  "shape": "{name}",\n  "seed": {seed},\n  "transformers": "{transformers.__version__}",\n  "torch": '
        f'"{torch.__version__}",\n  "cases": [\n    {lines}\n  ]\n}}\n')


def check(name: str) -> None:
    """Another machine rounds differently, so logits are compared with a tolerance and tokens exactly."""
    golden = json.loads((GOLDENS / name / "golden.json").read_text())
    tensors, cases = compute(name, GOLDENS / name, golden["seed"])
    for key, tensor in load_file(GOLDENS / name / "golden.safetensors").items():
        torch.testing.assert_close(tensors[key], tensor, rtol=1e-4, atol=1e-4)
    assert [c["continuation"] for c in cases] == [c["continuation"] for c in golden["cases"]], name
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(name, Path(folder), golden["seed"])
        if name == "kimi-linear":
            publish_kimi(Path(folder))
        new, old = (load_file(p / "model.safetensors") for p in (Path(folder), GOLDENS / name))
        assert new.keys() == old.keys() and all(torch.equal(new[key], old[key]) for key in old), f"{name}: weights differ"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SHAPES))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)  # one thread, so that sums are always added in the same order
    for name in options.names or SHAPES:
        if not options.check:
            (GOLDENS / name).mkdir(parents=True, exist_ok=True)
        check(name) if options.check else make(name, GOLDENS / name)
        print(f"{name}: {'as committed' if options.check else 'written'}", flush=True)


if __name__ == "__main__":
    main()
