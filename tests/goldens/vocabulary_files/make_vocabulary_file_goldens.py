#!/usr/bin/env python3
"""Writes the folders beside this script: a small tokenizer without tokenizer.json, and golden.json with its answers.

The vocabularies are trained by the PyPI packages `sentencepiece` and `tokenizers` on the texts of
../tokenizers/make_tokenizer_goldens.py. The answers are those of `transformers` (5.24), which converts such folders when
it loads them; for tekken.json its converter, and for files of tiktoken the package `tiktoken`. For SentencePiece models
without a character map the script also asserts that `sentencepiece` itself gives the same ids.
Run again only when a kind or a text is added: python make_vocabulary_file_goldens.py [KIND ...]
"""

import base64
import io
import json
import os
import pathlib
import sys
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tokenizers"))

import make_tokenizer_goldens as shared  # noqa: E402
import sentencepiece  # noqa: E402
import tiktoken  # noqa: E402
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers  # noqa: E402
from tokenizers.implementations import BertWordPieceTokenizer  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402
from transformers.convert_slow_tokenizer import bytes_to_unicode  # noqa: E402
from transformers.integrations.mistral.tokenizer import MistralConverter  # noqa: E402
from transformers.tokenization_utils_tokenizers import TokenizersBackend  # noqa: E402

CORPUS = [line for text in shared.PROSE[:9] + shared.CODE for line in text.split("\n") if line.strip()] * 3
SPELLED = [
    "<unk>", "<s>", "</s>", " <s> a</s>b ", "<mask>", "a <mask> b", "[MASK] x", "<extra_id_3>a<extra_id_99>",
    "<|endoftext|>", "a<|endoftext|> b", "<start_of_turn>user\nHi<end_of_turn>\n", "[INST]", "[CLS] [SEP]",
    "<|user|>  Hi", "<tool> a <tool>", "<|im_start|>user\nHi<|im_end|>", "<tool_call>{}</tool_call>", "[BOS]a[EOS]",
    "abc abcabc xabcx", "a\n\nb\n\n\nc", "\t\ta\t\tb", "▁▁▁ ▁a", "a   b", "   a   ", "don't I'LL", "漢字abc中文Abc",
    "``a'' ÀÉ ﬁ ① ｱｲ", "\ufb01\u3000\uff21", "a\u0301\u0323", "x<0x41>y", "\x00\x01a\x7f", "\U0010ffff\ue000",
]
TEXTS = shared.PROSE[::3] + shared.CODE[::3] + shared.EMOJI[:1] + shared.EDGES[:40:2] + SPELLED + shared.random_texts(14, 5)

LLAMA = {
    "model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
    "split_digits": True, "allow_whitespace_only_pieces": True, "vocab_size": 420, "character_coverage": 0.98,
}
GEMMA = {
    **LLAMA, "add_dummy_prefix": False, "pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "bos_piece": "<bos>",
    "eos_piece": "<eos>", "pad_piece": "<pad>",
    "user_defined_symbols": ["<mask>", "<start_of_turn>", "<end_of_turn>", "\n\n", "\n\n\n", "▁▁", "▁▁▁", "\t\t"],
}
UNIGRAM = {"model_type": "unigram", "vocab_size": 220, "character_coverage": 0.98}
# A small character map, because SentencePiece's own would add 240 KB to a file of a few KB.
MAP = "FB01\t66 69\n2460\t31\n3000\t20\nFF21\t41\n61 0301\t E1\nFF71\t30A2\nA0\t20\n9\t20\nA\t20\n".replace("\t E1", "\tE1")


def token(content, **flags):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
            "__type": "AddedToken", **flags}


def decoder_entry(content, special=True, **flags):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
            "special": special, **flags}


def save(folder, name, content):
    data = content if isinstance(content, bytes) else (json.dumps(content, ensure_ascii=False) + "\n").encode()
    (folder / name).write_bytes(data)


def train_sentencepiece(folder, name, has_map=False, **options):
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        if has_map:
            rules.write(MAP)
            rules.flush()
            options["normalization_rule_tsv"] = rules.name
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS), model_writer=model, minloglevel=2, num_threads=1, **options)
    save(folder, name, without_trainer_paths(model.getvalue()))


def without_trainer_paths(model):
    """The names of the trainer's temporary files are not part of a golden."""
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    return proto.SerializeToString()


def train_byte_level(folder, specials, pre_tokenizer, vocab_size=330):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=specials,
        show_progress=False))
    tokenizer.model.save(str(folder))
    return tokenizer.get_vocab_size()


