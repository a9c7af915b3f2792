"""Measures the second bundled model through `reprise serve`, with tools, names and values that training never showed.

    python models/check_reprise_tiny_tools.py models/reprise-tiny-tools build/release/bin/reprise [--number 400]

Greedy, `tool_choice` auto. The numbers in README.md come from here. It also holds the chat template against the text that
training wrote, and the server's tokens against those of Transformers.
"""

import argparse
import collections
import json
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "integration"))
import serve_test  # noqa: E402
import tool_corpus  # noqa: E402
from tool_words import Words  # noqa: E402

SEED = 21  # another one than that of the calls that training prints


class Shares:
    """Counts of what was right, by what was asked."""

    def __init__(self):
        self.right, self.all = collections.Counter(), collections.Counter()
        self.wrong = []

    def add(self, name: str, is_right: bool, detail: object = None) -> bool:
        self.all[name] += 1
        self.right[name] += is_right
        if not is_right and detail is not None:
            self.wrong.append((name, detail))
        return is_right

    def print(self) -> None:
        for name, number in self.all.items():
            print(f"{name:48} {self.right[name]:4}/{number:<4} = {self.right[name] / number:.1%}")


def as_sent(message: dict) -> dict:
    """A message of the corpus as a client sends it."""
    if "call" not in message:
        return {key: value for key, value in message.items() if key in ("role", "content")} | (
            {"tool_call_id": "call-1"} if message["role"] == "tool" else {})
    name, arguments = message["call"]
    return {"role": "assistant", "content": "", "tool_calls": [
        {"id": "call-1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}}]}


def tools_sent(conversation: tool_corpus.Conversation) -> list[dict]:
    return [{"type": "function", "function": tool} for tool in conversation.tools]


class Client:
    def __init__(self, server: serve_test.Server):
        self.server = server

    def choice(self, messages: list[dict], tools: list[dict], **fields) -> dict:
        body = {"model": serve_test.NAME, "messages": messages, "temperature": 0, "max_tokens": 160, **fields}
        status, answer = self.server.post("/v1/chat/completions", body | ({"tools": tools} if tools else {}))
        assert status == 200, answer
        return answer["choices"][0]


def measure_calls(client: Client, words: Words, number: int, shares: Shares) -> None:
    for _ in range(number):
        conversation, task = tool_corpus.tool_conversation(words)
        tools, messages = tools_sent(conversation), conversation.messages
        end = [message["role"] for message in messages].index("user") + 1
        asked = [as_sent(message) for message in messages[:end]]
        said = client.choice(asked, tools)["message"]
        calls = said.get("tool_calls") or []
        function = calls[0]["function"] if len(calls) == 1 else {"name": None, "arguments": "null"}
        try:
            arguments = json.loads(function["arguments"])
        except ValueError:
            arguments = None
        shares.add("call: one call of valid JSON", isinstance(arguments, dict))
        shares.add("call: the right tool", function["name"] == task.tool["name"])
        is_right = (function["name"], arguments) == (task.tool["name"], task.arguments)
        shares.add("call: the right tool and exactly the arguments", is_right,
                   (task.question, [tool_corpus.signature(tool) for tool in conversation.tools], said.get("content"), function, task.arguments))
        shares.add(f"  {len(tools)} tool{'s' * (len(tools) > 1)}", is_right)
        shares.add(f"  {task.kind}", is_right)
        # The answer is measured after the right call.
        rest = [as_sent(message) for message in messages[end:end + 2]]
        answer = client.choice([*asked, *rest], tools)["message"]
        shares.add("result: exactly the answer", answer.get("content") == task.answer, (task.question, task.result, answer.get("content"), task.answer))


def measure_plain(client: Client, words: Words, number: int, shares: Shares) -> None:
    for _ in range(number):
        conversation = tool_corpus.no_tool_conversation(words)
        *asked, answer = conversation.messages
        said = client.choice([as_sent(message) for message in asked], tools_sent(conversation))["message"]
        kind = "no fitting tool" if answer["content"] == tool_corpus.NO_TOOL else "small talk beside tools"
        shares.add(f"plain: {kind}, no call", not said.get("tool_calls"), (asked[-1]["content"], said))
        shares.add(f"plain: {kind}, exactly the answer", said.get("content") == answer["content"])


def schema_of(answer: dict) -> dict:
    kinds = {key: {"type": "integer" if isinstance(value, int) else "number" if isinstance(value, float) else "string"}
             for key, value in answer.items()}
    return {"type": "object", "properties": kinds, "required": list(answer), "additionalProperties": False}


def measure_json(client: Client, words: Words, number: int, shares: Shares) -> None:
    done = 0
    while done < number:
        conversation, answer = tool_corpus.json_conversation(words)
        *asked, said = [as_sent(message) for message in conversation.messages]
        if "pieces" in conversation.messages[-1]:
            schema = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema_of(answer)}}
            name, fields = "JSON: schema of the request, values of the text", {"response_format": schema}
        elif said["content"].startswith("{"):
            name, fields = "JSON: keys named in the question", {}
        else:
            continue
        done += 1
        text = client.choice(asked, [], **fields)["message"]["content"]
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        shares.add(name + ", valid", isinstance(found, dict))
        shares.add(name + ", exact", found == answer, (asked[-1]["content"], text, answer))


def compare_with_transformers(client: Client, folder: Path, number: int) -> None:
    """The template's text is that of training, and the server's greedy tokens are those of `generate` in float32."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    words, same = Words(random.Random(SEED + 1), is_held_back=True), 0
    for _ in range(number):
        conversation, _ = tool_corpus.tool_conversation(words)
        sent, tools = [as_sent(message) for message in conversation.messages], tools_sent(conversation)
        text = "".join(piece for piece, _ in tool_corpus.segments(conversation))
        assert tokenizer.apply_chat_template(sent, tools=tools, tokenize=False) == text + "\n", (text, sent)
        end = [message["role"] for message in sent].index("user") + 1
        prompt = tokenizer.apply_chat_template(sent[:end], tools=tools, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
        expected = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=80, do_sample=False)[0, ids.shape[1]:].tolist()
        status, answer = client.server.post("/v1/completions", {
            "model": serve_test.NAME, "prompt": prompt, "temperature": 0, "max_tokens": 80, "return_token_ids": True})
        assert status == 200, answer
        made = answer["choices"][0]["token_ids"]
        same += made == expected
        if made != expected:
            print("differs:", tokenizer.decode(made), "|", tokenizer.decode(expected))
    print(f"templates as in training: {number}/{number}; tokens as with Transformers (bfloat16): {same}/{number}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("reprise")
    parser.add_argument("--number", type=int, default=400, help="of questions for tools; half as many of the others")
    parser.add_argument("--compare", type=int, default=30, help="conversations compared with Transformers; 0: none")
    parser.add_argument("--show-wrong", type=int, default=10)
    options = parser.parse_args()

    serve_test.BINARY, serve_test.MODEL = options.reprise, str(options.folder)
    server = serve_test.Server()
    client, shares, began = Client(server), Shares(), time.monotonic()
    words = Words(random.Random(SEED), is_held_back=True)
    measure_calls(client, words, options.number, shares)
    measure_plain(client, words, options.number // 2, shares)
    measure_json(client, words, options.number // 2, shares)
    shares.print()
    print(f"{time.monotonic() - began:.0f} s")
    for name, detail in random.Random(1).sample(shares.wrong, min(options.show_wrong, len(shares.wrong))):
        print(f"--- {name}\n{detail}")
    if options.compare:
        compare_with_transformers(client, options.folder, options.compare)
    assert server.stop() == 0, server.text()


if __name__ == "__main__":
    main()
