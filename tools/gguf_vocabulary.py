"""The metadata of a tokenizer.json, as llama.cpp's convert_hf_to_gguf.py writes it."""

import json
import re
from pathlib import Path

U32, I32, FLOAT, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
CONTROL = 3  # the token type of control tokens

PATTERNS = {r"\p{N}{1,3}": "llama-bpe", r"|\p{N}|": "qwen2", "[0-9][0-9][0-9]": "falcon"}


def pre_of(tokenizer: dict) -> str:
    text = json.dumps(tokenizer["pre_tokenizer"]).replace("\\\\", "\\")
    return next((name for pattern, name in PATTERNS.items() if pattern in text), "gpt-2")


def word_piece(text: str, kind: int) -> str:
    """The piece of WordPiece as the file has it: a mark where a word begins, instead of one where it goes on."""
    return text if kind == CONTROL else text[2:] if text.startswith("##") else "\u2581" + text


def token_type(text: str, added: dict | None, is_sentencepiece: bool) -> int:
    if added is not None:
        return 2 if is_sentencepiece and text == "<unk>" else CONTROL if added["special"] else 4
    return 6 if is_sentencepiece and re.fullmatch("<0x[0-9A-F]{2}>", text) else 1


def tokenizer_keys(folder: Path, vocab_size: int = 0) -> list[tuple[str, int, object]]:
    path = folder / "tokenizer.json"
    if not path.exists():
        return []
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    model = tokenizer["model"]
    texts = {token: id for token, id in model["vocab"].items()}
    added = {item["id"]: item for item in tokenizer["added_tokens"]}
    texts.update({item["content"]: id for id, item in added.items()})
    by_id = {id: text for text, id in texts.items()}
    # llama.cpp refuses a file whose token list is shorter than its embedding.
    size = max(max(by_id) + 1, vocab_size)
    tokens = [by_id.get(id, f"[PAD{id}]") for id in range(size)]
    is_sentencepiece = bool(model.get("byte_fallback"))
    types = [5 if id not in by_id else token_type(text, added.get(id), is_sentencepiece)
             for id, text in enumerate(tokens)]
    if model["type"] == "WordPiece":
        return [("tokenizer.ggml.model", STRING, "bert"), ("tokenizer.ggml.pre", STRING, "default"),
                ("tokenizer.ggml.tokens", ARRAY, (STRING, list(map(word_piece, tokens, types)))),
                ("tokenizer.ggml.token_type", ARRAY, (I32, types)),
                *special_token_keys(folder, tokenizer, texts)]
    merges = [tuple(merge.split(" ", 1)) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
    keys = [
        ("tokenizer.ggml.model", STRING, "llama" if is_sentencepiece else "gpt2"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.token_type", ARRAY, (I32, types)),
    ]
    if is_sentencepiece:  # a token gets the rank of the first merge that makes it
        ranks: dict[str, int] = {}
        for rank, (left, right) in enumerate(merges):
            ranks.setdefault(left + right, rank)
        scores = [-float(ranks.get(token, 0)) for token in tokens]
        keys.append(("tokenizer.ggml.scores", ARRAY, (FLOAT, scores)))
    else:
        keys += [("tokenizer.ggml.pre", STRING, pre_of(tokenizer)),
                 ("tokenizer.ggml.merges", ARRAY, (STRING, [" ".join(merge) for merge in merges]))]
    return keys + special_token_keys(folder, tokenizer, texts)


def special_token_keys(folder: Path, tokenizer: dict, ids: dict) -> list[tuple[str, int, object]]:
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    keys = []
    is_word_piece = tokenizer["model"]["type"] == "WordPiece"
    for member, name in (("cls_token" if is_word_piece else "bos_token", "bos"), ("eos_token", "eos"), ("pad_token", "padding"),
                         ("unk_token", "unknown"), ("sep_token", "seperator"), ("mask_token", "mask")):
        token = config.get(member)
        token = token["content"] if isinstance(token, dict) else token
        if token is not None:
            keys.append((f"tokenizer.ggml.{name}_token_id", U32, ids[token]))
    if is_word_piece:
        return keys
    if '"bos_token"' not in json.dumps(config) or config.get("bos_token") is None:
        keys.append(("tokenizer.ggml.add_bos_token", BOOL, False))
    else:
        keys.append(("tokenizer.ggml.add_bos_token", BOOL, "SpecialToken" in json.dumps(tokenizer["post_processor"])))
    if isinstance(config.get("chat_template"), str):
        keys.append(("tokenizer.chat_template", STRING, config["chat_template"]))
    path = folder / "generation_config.json"
    generation = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if generation.get("do_sample") is False:
        keys.append(("general.sampling.temp", FLOAT, 0.0))
    return keys
