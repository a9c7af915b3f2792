#!/usr/bin/env python3
"""Renders the published chat templates in packages of PyPI with Reprise and with Transformers, and compares.

    real_templates.py REPRISE MODEL FOLDER [--only NAME]

FOLDER holds what scripts/compare_real_templates.sh has downloaded: the templates of trl, axolotl and llama.cpp. For every
template and conversation, the prompt of the server's /tokenize must have the tokens of Transformers' text. A conversation
that Transformers renders in no form (arguments as objects or text, contents as text or parts) is left out.
Then the server starts with each template, and the parsers that it chooses must be those of PARSERS.
"""

import argparse
import collections
import copy
import fnmatch
import itertools
import json
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))
import serve_test
from transformers.utils.chat_template_utils import _compile_jinja_template

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather of a day.", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "description": "A city."},
                                         "days": {"type": "integer", "description": "From today."}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}},
]


def call(name, arguments, number=1):
    return {"id": f"call{number:05}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def said(content, **members):
    return {"role": "assistant", "content": content, **members}


SYSTEM = {"role": "system", "content": "Be brief."}
ASK, AGAIN = {"role": "user", "content": "How warm is it in Bonn?"}, {"role": "user", "content": "And tomorrow?"}
WHY = {"reasoning": "The user asks for the weather."}
WEATHER = call("get_weather", {"city": "Bonn", "days": 2})
RESULT = {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "21 degrees"}
CONVERSATIONS = {
    "question": [ASK],
    "system": [SYSTEM, ASK],
    "history": [ASK, said("21 degrees."), AGAIN],
    "reasoning": [ASK, said("21 degrees.", **WHY), AGAIN],
    "reasoning_content": [SYSTEM, ASK, said("21 degrees.", reasoning_content="Let me see."), AGAIN, said("22.", thinking="More."), ASK],
    "reasoning at the end": [ASK, said("21 degrees.", **WHY)],
    "call": [ASK, said("", tool_calls=[WEATHER]), RESULT],
    "call and content": [ASK, said("I look.", tool_calls=[WEATHER]), RESULT],
    "call and reasoning": [SYSTEM, ASK, said("", tool_calls=[WEATHER], **WHY), RESULT],
    "call, reasoning and content": [ASK, said("I look.", tool_calls=[WEATHER], **WHY), RESULT, said("21.", **WHY), AGAIN],
    "two calls": [ASK, said("", tool_calls=[WEATHER, call("now", {}, 2)], **WHY), RESULT,
                  {"role": "tool", "tool_call_id": "call00002", "name": "now", "content": "noon"}],
    "two rounds": [ASK, said("", tool_calls=[WEATHER], **WHY), RESULT, said("", tool_calls=[call("now", {})], reasoning="Next."),
                   {**RESULT, "name": "now", "content": "noon"}],
    "odd arguments": [ASK, said("", tool_calls=[call("get_weather", {
        "city": 'a "b" <c>\n', "days": 1.5, "list": [1, None, True], "object": {"x": {}}})]), RESULT],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "How warm"}, {"type": "text", "text": "is it?"}]}],
    "thinking parts": [ASK, said([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "21."}]), AGAIN],
}
# A late system message, as agents write it. A template may drop or refuse the message; otherwise the message must be in
# the text of another one.
LATE_WORD = "Mildred"
LATE = {"role": "system", "content": f"The owl is called {LATE_WORD}."}
LATE_CONVERSATIONS = {
    "late system": [SYSTEM, ASK, LATE],
    "late system inside": [SYSTEM, ASK, said("21 degrees."), LATE, AGAIN, said("22 degrees."), AGAIN],
}

