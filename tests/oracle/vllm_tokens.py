#!/usr/bin/env python3
"""Writes tiny checkpoints of many families, and the greedy tokens that the real vLLM computes with them.

    vllm_tokens.py OUT_FOLDER [NAME ...]

Needs a Python with vLLM 0.32 (scripts/compare_with_vllm.sh installs it). For each name, OUT_FOLDER/NAME gets a random
checkpoint, and OUT_FOLDER/NAME.json what vLLM answers in float32 on the CPU: tokens, their log probabilities and how far
the second-best token is behind, with each prompt alone and with all prompts in batches. If vLLM refuses a checkpoint, the
file has its reason. compare_tokens.py asks Reprise the same.

The checkpoints are those of tools/make_architecture_goldens.py with wider heads, because vLLM's attention on CPUs knows
only heads of 32, 64 and more.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent.parent
PROMPT_LENGTHS = (1, 2, 7, 16, 17, 33, 40, 64)
NUM_TOKENS = 32
HEAD_DIM = 32
# Latent attention on CPUs has kernels for the sizes of DeepSeek's models only; a latent is not larger than the hidden state.
LATENT = dict(hidden_size=512, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128)

# Members of config.json that vLLM reads and the class of Transformers does not write.
MEMBERS = {
    "llama4": dict(moe_layers=None, interleave_moe_layer_step=2, attention_chunk_size=32),
    "deepseek-v2-lite": dict(n_group=1, topk_group=1),
    "deepseek-v3": dict(topk_method="noaux_tc", scoring_func="sigmoid"),
}
# The other backend for latent attention, AMX_MLA, does not support float32.
LATENT_ENGINE = dict(attention_backend="CPU_MLA")
# Chunks of attention must be a multiple of vLLM's cache blocks, which have 128 tokens on CPUs.
ENGINE = {"llama4": dict(block_size=32), "deepseek-v2": LATENT_ENGINE, "deepseek-v2-lite": LATENT_ENGINE, "deepseek-v3": LATENT_ENGINE}

NAMES = ("llama-linear", "llama-yarn", "gemma2", "gemma3", "phi3", "olmo2", "gpt2", "opt", "gpt-neox", "falcon-40b", "cohere2", "granite",
         "glm4", "starcoder2", "mixtral", "qwen2-moe", "qwen3-moe", "gpt-oss", "llama4", "deepseek-v2", "deepseek-v2-lite", "deepseek-v3",
         "mamba", "mamba2",
         "bamba", "granite-moe-hybrid", "qwen3-next", "lfm2")


def widen(arguments):
    """The arguments of a config, with heads of a size that vLLM's attention on CPUs knows."""
    if "kv_lora_rank" in arguments:
        return arguments | LATENT
    if "head_dim" in arguments and "num_attention_heads" in arguments:
        return arguments | dict(head_dim=HEAD_DIM)
    if "n_head" in arguments:
        return arguments | dict(n_embd=HEAD_DIM * arguments["n_head"])
    if "num_attention_heads" in arguments:
        width = HEAD_DIM * arguments["num_attention_heads"]
        # The inner size of Mamba-2 is mamba_expand times the hidden size.
        inner = dict(mamba_d_head=width * arguments["mamba_expand"] // arguments["mamba_n_heads"]) if "mamba_n_heads" in arguments else {}
        projected = dict(word_embed_proj_dim=width) if "word_embed_proj_dim" in arguments else {}
        return arguments | dict(hidden_size=width) | inner | projected
    return arguments


def prompts():
    draw = random.Random(1)
    return [[draw.randrange(96) for _ in range(length)] for length in PROMPT_LENGTHS]


def write_checkpoint(name, folder):
    sys.path.insert(0, str(SOURCE / "tools"))
    import make_architecture_goldens as maker
    cls, arguments = maker.SHAPES[name]
    maker.SHAPES[name] = (cls, widen(arguments) | MEMBERS.get(name, {}))
    maker.write_checkpoint(name, folder, seed=1)


def answer(output):
    """One answer as JSON: tokens, their log probabilities, and their distance to the second-best token."""
    result = {"tokens": [], "logprobs": [], "margins": []}
    for token, choices in zip(output.token_ids, output.logprobs, strict=True):
        ranked = sorted((choice.logprob for choice in choices.values()), reverse=True)
        result["tokens"].append(int(token))
        result["logprobs"].append(choices[token].logprob)
        result["margins"].append(ranked[0] - ranked[1])
    return result


def ask_vllm(name, folder):
    from vllm import LLM, SamplingParams
    llm = LLM(model=str(folder), dtype="float32", skip_tokenizer_init=True, enforce_eager=True, max_model_len=128, max_num_seqs=4,
              max_num_batched_tokens=128, enable_prefix_caching=False, kv_cache_memory_bytes=64 << 20,
              **ENGINE.get(name, {}))
    parameters = SamplingParams(temperature=0, max_tokens=NUM_TOKENS, ignore_eos=True, logprobs=2, detokenize=False)
    texts = [{"prompt_token_ids": prompt} for prompt in prompts()]
    alone = [llm.generate(text, parameters, use_tqdm=False)[0] for text in texts]
    batched = llm.generate(texts, parameters, use_tqdm=False)
    return {way: [answer(item.outputs[0]) for item in outputs] for way, outputs in (("alone", alone), ("batched", batched))}


def record(name, out):
    """In a process of its own: an engine that dies takes nothing else along."""
    folder = out / name
    write_checkpoint(name, folder)
    result = {"name": name, "prompts": prompts()}
    try:
        result |= ask_vllm(name, folder)
    except Exception as error:  # noqa: BLE001 - whatever vLLM says is the answer
        result["refused"] = f"{type(error).__name__}: {error}"[:2000]
    (out / f"{name}.json").write_text(json.dumps(result) + "\n")


def main():
    out = Path(sys.argv[1])
    if len(sys.argv) == 4 and sys.argv[2] == "--record":
        record(sys.argv[3], out)
        return
    out.mkdir(parents=True, exist_ok=True)
    environment = os.environ | dict(VLLM_LOGGING_LEVEL="ERROR", VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_NO_USAGE_STATS="1",
                                    HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
    for name in sys.argv[2:] or NAMES:
        target = out / f"{name}.json"
        target.unlink(missing_ok=True)
        done = subprocess.run([sys.executable, __file__, str(out), "--record", name], env=environment, capture_output=True, text=True)
        if not target.exists():
            last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
            target.write_text(json.dumps({"name": name, "prompts": prompts(), "refused": last}) + "\n")
        refused = json.loads(target.read_text()).get("refused")
        print(f"{name}: {'refused: ' + refused.splitlines()[-1] if refused else 'recorded'}", flush=True)


if __name__ == "__main__":
    main()