WORDS = pre_tokenizers.ByteLevel(add_prefix_space=False)
QWEN = pre_tokenizers.Sequence([
    pre_tokenizers.Split(Regex(shared.QWEN2), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
KIMI = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def ranked_tokens():
    """Tokens as bytes by rank: the bytes, then what Qwen's expression merges."""
    with tempfile.TemporaryDirectory() as folder:
        train_byte_level(pathlib.Path(folder), [], QWEN)
        vocab = json.loads((pathlib.Path(folder) / "vocab.json").read_text())
    byte_of = {letter: byte for byte, letter in bytes_to_unicode().items()}
    merged = [bytes(byte_of[c] for c in text) for text, _ in sorted(vocab.items(), key=lambda item: item[1])]
    return [bytes([byte]) for byte in range(256)] + [text for text in merged if len(text) > 1]


def tiktoken_lines():
    return "".join(f"{base64.b64encode(t).decode()} {i}\n" for i, t in enumerate(ranked_tokens())).encode()


# --- one function per kind: writes the folder's files

def llama(folder):
    train_sentencepiece(folder, "tokenizer.model", **LLAMA)
    save(folder, "tokenizer_config.json", {
        "tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False, "bos_token": token("<s>"),
        "eos_token": token("</s>"), "unk_token": token("<unk>"), "legacy": True})


def llama_new(folder):
    train_sentencepiece(folder, "tokenizer.model", **LLAMA)
    added = ["<unk>", "<s>", "</s>"]
    save(folder, "tokenizer_config.json", {
        "tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": True, "bos_token": "<s>",
        "eos_token": "</s>", "unk_token": "<unk>", "legacy": False, "added_tokens_decoder": {
            **{str(i): decoder_entry(text) for i, text in enumerate(added)},
            "420": decoder_entry("<|user|>", rstrip=True), "421": decoder_entry("<tool>", special=False)}})


def gemma(folder):
    train_sentencepiece(folder, "tokenizer.model", **GEMMA)
    save(folder, "tokenizer_config.json", {
        "tokenizer_class": "GemmaTokenizer", "add_bos_token": True, "bos_token": "<bos>", "eos_token": "<eos>",
        "unk_token": "<unk>", "pad_token": "<pad>",
        "added_tokens_decoder": {"5": decoder_entry("<start_of_turn>"), "6": decoder_entry("<end_of_turn>")}})


def internlm2(folder):
    train_sentencepiece(folder, "tokenizer.model", **{**LLAMA, "user_defined_symbols": ["[UNUSED_TOKEN_1]", "abc"]})
    save(folder, "tokenizer_config.json", {
        "tokenizer_class": "InternLM2Tokenizer", "add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>",
        "unk_token": "<unk>"})
    save(folder, "added_tokens.json", {"<|im_start|>": 420, "<|im_end|>": 421})


def sentencepiece_words(folder):
    train_sentencepiece(folder, "tokenizer.model", has_map=True, model_type="bpe", vocab_size=300, character_coverage=0.98)


def unigram_bytes(folder):
    train_sentencepiece(folder, "tokenizer.model", **{
        **UNIGRAM, "byte_fallback": True, "normalization_rule_name": "identity", "vocab_size": 420})


def t5(folder):
    train_sentencepiece(folder, "spiece.model", has_map=True, **UNIGRAM, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    save(folder, "tokenizer_config.json", {
        "tokenizer_class": "T5Tokenizer", "extra_ids": 100, "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>",
        "additional_special_tokens": [f"<extra_id_{i}>" for i in range(100)]})


def xlm_roberta(folder):
    train_sentencepiece(folder, "sentencepiece.bpe.model", has_map=True, **UNIGRAM)
    save(folder, "tokenizer_config.json", {
        "tokenizer_class": "XLMRobertaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>",
        "cls_token": "<s>", "unk_token": "<unk>", "pad_token": "<pad>", "mask_token": token("<mask>", lstrip=True)})


def albert(folder):
    train_sentencepiece(folder, "spiece.model", has_map=True, **UNIGRAM, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
                        control_symbols=["[CLS]", "[SEP]", "[MASK]"])
    save(folder, "tokenizer_config.json", {
        "tokenizer_class": "AlbertTokenizer", "do_lower_case": True, "keep_accents": False,
        "mask_token": token("[MASK]", lstrip=True)})


def gpt2(folder):
    train_byte_level(folder, ["<|endoftext|>"], WORDS)
    save(folder, "config.json", {"model_type": "gpt2"})  # no file names the class


def opt(folder):
    train_byte_level(folder, ["<s>", "<pad>", "</s>", "<unk>"], WORDS)
    save(folder, "tokenizer_config.json", {
        "tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "bos_token": token("</s>"), "eos_token": token("</s>"),
        "unk_token": token("</s>"), "pad_token": token("<pad>")})


def roberta(folder):
    train_byte_level(folder, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], WORDS)
    save(folder, "tokenizer_config.json",
         {"tokenizer_class": "RobertaTokenizer", "mask_token": token("<mask>", lstrip=True)})


def qwen2(folder):
    count = train_byte_level(folder, [], QWEN)
    added = [("<|endoftext|>", True), ("<|im_start|>", True), ("<|im_end|>", True), ("<tool_call>", False)]
    save(folder, "tokenizer_config.json", {
        "tokenizer_class": "Qwen2Tokenizer", "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "added_tokens_decoder": {str(count + i): decoder_entry(*entry) for i, entry in enumerate(added)}})


def bert(folder):
    tokenizer = BertWordPieceTokenizer()
    tokenizer.train_from_iterator(CORPUS, vocab_size=320, limit_alphabet=120, show_progress=False)
    tokenizer.save_model(str(folder))
    save(folder, "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": True})


def tekken(folder):
    tokens = ranked_tokens()
    specials = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<pad>"]
    save(folder, "tekken.json", {
        "config": {"pattern": TEKKEN, "default_vocab_size": len(tokens) - 5 + 10, "default_num_special_tokens": 10,
                   "version": "v11"},
        "vocab": [{"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": None} for i, t in enumerate(tokens)],
        "special_tokens": [{"rank": i, "token_str": t, "is_control": True} for i, t in enumerate(specials)]})


def kimi(folder):
    save(folder, "tiktoken.model", tiktoken_lines())
    count = len(ranked_tokens())
    save(folder, "tokenizer_config.json", {
        "tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]",
        "added_tokens_decoder": {str(count): decoder_entry("[BOS]"), str(count + 1): decoder_entry("[EOS]")}})


def qwen1(folder):
    save(folder, "qwen.tiktoken", tiktoken_lines())
    save(folder, "tokenizer_config.json", {"tokenizer_class": "QWenTokenizer"})


# --- the oracles

class Fast:
    def __init__(self, tokenizer, bos=()):
        self.tokenizer, self.bos = tokenizer, list(bos)

    def answer(self, text):
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids, self.bos + self.tokenizer.encode(text).ids

    def decode(self, ids, skip):
        return self.tokenizer.decode(ids, skip_special_tokens=skip)


class Tiktoken:
    def __init__(self, pattern, names):
        tokens = ranked_tokens()
        self.specials = {name: len(tokens) + i for i, name in enumerate(names)}
        self.encoding = tiktoken.Encoding(
            "golden", pat_str=pattern, mergeable_ranks={t: i for i, t in enumerate(tokens)}, special_tokens=self.specials)

    def answer(self, text):
        ids = self.encoding.encode(text, allowed_special="all")
        return ids, ids

    def decode(self, ids, skip):
        return self.encoding.decode([i for i in ids if not (skip and i in self.specials.values())])


def auto(folder):
    return Fast(AutoTokenizer.from_pretrained(str(folder))._tokenizer)


def by_model(folder):
    return Fast(TokenizersBackend.from_pretrained(str(folder))._tokenizer)


def mistral(folder):
    return Fast(MistralConverter(str(folder / "tekken.json")).converted(), bos=[1])


KINDS = {
    "llama": (llama, by_model), "llama-new": (llama_new, by_model), "gemma": (gemma, by_model),
    "internlm2": (internlm2, by_model), "sentencepiece-words": (sentencepiece_words, by_model),
    "unigram-bytes": (unigram_bytes, by_model), "t5": (t5, auto), "xlm-roberta": (xlm_roberta, auto),
    "albert": (albert, auto), "gpt2": (gpt2, auto), "opt": (opt, auto), "roberta": (roberta, auto), "qwen2": (qwen2, auto),
    "bert": (bert, auto), "tekken": (tekken, mistral),
    "kimi": (kimi, lambda folder: Tiktoken(KIMI, ["[BOS]", "[EOS]"])),
    "qwen1": (qwen1, lambda folder: Tiktoken(shared.QWEN2, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])),
}
# Kinds whose ids must also equal SentencePiece's, for texts that spell no special token.
EXACT = {"llama", "gemma", "internlm2"}
SPELLINGS = ["<unk>", "<s>", "</s>", "<start_of_turn>", "<end_of_turn>", "<|im_", "<0x"]


def make(kind):
    folder = HERE / kind
    folder.mkdir(exist_ok=True)
    write, oracle_of = KINDS[kind]
    write(folder)
    oracle = oracle_of(folder)
    plain = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model")) if kind in EXACT else None
    cases = []
    for text in TEXTS:
        ids, with_special = oracle.answer(text)
        if plain and not any(spelling in text for spelling in SPELLINGS):
            assert plain.encode(text) == ids, (kind, text)
        case = {"text": text, "ids": ids, "decoded": oracle.decode(ids, False)}
        if with_special != ids:
            case["with_special"] = with_special
        if (skipped := oracle.decode(ids, True)) != case["decoded"]:
            case["decoded_skip"] = skipped
        cases.append(case)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    (folder / "golden.json").write_text(f'{{"cases":[\n{lines}\n]}}\n', encoding="utf-8")
    print(kind, len(cases))


if __name__ == "__main__":
    for name in sys.argv[1:] or KINDS:
        make(name)