# Template -> the parsers (of calls, of reasoning) that the server must choose. "-": the template shows no form that a
# parser reads, so the user must name a parser.
PARSERS = {
    ("apertus", "-"): """
        llama.cpp/Apertus-8B-Instruct""",
    ("cohere_command3", "-"): """
        axolotl/command_a_rag axolotl/command_a_tool_use llama.cpp/Cohere2MoE
        llama.cpp/CohereForAI-c4ai-command-r7b-12-2024-tool_use""",
    ("deepseek_v3", "deepseek_r1"): """
        llama.cpp/deepseek-ai-DeepSeek-R1-Distill-Llama-8B llama.cpp/llama-cpp-deepseek-r1 trl/deepseek_r1_distill
        trl/deepseek_r1_distill_training trl/deepseekv3 trl/deepseekv3_training""",
    ("deepseek_v3", "qwen3"): """
        axolotl/deepseek_v3 llama.cpp/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B""",
    ("deepseek_v31", "qwen3"): """
        llama.cpp/deepseek-ai-DeepSeek-V3.1""",
    ("deepseek_v32", "qwen3"): """
        llama.cpp/deepseek-ai-DeepSeek-V3.2""",
    ("deepseek_v4", "qwen3"): """
        llama.cpp/deepseek-ai-DeepSeek-V4-Flash-0731 llama.cpp/deepseek-ai-DeepSeek-V4""",
    ("gemma4", "-"): """
        trl/gemma4_v2""",
    ("gemma4", "gemma4"): """
        axolotl/gemma4 llama.cpp/google-gemma-4-31B-it-interleaved llama.cpp/google-gemma-4-31B-it trl/diffusion_gemma
        trl/diffusion_gemma_training trl/gemma4 trl/gemma4_v3 trl/gemma4_v4 trl/gemma4_v5""",
    ("glm45", "glm45"): """
        llama.cpp/GLM-4.6 llama.cpp/GLM-4.7-Flash llama.cpp/Spark2.5 llama.cpp/inclusionai-ling-3.0-flash
        llama.cpp/poolside-Laguna-S-2.1 llama.cpp/poolside-Laguna-XS-2.1 llama.cpp/poolside-Laguna-XS.2 trl/glm4moe
        trl/glm4moe_training""",
    ("granite", "qwen3"): """
        llama.cpp/ibm-granite-granite-3.3-2B-Instruct""",
    ("hermes", "-"): """
        axolotl/falcon_h1 axolotl/qwen_25 llama.cpp/MiMo-VL llama.cpp/NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use
        llama.cpp/ibm-granite-granite-4.0 llama.cpp/ibm-granite-granite-4.1 trl/qwen2_5_training
        trl/qwen3_instruct_2507 trl/qwen3_instruct_2507_training trl/qwen3_vl trl/qwen3_vl_training""",
    ("hermes", "qwen3"): """
        axolotl/exaone4 axolotl/qwen3 axolotl/qwen3_5 llama.cpp/Bielik-11B-v3.0-Instruct llama.cpp/Qwen-QwQ-32B
        llama.cpp/Qwen-Qwen3-0.6B llama.cpp/Reka-Edge trl/qwen3 trl/qwen3_training""",
    ("hunyuan_a13b", "-"): """
        axolotl/jamba llama.cpp/Apriel-1.6-15b-Thinker-fixed llama.cpp/MiniMax-M1 llama.cpp/unsloth-Apriel-1.5""",
    ("kimi_k2", "-"): """
        llama.cpp/Kimi-K2-Instruct llama.cpp/moonshotai-Kimi-K2""",
    ("kimi_k2", "kimi_k2"): """
        llama.cpp/Kimi-K2-Thinking""",
    ("lfm2", "-"): """
        llama.cpp/LFM2-8B-A1B trl/lfm2 trl/lfm2_training trl/lfm2_v2 trl/lfm2_v2_training""",
    ("lfm2", "qwen3"): """
        llama.cpp/LFM2.5-8B-A1B trl/lfm2_2_5_v2 trl/lfm2_2_5_vl""",
    ("llama3_json", "-"): """
        axolotl/llama3_2_vision llama.cpp/meta-llama-Llama-3.1-8B-Instruct llama.cpp/meta-llama-Llama-3.2-3B-Instruct""",
    ("llama4_pythonic", "-"): """
        axolotl/llama4""",
    ("minimax_m2", "minimax_m2"): """
        llama.cpp/MiniMax-M2""",
    ("mistral", "-"): """
        axolotl/mistral_v2v3 axolotl/mistral_v3_tekken llama.cpp/Mistral-Small-3.2-24B-Instruct-2506
        llama.cpp/mistralai-Mistral-Nemo-Instruct-2407 llama.cpp/unsloth-mistral-Devstral-Small-2507""",
    ("mistral", "mistral"): """
        llama.cpp/mistralai-Ministral-3-14B-Reasoning-2512""",
    ("openai", "openai_gptoss"): """
        llama.cpp/openai-gpt-oss-120b trl/gptoss_training""",
    ("qwen3_coder", "-"): """
        llama.cpp/Qwen3-Coder""",
    ("qwen3_coder", "qwen3"): """
        llama.cpp/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 llama.cpp/Qwen3.5-4B llama.cpp/StepFun3.5-Flash
        trl/nemotron_3_5_lightning trl/nemotron_3_5_lightning_training trl/nemotron_3_nano_training
        trl/nemotron_3_super trl/nemotron_3_super_training trl/nemotron_3_ultra trl/nemotron_3_ultra_training
        trl/qwen3_5_nothink trl/qwen3_5_nothink_training trl/qwen3_5_think_training trl/qwen3_6 trl/qwen3_6_training
        trl/qwen3_8 trl/qwen3_8_training""",
    ("seed_oss", "seed_oss"): """
        llama.cpp/ByteDance-Seed-OSS""",
    ("-", "-"): """
        axolotl/alpaca axolotl/aya axolotl/chatml axolotl/cohere axolotl/command_a axolotl/deepseek_v2 axolotl/exaone
        axolotl/gemma axolotl/gemma3 axolotl/gemma3n axolotl/llama3 axolotl/llava axolotl/metharme axolotl/mistral_v1
        axolotl/mistral_v7_tekken axolotl/nemotron_h axolotl/phi_3 axolotl/phi_35 axolotl/pixtral axolotl/qwen2_vl
        llama.cpp/CohereForAI-c4ai-command-r-plus-tool_use llama.cpp/GigaChat3-10B-A1.8B
        llama.cpp/GigaChat3.1-10B-A1.8B llama.cpp/Kimi-K3 llama.cpp/MiniMax-M3
        llama.cpp/fireworks-ai-llama-3-firefunction-v2 llama.cpp/google-gemma-2-2b-it
        llama.cpp/meetkai-functionary-medium-v3.1 llama.cpp/meetkai-functionary-medium-v3.2
        llama.cpp/microsoft-Phi-3.5-mini-instruct llama.cpp/muse-glimmer llama.cpp/tencent-Hy3
        llama.cpp/upstage-Solar-Open-100B trl/cohere trl/cohere2 trl/cohere2_training trl/cohere_training trl/gemma3
        trl/gemma3_training trl/gemma_training trl/idefics3 trl/idefics3_training trl/llama3 trl/llama3_training
        trl/llava_next trl/llava_next_training trl/muse_glimmer_training trl/phi3 trl/phi3_5_training
        trl/phi3_training trl/qwen2_5_vl trl/qwen2_5_vl_training trl/smolvlm trl/smolvlm_training""",
    ("-", "deepseek_r1"): """
        llama.cpp/NVIDIA-Nemotron-Nano-v2""",
    ("-", "qwen3"): """
        axolotl/phi_4 llama.cpp/HuggingFaceTB-SmolLM3-3B llama.cpp/LFM2.5-Instruct llama.cpp/llama-cpp-rwkv-world
        llama.cpp/openbmb-MiniCPM5-1B""",
}


