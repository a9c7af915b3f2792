#!/usr/bin/env python3
"""Writes the tokenizer fixtures: <kind>.tokenizer.json and <kind>.golden.json beside this script.

The oracle is the PyPI package `tokenizers`: it trains one small tokenizer per kind that real
checkpoints use, and its answers over the texts below are what src/reprise/tokenizer must give.
The pieces and the character maps of the Unigram kinds come from the package `sentencepiece`
(which needs `protobuf`), as those of published models do.
Run again only when a kind or a text is added: python make_tokenizer_goldens.py [KIND ...]
"""

import io
import json
import pathlib
import random
import sys
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent

QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

PROSE = [
    "The lighthouse keeper climbed the stairs every evening, counting each step aloud.",
    "She said she'd be late; they're waiting, we've eaten, I'm tired, he'll call, it's fine.",
    "THEY'RE SHOUTING, IT'S LOUD, WE'LL SEE, I'M DONE, DON'T.",
    "In 1984, 3.14159 was still pi, and 1,000,000 was still a million (10^6).",
    "A river of light ran between the hills, and the hills were older than any name.",
    "Naïve café owners résumé their crème brûlée façade, coöperating with Señor Ångström.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío.",
    "Портной в летнем платье пил чай у окна и слушал дождь.",
    "夜のバスは静かに丘を越え、海の見える町に着いた。",
    "今天天气很好，我们去公园散步吧。他说：“好的！”",
    "오늘은 날씨가 좋아서 산책을 했습니다.",
    "كانت السماء صافية والبحر هادئا في ذلك الصباح.",
    "בוקר טוב לכולם, מה שלומכם היום?",
    "हिन्दी में लिखा हुआ एक छोटा सा वाक्य।",
    "ภาษาไทยไม่มีช่องว่างระหว่างคำ",
]
CODE = [
    "def main(argv):\n    for i in range(10):\n        print(f\"{i:>3} {argv[i]!r}\")\n",
    "#include <vector>\nint main() { std::vector<int> v{1, 2, 3}; return v[0] == 1 ? 0 : -1; }\n",
    "if (a && b || !c) {\n\treturn x->y[42] ^ 0xDEADBEEF;\n}\n\n\n// done\n",
    "{\"name\": \"value\", \"list\": [1, 2.5e-3, null, true], \"path\": \"C:\\\\dir\\\\file\"}",
    "SELECT * FROM t WHERE id = 7 AND name LIKE '%o''brien%';",
    "https://example.org/a/b?c=d&e=%20f#frag user@example.org",
    "x_1 = __init__(self, *args, **kwargs)  # ___ === --- ***",
    "<html><body class=\"x\">&nbsp;</body></html>",
]
EMOJI = [
    "I 💚 graphs 🎉🎉 and 👩‍👩‍👧‍👦 families 👍🏽 🏳️‍🌈 🇫🇷🇯🇵",
    "😀😃😄😁😆😅😂🤣", "☃️ ☂ ✈️ ❤️‍🔥 1️⃣2️⃣3️⃣ ©®™",
]
EDGES = [
    "", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\r\n\r\n", "\t", "\t\t", " \n", "\n ", " \n ", "  \n\n  \n",
    "a", " a", "  a", "   a", "a ", "a  ", "a   ", " a ", "a b", "a  b", "a   b", "a\nb", "a \nb", "a\n b",
    "a\r\nb", "\ta", "a\t", "\t a", " \ta", "a\u00a0b", "a\u3000b", "a\u2003\u2003b", "a\u2028b\u2029c",
    "a\u200bb", "a\u200db", "\ufeffa", "a\u180eb", " \u180e ", "a\u0085b", "x\u001c\u001d\u001e\u001fy",
    "'s", "'S", "'ſ", "it''s", "'", "''", "'ll'll", "’s", "don’t", "I'D", "'re've",
    "0", "12", "123", "1234", "12345", "1234567890", "١٢٣٤", "１２３４", "½¾²³", "Ⅳ ⅷ", "1.2.3", "-1", "+1e10",
    "é", "e\u0301", "e\u0301e\u0301", "\u0301", "\u0301\u0301 a", "A\u030a\u0323", "A\u0323\u030a", "Å", "Å", "ﬁ", "ﬀ",
    "한", "\u1112\u1161\u11ab", "가각", "ạ̈", "q\u0307\u0323", "\u0344", "\u0958", "क\u093c", "𝅗𝅥", "\U0001d15e",
    "ẛ̣", "İstanbul", "ΣΑΣ ς", "ß ẞ", "ǅ", "ŉ", "①②③", "㌀", "ﷺ", "℀", "…", "ｶﾞ",
    "\x00", "a\x00b", "\x01\x02\x7f", "\x1b[31mred\x1b[0m", "\ufffd", "\ufffe", "\uffff", "\U0010ffff", "\ue000", "\U000f0000",
    "▁", "▁▁", "a▁b", "▁a", " ▁ ", "▁ ▁", "<0x41>", "<0x0A><0xFF>", "<unk>", "<s>", "</s>", "<s>a</s>", "Ġ", "ĠaĊb", "Ã©",
    "_", "__", "________________", "----------", "==========", "....", "!!!???", "\\\\\\", "///", "((((", "))))",
    "你好", "你 好", "你好。", "。。。", "「」", "日本語テキスト", "中a文b", "ａｂｃ", "ไทย", "\u0e33\u0e33", "ก็",
    "שָׁלוֹם", "مَرْحَبًا", "\u202eabc\u202c", "क्षि", "\U00020000\U0002a6d6", "𝓗𝓮𝓵𝓵𝓸", "🄰🅱", "Ⓐⓑ", "𞤀𞤁",
    "aaaaaaaaaaaaaaaaaaaaaaaa", "ababababababababab", "thethethethe", "lightlightlight", "abcabcabcabc",
]
SPECIALS = [
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>", " <|im_end|> ", "a<|im_end|>b",
    "<|im_end|><|im_end|>", "<|im_end", "im_end|>", "<|im_start|><|im_start|", "<<|im_end|>>", "<|im_end|>\n\n",
    "<tool_call>\n{\"name\": \"f\"}\n</tool_call>", "<tool_call><tool_call>", "<tool_callx>", " <tool_call> x",
    "x  <lstrip>  y", "x<lstrip>", "  <lstrip>", "\n\t <lstrip> <lstrip>", "x  <rstrip>  y", "<rstrip>  ", "<rstrip>\n\t<rstrip> a",
    "x <both> y", "  <both>  <both>  ", "word wordly aword word. (word) word_ éword word", "word", "wordword", "word word",
    "<|im_end|>word<|im_end|>", "WORD Word", "CAFÉ café cafe\u0301 cafe\u0301x", "Ⓐword word\u0301 word\u200d", "<lstrip><rstrip>  <lstrip>",
    "<long><longer><longer_still>", "<longer_stil", "<long", "<s> a <s>b</s>  </s>", "  <s>  <s>", "<pad><unk>",
    "<|begin_of_text|>Hi<|eot_id|>", "<|begin_of_text|><|begin_of_text|>", "<|eot_id|> <|eot_id|>",
]


