#!/usr/bin/env python3
"""Commands of model cards and recipes, started as they are written, with made-up weights.

    model_cards_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER [--all]

The commands are in model_cards.txt. Only a few of them run without --all (scripts/test.sh --model-cards), which takes
some minutes. Uses only Python's standard library.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

import architectures_test

BINARY = MODEL = SOURCE = None
RUNS_ALL = False
TIMEOUT = 120
LEAST_SHARE = 0.95  # of the commands start
# Cards whose commands use options that no other card has: they run in the default suite.
SMOKE = {"Qwen/Qwen3-32B", "mistralai/Mistral-Small-24B-Instruct-2501", "google/gemma-2-9b-it",
         "swiss-ai/Apertus-8B-Instruct-2509", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-Embedding-0.6B",
         "unsloth/gpt-oss-20b", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nvidia/Llama-3.3-70B-Instruct-FP4"}
MARKS = ["<think>", "</think>", "[THINK]", "[/THINK]", "<seed:think>", "</seed:think>", "<|channel>", "<channel|>",
         "<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>", "[TOOL_CALLS]"]
VOCAB_SIZE = 128
KEPT = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS",
                                            "UBSAN_OPTIONS") if name in os.environ}


class Card:
    def __init__(self, setting, command):
        self.family, _, rest = setting.partition(" ")
        self.refusal = rest.removeprefix("refused: ") if rest.startswith("refused: ") else None
        self.changes = json.loads(rest) if rest and self.refusal is None else {}
        words = shlex.split(command)
        start = words.index("vllm")
        self.environment = dict(word.split("=", 1) for word in words[:start])
        self.name, self.options = words[start + 2], words[start + 3:]


def read_cards():
    lines = [line for line in (SOURCE / "tests/integration/model_cards.txt").read_text(encoding="utf-8").splitlines()
             if line and not line.startswith("#")]
    return [Card(*pair) for pair in zip(lines[::2], lines[1::2])]


def value_of(options, *names):
    """The number behind one of the flags; 1 if none is there."""
    line = " ".join(options).replace("=", " ").replace("_", "-")
    found = re.search(rf"(?:^| )(?:{'|'.join(names)}) (\d+)", line)
    return int(found[1]) if found else 1


def make_model(folder, card):
    """A folder as the card's model has it, but small."""
    folder.mkdir()
    goldens = SOURCE / "tests" / "goldens"
    source = MODEL if card.family == "tiny" else next(
        place for place in (goldens / card.family, goldens / "architectures" / card.family) if place.exists())
    for path in source.iterdir():
        if path.is_dir():
            shutil.copytree(path, folder / path.name)
        elif path.suffix == ".json" and not path.name.startswith("golden"):
            shutil.copy(path, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    text = config.get("text_config", config)
    text.update(card.changes)
    rope = text.get("rope_parameters") or text.get("rope_scaling") or {}
    if "original_max_position_embeddings" in rope:  # as in published models: factor times this is the model's length
        rope["original_max_position_embeddings"] = int(text["max_position_embeddings"] / rope["factor"])
    if card.family != "tiny":
        architectures_test.write_tokenizer(folder)
        tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        first = len(tokenizer["model"]["vocab"])
        tokenizer["added_tokens"] = [
            {"id": first + i, "content": mark, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False} for i, mark in enumerate(MARKS)]
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
        text["vocab_size"] = VOCAB_SIZE
    engines = value_of(card.options, "--data-parallel-size", "-dp")
    ranks = value_of(card.options, "--tensor-parallel-size", "-tp")
    for experts in ("num_experts", "n_routed_experts", "num_local_experts"):
        if text.get(experts) and ranks * engines > 1:
            text[experts] = 2 * ranks * engines
    if ranks > 1 and "num_attention_heads" in text:
        # Published models have enough heads and rows for this many ranks.
        text.setdefault("head_dim", text["hidden_size"] // text["num_attention_heads"])
        same = text["num_key_value_heads"] == text["num_attention_heads"]
        text["num_attention_heads"] = 2 * ranks
        text["num_key_value_heads"] = 2 * ranks if same else max(2, ranks // 2)
        for rows in ("intermediate_size", "moe_intermediate_size", "intermediate_size_mlp"):
            if text.get(rows):
                text[rows] = 4 * ranks
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}", encoding="utf-8")


class ModelCards(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="reprise_cards_")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, card):
        """What the server says when it does not start, else None."""
        folder = self.folder / "model"
        shutil.rmtree(folder, ignore_errors=True)
        make_model(folder, card)
        log = self.folder / "log"
        command = [BINARY, "serve", folder, *card.options, "--load-format", "dummy", "--port", "0"]
        with log.open("wb") as stream:
            process = subprocess.Popen(
                command, stdout=stream, stderr=stream, cwd=folder,
                env={**KEPT, "HOME": str(self.folder), **card.environment})
        text = ""
        try:
            deadline = time.monotonic() + TIMEOUT
            while time.monotonic() < deadline and process.poll() is None:
                text = log.read_text(encoding="utf-8")
                if "Application startup complete." in text:
                    url = re.search(r"http://([\d.]+:\d+)", text)[1].replace("0.0.0.0", "127.0.0.1")
                    with urllib.request.urlopen(f"http://{url}/health", timeout=30) as answer:
                        self.assertEqual(answer.status, 200)
                    return None
                time.sleep(0.05)
        finally:
            process.terminate()
            process.wait(TIMEOUT)
        return log.read_text(encoding="utf-8")

    def test_commands_start_or_say_why_not(self):
        cards = [card for card in read_cards() if RUNS_ALL or card.name in SMOKE]
        self.assertGreater(len(cards), 5)
        num_started = 0
        for card in cards:
            with self.subTest(card.name):
                begun = time.monotonic()
                said = self.start(card)
                num_started += said is None
                if RUNS_ALL:
                    last = "" if said is None else said.strip().splitlines()[-1]
                    print(f"{card.name}: {'started' if said is None else 'refused: ' + last} "
                          f"({time.monotonic() - begun:.1f} s)", flush=True)
                if card.refusal is None:
                    self.assertIsNone(said)
                else:
                    self.assertIn(card.refusal, said or "it started")
        print(f"{num_started} of {len(cards)} commands start")
        if RUNS_ALL:
            self.assertEqual(len(cards), 100)
            self.assertGreaterEqual(num_started, LEAST_SHARE * len(cards))

    def test_each_card_is_there_once(self):
        names = [card.name for card in read_cards()]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(SMOKE - set(names), set())


if __name__ == "__main__":
    BINARY, MODEL, SOURCE = (str(Path(sys.argv[1]).resolve()), Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve())
    RUNS_ALL = "--all" in sys.argv[4:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