def templates_of(folder):
    """The different templates, by the names of the packages and files that hold them first."""
    found = {}
    for path in sorted(folder.rglob("*.jinja*")):
        package = path.relative_to(folder).parts[0].split("-")[0]
        found.setdefault(path.read_text(encoding="utf-8"), f"{package}/{path.stem}")
    return {name: text for text, name in found.items()}


def aliased(messages):
    """The reasoning under all names that templates read: vLLM gives two to Transformers, which adds the third."""
    messages = copy.deepcopy(messages)
    for message in messages:
        thoughts = [message.pop(name) for name in ("reasoning", "reasoning_content", "thinking") if name in message]
        if thoughts:
            message["reasoning"] = message["reasoning_content"] = message["thinking"] = thoughts[0]
    return messages


def in_form(messages, contents, arguments, thoughts):
    """The conversation with contents "as sent", as "text" or as "parts" (but for tools, or "all parts", or "one part"), arguments as "object" or "text", and thoughts as
    sent, as a "member", as "text", or all among the "parts".
    """
    messages = aliased(messages)
    for message in messages:
        content = message["content"]
        if isinstance(content, list):
            inner = [part["thinking"] for part in content if part["type"] == "thinking"]
            if inner and thoughts == "member":
                content = [part for part in content if part["type"] == "text"]
                message["reasoning"] = message["reasoning_content"] = message["thinking"] = inner[0]
            if thoughts == "text":
                content = [{"type": "text", "text": part.get("text") or part["thinking"]} for part in content]
            if contents in ("text", "one part"):
                content = "\n".join(part.get("text") or part["thinking"] for part in content)
            if contents == "one part":
                content = [{"type": "text", "text": content}]
        elif contents == "all parts" or contents in ("parts", "one part") and message["role"] != "tool":
            content = [{"type": "text", "text": content}]
        if thoughts == "parts" and "reasoning" in message:
            thought = [message.pop(name) for name in ("reasoning", "reasoning_content", "thinking")][0]
            content = [{"type": "thinking", "thinking": thought}] + ([{"type": "text", "text": content}] if isinstance(content, str) else content)
        message["content"] = content
        for one in message.get("tool_calls", []):
            if arguments == "object":
                one["function"]["arguments"] = json.loads(one["function"]["arguments"])
    return messages


FORMS = list(itertools.product(("as sent", "text", "parts", "all parts", "one part"), ("object", "text"), ("as sent", "member", "text", "parts")))


