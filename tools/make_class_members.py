#!/usr/bin/env python3
"""Writes tests/goldens/class_members.json: which members of a config.json each class of Transformers reads, and for each
member a value other than its default. A reader that takes such a value in silence computes something else.

    tools/make_class_members.py            # needs transformers, and torch for its configs

Only switches, names and factors: sizes are tested by other tables. Left out are members of training and of the form of
answers, which change no token.
"""

import json
import re
from pathlib import Path

import transformers
from transformers import CONFIG_MAPPING

ROOT = Path(__file__).resolve().parent.parent
MODELS = Path(transformers.__file__).parent / "models"
# The files of classes whose file has another name than the class suggests, and of classes that Transformers does not
# have.
FILES = {"Step3p5ForCausalLM": "step3p7/modeling_step3p7.py"}
REMOTE = {"MiniCPMForCausalLM": {"hidden_act": "gelu", "attention_bias": True}}
NO_EFFECT = re.compile(
    r"dropout|drop|pdrop|initializer|output_|return_dict|use_cache|router_(aux|jitter|z)|problem_type|gradient|_attn_impl"
    r"|attn_implementation|rescale_prenorm|use_mamba_kernels|^is_decoder|^use_return|^dtype|^model_type|_token_id|^pruned"
    r"|classifier|num_labels|label|layerdrop|reorder_and_upcast|softmax_in_fp32|residual_in_fp32|chunk_size_feed|sparse_prediction|reference_compile"
    r"|time_step_(min|max|floor|rank|init_scheme|scale)|z_loss|associative_scan|mambapy|decoder_bias|flash_attn|^summary|pretraining_tp|init_std|^is_encoder_decoder|router_activation$")


def file_of(name: str) -> Path | None:
    if name in FILES:
        return MODELS / FILES[name]
    return next((path for path in sorted(MODELS.glob("*/modeling_*.py"))
                 if re.search(rf"^class {name}\b", path.read_text(), re.M)), None)


def defaults_of(model_type: str) -> dict:
    config = CONFIG_MAPPING[model_type]()
    return config.get_text_config().to_dict() if hasattr(config, "get_text_config") else config.to_dict()


def other_value(member: str, value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return "quick_gelu" if "act" in member else "unknown"
    if isinstance(value, float):
        return value * 2 if value else 0.5
    return None


def members_of(name: str, model_type: str) -> dict:
    if name in REMOTE:
        return REMOTE[name]
    path = file_of(name)
    read = set(re.findall(r"config\.(\w+)\b", path.read_text())) | {"tie_word_embeddings"}
    found = {}
    for member, value in sorted(defaults_of(model_type).items()):
        other = other_value(member, value)
        if member in read and other is not None and not NO_EFFECT.search(member):
            found[member] = other
    return found


def main() -> None:
    rows = re.findall(r'^X\((\w+),\s*"(\w+)",\s*"([^"]+)"',
                      (ROOT / "src/reprise/weights/families/family_list.inl").read_text(), re.M)
    table = {name: members_of(name, model_type) for _, name, model_type in rows}
    path = ROOT / "tests" / "goldens" / "class_members.json"
    path.write_text(json.dumps({"transformers": transformers.__version__, "members": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