def random_texts(count, seed):
    rng = random.Random(seed)
    ranges = [(0x20, 0x7e), (0x20, 0x7e), (0x0, 0x1f), (0xa0, 0x17f), (0x300, 0x36f), (0x370, 0x4ff), (0x590, 0x6ff),
              (0x900, 0x97f), (0xe00, 0xe7f), (0x1100, 0x11ff), (0x1e00, 0x1fff), (0x2000, 0x206f), (0x2100, 0x21ff),
              (0x3000, 0x30ff), (0x4e00, 0x4fff), (0xac00, 0xadff), (0xf900, 0xfaff), (0xfe00, 0xffef),
              (0x1f300, 0x1f64f), (0x1d400, 0x1d4ff)]
    common = list(" \n\t\r'▁_0123456789aeiou") + ["the", " the", "  ", "<|im_end|>", "<s>", "word", "<lstrip>", "<rstrip>"]
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randrange(1, 24)):
            if rng.random() < 0.5:
                parts.append(rng.choice(common))
            else:
                low, high = rng.choice(ranges)
                parts.append("".join(chr(rng.randint(low, high)) for _ in range(rng.randrange(1, 4))))
        texts.append("".join(parts))
    return texts


def mixed_texts(count, seed):
    rng = random.Random(seed)
    words = " ".join(PROSE + EMOJI).split(" ") + CODE
    seams = [" ", " ", " ", "  ", "\n", "\n\n", "\t", "", ", ", "<|im_end|>", "...", " 12345 ", " — "]
    return ["".join(rng.choice(words) + rng.choice(seams) for _ in range(rng.randrange(2, 14))) for _ in range(count)]


