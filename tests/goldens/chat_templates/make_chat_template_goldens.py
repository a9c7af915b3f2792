"""Writes golden.json: what jinja2, set up as transformers does it, makes of our templates.

Needs transformers (which brings the environment) and jinja2. Deterministic: running it twice gives
the same bytes. Usage: make_chat_template_goldens.py [--check]
"""

import argparse
import datetime
import json
import pathlib

import transformers
import jinja2
from transformers.utils import chat_template_utils

import snippets

HERE = pathlib.Path(__file__).parent
# strftime_now() of every golden; the C++ test passes the same.
NOW = datetime.datetime(2025, 3, 9, 14, 5, 7)

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City, e.g. \"São Paulo\""},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "nullable": True},
                "days": {"type": ["integer", "null"]},
                "at": {"type": "array", "items": {"type": "number"}},
                "more": {"type": "object", "properties": {"a": {"type": "boolean"}}},
            },
            "required": ["city"],
        },
        "return": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
TIME = {
    "type": "function",
    "function": {
        "name": "now",
        "description": "The time <now> & here.",
        "parameters": {"type": "object", "properties": {}},
    },
}
SYSTEM = {"role": "system", "content": " You are Ada.\n"}
ASK = {"role": "user", "content": "Hi — wie geht's? 你好"}
ANSWER = {"role": "assistant", "content": "Fine.\n"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "id": "abcdef123",
            "type": "function",
            "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": 2, "x": 1.0}},
        }
    ],
}
RESULT = {"role": "tool", "content": "{\"t\": 21}", "tool_call_id": "abcdef123"}
THOUGHT = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes."}
REASONED = {"role": "assistant", "content": "No.", "reasoning": "because\n"}
PARTS = {
    "role": "user",
    "content": [{"type": "image"}, {"type": "text", "text": " What is it? "}, {"type": "text", "text": "!"}],
}
STRING_CALL = {
    "role": "assistant",
    "content": "calling",
    "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "now", "arguments": "{\"a\": 1}"}},
        {"id": "b", "type": "function", "function": {"name": "now", "arguments": {}}},
    ],
}

CONVERSATIONS = {
    "one_turn": [ASK],
    "with_system": [SYSTEM, ASK],
    "three_turns": [SYSTEM, ASK, ANSWER, ASK],
    "tool_round": [ASK, CALL, RESULT, ANSWER, ASK],
    "tool_round_open": [SYSTEM, ASK, CALL, RESULT],
    "two_results": [ASK, STRING_CALL, RESULT, RESULT, ANSWER],
    "thinking": [ASK, THOUGHT, ASK, REASONED],
    "parts": [PARTS, ANSWER],
    "wrong_order": [ASK, ASK],
    "odd_role": [ASK, {"role": "narrator", "content": "Meanwhile"}],
    "null_content": [ASK, {"role": "assistant", "content": None}],
    "empty": [],
}
OPTIONS = {
    "plain": {"bos_token": "<s>", "eos_token": "</s>"},
    "prompt": {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True},
    "tools": {"bos_token": "<s>", "eos_token": "</s>", "tools": [WEATHER, TIME], "add_generation_prompt": True},
    "extra": {
        "tools": [TIME],
        "documents": [{"title": "T", "text": "a\nb"}, {"title": "U", "text": "c"}],
        "eos_token": "<e>",
        "extra": {
            "enable_thinking": False,
            "tools_in_user_message": False,
            "builtin_tools": ["code_interpreter", "search", "get_weather"],
            "date_string": "26 Jul 2024",
            "reasoning_effort": "high",
        },
    },
}


class FixedDatetime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def attempt(render):
    """{"output": ...} or {"raises": ...}; any exception counts, as it does for a user."""
    try:
        output = render()
        output.encode()
        return {"output": output}
    except jinja2.exceptions.TemplateError as error:
        return {"raises": str(error)}
    except Exception as error:  # noqa: BLE001
        return {"raises": f"{type(error).__name__}: {error}"}


def snippet_goldens():
    sources = ["{{ " + line + " }}" for line in split_expressions(snippets.EXPRESSIONS)]
    sources += snippets.TEMPLATES
    good = [(source, attempt(lambda: render(source))) for source in sources]
    bad = [(source, attempt(lambda: render(source))) for source in snippets.FAILING]
    misfits = [pair for pair in good if " object at 0x" in pair[1].get("output", " object at 0x")]
    misfits += [pair for pair in bad if "output" in pair[1]]
    if misfits:
        raise SystemExit("\n".join(f"{source!r}: {result}" for source, result in misfits))
    return {
        "variables": snippets.VARIABLES,
        "rendering": [{"source": source, **result} for source, result in good],
        "failing": [source for source, _ in bad],
    }


def split_expressions(text):
    """One a line; a line that leaves a string open goes on."""
    lines, pending = [], ""
    for line in text.split("\n"):
        pending += line
        if pending.endswith("\\") or pending == '"multi':
            pending += "\n"
            continue
        lines.append(pending)
        pending = ""
    return lines


def render(source):
    return chat_template_utils._compile_jinja_template(source).render(**snippets.VARIABLES)


def conversation_goldens():
    goldens = []
    for path in sorted((HERE / "templates").glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for conversation, messages in CONVERSATIONS.items():
            for option_name, options in OPTIONS.items():
                arguments = dict(options)
                extra = arguments.pop("extra", {})
                result = attempt(
                    lambda: chat_template_utils.render_jinja_template(
                        conversations=[messages], chat_template=source, **arguments, **extra
                    )[0][0]
                )
                goldens.append(
                    {"template": path.name, "conversation": conversation, "options": option_name, **result}
                )
    return goldens


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if golden.json is not what would be written")
    check = parser.parse_args().check
    chat_template_utils.datetime = FixedDatetime
    golden = {
        "made_with": {"jinja2": jinja2.__version__, "transformers": transformers.__version__},
        "now": NOW.isoformat(),
        "snippets": snippet_goldens(),
        "conversations": CONVERSATIONS,
        "options": OPTIONS,
        "rendered": conversation_goldens(),
    }
    text = json.dumps(golden, ensure_ascii=False, indent=1) + "\n"
    path = HERE / "golden.json"
    if check:
        raise SystemExit(0 if path.read_text(encoding="utf-8") == text else "golden.json is stale")
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