def num_shown(text, messages):
    """How many words of contents and calls the text shows: a form in which a template shows less is not the one it takes."""
    words = [json.dumps(message["content"]) + str(aliased([message])[0].get("reasoning", "")) + json.dumps([
        list(json.loads(one["function"]["arguments"]).values()) for one in message.get("tool_calls", [])]) for message in messages]
    return sum(word in text for word in set(re.findall(r"[A-Za-z]{3,}", " ".join(words))) - {"type", "text", "thinking", "null", "true"})


def is_read(text):
    """Whether the template has read the lists, instead of printing them as Python or JSON spells them."""
    return all(spelled not in text for spelled in ("'type'", '"type": "text"', '"type": "thinking"'))


def accepted_texts(template, messages, tools, info):
    """The texts that Transformers renders in the forms that the template takes."""
    texts = []
    for form in FORMS:
        given = in_form(messages, *form)
        try:
            text = template.render(
                messages=given, tools=tools, documents=None, add_generation_prompt=messages[-1]["role"] != "assistant",
                bos_token=info["bos_token"] or "", eos_token=info["eos_token"] or "")
        except Exception:  # noqa: BLE001: a template may fail in any way
            continue
        texts.append((not is_read(text), -num_shown(text, messages), text))
    # Thoughts among the parts have three meanings; every other conversation has one right form.
    if any(isinstance(part, dict) and part["type"] == "thinking" for message in messages for part in message["content"]):
        return [text for is_printed, _, text in texts if not is_printed]
    return [min(texts, key=lambda one: one[:2])[2]] if texts else []  # of equals, the first: the usual form


def compare(server, name, source, info):
    """Counts of outcomes for one template."""
    counts = collections.Counter()
    template = _compile_jinja_template(source)
    shows_late = all(LATE_WORD in text for messages in LATE_CONVERSATIONS.values()
                     for text in accepted_texts(template, messages, None, info) or [""])
    for (title, messages), tools in itertools.product({**CONVERSATIONS, **LATE_CONVERSATIONS}.items(), (None, TOOLS)):
        body = {"chat_template": source, "messages": messages, "add_generation_prompt": messages[-1]["role"] != "assistant"}
        status, answer = server.post("/tokenize", {**body, "tools": tools} if tools else body)
        texts = accepted_texts(template, messages, tools, info)
        if title in LATE_CONVERSATIONS and not shows_late:
            if status == 200 and LATE_WORD in server.post("/detokenize", {"tokens": answer["tokens"]})[1]["prompt"]:
                counts["late system moved"] += 1
                continue
        if not texts:
            counts["refused by both" if status == 400 else "rendered by Reprise only"] += 1
            continue
        ids = answer["tokens"] if status == 200 else None
        if any(ids == server.post("/tokenize", {"prompt": text, "add_special_tokens": False})[1]["tokens"] for text in texts):
            counts["same"] += 1
            continue
        counts["different"] += 1
        print(f"DIFFERENT {name}: {title}{' with tools' if tools else ''}")
        print("   Reprise:     ", answer["error"]["message"][:300] if ids is None else
              repr(server.post("/detokenize", {"tokens": ids})[1]["prompt"][-500:]))
        print("   Transformers:", repr(texts[0][-500:]))
    return counts


def chosen_parsers(source):
    """The parsers of calls and of reasoning that a server chooses for this template; "-": none."""
    with tempfile.NamedTemporaryFile("w", suffix=".jinja", encoding="utf-8") as file:
        file.write(source)
        file.flush()
        server = serve_test.Server("--chat-template", file.name, "--tool-call-parser", "auto", "--reasoning-parser", "auto")
    try:
        text = server.text()
    finally:
        server.stop()
    return tuple((re.findall(rf"{what} (\S+), chosen by the chat template", text) or ["-"])[0]
                 for what in ("tool-call parser", "reasoning parser"))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("reprise")
    arguments.add_argument("model")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--only", default="*", help="a pattern of names")
    given = arguments.parse_args()
    serve_test.BINARY, serve_test.MODEL = given.reprise, given.model
    templates = {name: text for name, text in templates_of(given.folder).items() if fnmatch.fnmatch(name, given.only)}
    counts = collections.Counter()
    server = serve_test.Server("--trust-request-chat-template")
    info = json.loads(server.request("GET", "/tokenizer_info")[1])
    for name, source in templates.items():
        counts += compare(server, name, source, info)
    server.stop()
    wrong = []
    for name, source in templates.items():
        found = chosen_parsers(source)
        expected = next((parsers for parsers, names in PARSERS.items() if name in names.split()), None)
        if expected != found:
            wrong.append(f"{name}: chosen {found}, expected {expected}")
    print("\n".join(wrong))
    print(f"{len(templates)} templates, {sum(counts.values())} renders: {dict(counts)}; parsers of {len(templates) - len(wrong)} right")
    return 1 if wrong or counts["different"] or len(templates) < 100 and given.only == "*" else 0


if __name__ == "__main__":
    sys.exit(main())