TEXTS = PROSE + CODE + EMOJI + EDGES + SPECIALS + mixed_texts(60, 11) + random_texts(150, 7)

# Rows: name, repeated unit, repeats, tail. Each text has about 1 MB; the C++ test builds the same strings.
ADVERSARIAL = [
    ("letters", "a", 1_000_000, ""), ("underscores", "_", 1_000_000, ""), ("spaces", " ", 1_000_000, "x"),
    ("newlines", "\n", 1_000_000, ""), ("cjk", "中", 333_333, ""), ("emoji", "😀", 250_000, ""),
    ("digits", "7", 1_000_000, ""), ("alternating", "ab", 500_000, ""), ("marks", "\u0301\u0323", 250_000, ""),
    ("words", "the light ", 100_000, ""), ("almost_special", "<|im_en", 140_000, "d|>"),
]

SPECIAL_NAMES = ["<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|eot_id|>"]


def train(tokenizer, vocab_size, special, alphabet):
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=special, initial_alphabet=alphabet,
                                  show_progress=False, min_frequency=1)
    extra = [" a" * 8 + "a" * 24, "  " * 16, "________", "\n\n\n\n", "abababab", "\t\t\t\t"]
    tokenizer.train_from_iterator((PROSE + CODE + EMOJI + extra) * 3, trainer)
    return tokenizer


def add_tokens(tokenizer, special):
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    tokenizer.add_tokens([
        AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False),
        AddedToken("<lstrip>", lstrip=True, normalized=False), AddedToken("<rstrip>", rstrip=True, normalized=False),
        AddedToken("<both>", lstrip=True, rstrip=True, normalized=False),
        AddedToken("word", single_word=True, normalized=False), AddedToken("cafe\u0301", normalized=True),
        AddedToken("<long>", normalized=False), AddedToken("<longer>", normalized=False),
        AddedToken("<longer_still>", normalized=False),
    ])


def qwen2():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    train(t, 900, [], pre_tokenizers.ByteLevel.alphabet())
    add_tokens(t, SPECIAL_NAMES)
    return t


def llama3():
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, 900, [], pre_tokenizers.ByteLevel.alphabet())
    add_tokens(t, SPECIAL_NAMES)
    # Words that no merge produces: only ignore_merges finds them.
    data = json.loads(t.to_str())
    merges = data["model"]["merges"]
    del merges[len(merges) // 2::5]
    t = Tokenizer.from_str(json.dumps(data))
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A $B",
                                      special_tokens=[("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))])])
    return t


def gpt2():
    t = Tokenizer(models.BPE(continuing_subword_prefix="", end_of_word_suffix=""))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=True)
    train(t, 700, [], pre_tokenizers.ByteLevel.alphabet())
    add_tokens(t, SPECIAL_NAMES)
    return t


def falcon():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip(),
                                         normalizers.Replace(Regex(r"[\u2018\u2019]"), "'")])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    t.decoder = decoders.ByteLevel()
    train(t, 600, [], pre_tokenizers.ByteLevel.alphabet())
    add_tokens(t, SPECIAL_NAMES)
    return t


BYTES = [f"<0x{b:02X}>" for b in range(256)]


def llama2():
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    # Trained word by word, then used without a pre-tokenizer, like the published files.
    t.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    train(t, 900, ["<unk>", "<s>", "</s>"] + BYTES, [])
    t.pre_tokenizer = None
    data = json.loads(t.to_str())
    # The trainer made the byte pieces special; in published files they are ordinary pieces.
    data["added_tokens"] = [a for a in data["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(data))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    add_tokens(t, ["<|im_end|>"])
    return t


def mistral():
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=True)
    train(t, 800, ["<unk>", "<s>", "</s>"] + BYTES, [])
    t.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False)
    data = json.loads(t.to_str())
    data["added_tokens"] = [a for a in data["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(data))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B", special_tokens=[("<s>", 1), ("</s>", 2)])
    add_tokens(t, ["<|im_end|>"])
    return t


def metaspace():
    """No byte fallback: unknown characters become <unk>; decoder is Metaspace; digits one by one."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    t.normalizer = normalizers.NFKD()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=True), pre_tokenizers.Digits(individual_digits=True)])
    t.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False)
    t.train_from_iterator(PROSE[:8], trainer)
    add_tokens(t, ["<|im_end|>"])
    return t


def bert():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=30))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=700, special_tokens=special, show_progress=False)
    t.train_from_iterator(PROSE + CODE, trainer)
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, t.token_to_id(name)) for name in ("[CLS]", "[SEP]")])
    add_tokens(t, ["<|im_end|>"])
    return t


def sentencepiece_model(corpus, vocab_size, **options):
    """The pieces of a Unigram model with their scores, and its character map."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=out, vocab_size=vocab_size, model_type="unigram", hard_vocab_limit=False,
        character_coverage=0.98, num_threads=1, minloglevel=2, **options)
    model = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    return [(piece.piece, piece.score) for piece in model.pieces], model.normalizer_spec.precompiled_charsmap


def unigram(vocab, unk_id, byte_fallback, charsmap, steps):
    """A tokenizer whose normalizer begins with a character map."""
    t = Tokenizer(models.Unigram(vocab, unk_id=unk_id, byte_fallback=byte_fallback))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), *steps])
    return t


def xlm_roberta():
    """As in the class XLMRobertaTokenizerFast: the map nmt_nfkc of published models, no byte fallback."""
    pieces, charsmap = sentencepiece_model(PROSE + CODE, 900, normalization_rule_name="nmt_nfkc")
    vocab = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *pieces[3:], ("<mask>", 0.0)]
    t = unigram(vocab, 3, False, charsmap, [normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                               pre_tokenizers.Metaspace("▁", prepend_scheme="always")])
    t.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False, special=True)])
    add_tokens(t, ["<s>", "<pad>", "</s>", "<unk>", "<|im_end|>"])
    return t


# Maps one and several characters, to nothing and to longer texts; one sequence is the beginning of another.
T5_MAP = {"A": "a", "B": "b", "É": "e", "e\u0301": "E", "\u0301": "", "…": "...", "ﬁ": "fi", "ß": "ss", "\t": " ", "\n": " ",
          "\r": " ", "x": "", "ab": "AB", "abc": "", "😀": ":-)", "か\u3099": "が", "한": "", "\u200d": " ", "０": "0", "１": "1"}


def t5():
    """As in the class T5TokenizerFast, with a small map of our own and byte fallback."""
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as rules:
        for source, target in T5_MAP.items():
            rules.write("\t".join(" ".join(f"{ord(c):X}" for c in text) for text in (source, target)) + "\n")
        rules.flush()
        pieces, charsmap = sentencepiece_model(PROSE + EMOJI, 700, normalization_rule_tsv=rules.name, byte_fallback=True, pad_id=0,
                                               eos_id=1, unk_id=2, bos_id=-1)
    vocab = pieces + [(f"<extra_id_{i}>", 0.0) for i in range(3)]
    t = unigram(vocab, 2, True, charsmap, [normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")])
    t.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=True)
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace("▁", prepend_scheme="first")])
    t.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    add_tokens(t, ["<pad>", "</s>", "<unk>", "<extra_id_0>", "<extra_id_1>", "<extra_id_2>"])
    return t


def without_special_pieces(text):
    """The tokenizer for text of users: its model cannot spell a special token.

    `encode_special_tokens` alone still lets a Unigram model choose the piece "</s>".
    """
    data = json.loads(text)
    vocab = data["model"]["vocab"]
    unknown = data["model"]["unk_id"]  # its text is a plain one
    data["added_tokens"] = [token for token in data["added_tokens"] if token["id"] != unknown]
    for token in data["added_tokens"]:
        if not token["special"]:
            continue
        token["content"] = chr(0x10F000 + token["id"])  # a character for private use, which none of the texts contains
        if token["id"] < len(vocab):
            vocab[token["id"]][0] = token["content"]
    data["post_processor"] = None
    return Tokenizer.from_str(json.dumps(data))


KINDS = {"qwen2": qwen2, "llama3": llama3, "gpt2": gpt2, "falcon": falcon, "llama2": llama2, "mistral": mistral,
         "metaspace": metaspace, "bert": bert, "xlm-roberta": xlm_roberta, "t5": t5}


def digest(ids):
    value = 0xcbf29ce484222325
    for i in ids:
        value = ((value ^ i) * 0x100000001b3) & 0xffffffffffffffff
    return f"{value:016x}"


def golden(kind, tokenizer):
    is_unigram = isinstance(tokenizer.model, models.Unigram)
    plain_tokenizer = without_special_pieces(tokenizer.to_str()) if is_unigram else None
    cases = []
    for text in TEXTS:
        tokenizer.encode_special_tokens = False
        with_special = tokenizer.encode(text).ids
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        if plain_tokenizer:
            as_text = plain_tokenizer.encode(text, add_special_tokens=False).ids
        else:
            tokenizer.encode_special_tokens = True
            as_text = tokenizer.encode(text, add_special_tokens=False).ids
        case = {"text": text, "ids": plain, "decoded": tokenizer.decode(plain, skip_special_tokens=False)}
        if with_special != plain:
            case["with_special"] = with_special
        if as_text != plain:
            case["as_text"] = as_text
        skipped = tokenizer.decode(plain, skip_special_tokens=True)
        if skipped != case["decoded"]:
            case["decoded_skip"] = skipped
        cases.append(case)
    tokenizer.encode_special_tokens = False
    rng = random.Random(5)
    size = tokenizer.get_vocab_size()
    decodes = []
    for _ in range(120):
        high = rng.choice([size, min(size, 300)])
        ids = [rng.randrange(high) for _ in range(rng.randrange(0, 24))]
        decodes.append({"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                        "decoded_skip": tokenizer.decode(ids, skip_special_tokens=True)})
    adversarial = []
    for name, unit, repeats, tail in ADVERSARIAL:
        ids = tokenizer.encode(unit * repeats + tail, add_special_tokens=False).ids
        adversarial.append({"name": name, "unit": unit, "repeats": repeats, "tail": tail, "count": len(ids),
                            "digest": digest(ids)})
    return {"kind": kind, "cases": cases, "decodes": decodes, "adversarial": adversarial}


def main():
    for kind, build in KINDS.items():
        if sys.argv[1:] and kind not in sys.argv[1:]:
            continue
        tokenizer = build()
        data = json.loads(tokenizer.to_str())
        if kind in ("gpt2", "llama2"):  # the older form: merges as "a b"
            data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
        text = json.dumps(data, ensure_ascii=False, indent=None, separators=(",", ":"))
        (HERE / f"{kind}.tokenizer.json").write_text(text, encoding="utf-8")
        record = golden(kind, Tokenizer.from_str(text))
        ascii_only = kind in ("qwen2", "llama2")  # both spellings of JSON strings get read
        (HERE / f"{kind}.golden.json").write_text(
            json.dumps(record, ensure_ascii=ascii_only, separators=(",", ":")) + "\n", encoding="utf-8")
        print(kind, tokenizer.get_vocab_size(), len(record["cases"]), len(record["adversarial"]), flush=True)


if __name__ == "__main__":
    main()
