#!/usr/bin/env python3
"""Writes tests/goldens/classifiers/<name>/: a tiny random model that scores labels, and the scores of Transformers.

    python tools/make_classifier_goldens.py [NAME ...]   # write these, or all (needs torch and transformers)
    python tools/make_classifier_goldens.py --check      # compute again from the committed checkpoints and compare

Each folder has config.json, model.safetensors (bfloat16) and a tokenizer.json of 96 letters (a Unigram model for XLM-RoBERTa). golden.json has single texts and
pairs of texts, for each of them the token ids and types that the class PreTrainedTokenizerFast makes of it, and the scores
that Transformers computes in float32 with eager attention, each text alone.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, PreTrainedTokenizerFast

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "integration"))
from architectures_test import LETTERS, write_tokenizer  # noqa: E402 - after the path is set
from make_architecture_goldens import BASE  # noqa: E402
from make_pooling_goldens import BERT, MODERN_BERT, ROBERTA, SHAPES as POOLING_SHAPES, draw_encoder  # noqa: E402

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "classifiers"
QWEN3 = BASE | dict(head_dim=16, pad_token_id=0)
DISTIL = POOLING_SHAPES["distilbert-mean"][1]
LABELS = dict(id2label={0: "odd", 1: "good", 2: "bad"}, label2id={"odd": 0, "good": 1, "bad": 2})
CLS, SEP = LETTERS[-2:]

# Each: the class of Transformers, the arguments of its config, and the members that are changed in config.json.
SHAPES: dict[str, tuple[str, dict, dict]] = {
    "bert-pairs": ("Bert", BERT | dict(num_labels=1), {}),
    "bert-labels": ("Bert", BERT | LABELS, {}),
    "roberta-labels": ("Roberta", ROBERTA | LABELS, {}),
    "xlm-roberta-pairs": ("XLMRoberta", ROBERTA | dict(num_labels=1), {}),
    "distilbert-labels": ("DistilBert", DISTIL | LABELS, {}),
    "modernbert-labels": ("ModernBert", MODERN_BERT | LABELS | dict(classifier_pooling="mean"), {}),
    "qwen3-score": ("Qwen3", QWEN3 | dict(num_labels=1), {}),
    # Qwen3-Reranker is published as a model for text; the user's options turn it into a classifier.
    "qwen3-yes-no": ("Qwen3", QWEN3 | dict(tie_word_embeddings=True), dict(
        architectures=["Qwen3ForSequenceClassification"], classifier_from_token=["n", "y"], is_original_qwen3_reranker=True)),
}
TEXTS = ("a", "what+is+this", "Reprise")
PAIRS = (("a", "b"), ("where+is+it", "it+is+here"), ("query", "a+long+document,+with+many+letters"), ("xyz", "q"))


def write_pair_template(path: Path) -> None:
    """The post-processor of BERT's tokenizer."""
    tokenizer = json.loads(path.read_text(encoding="utf-8"))

    def special(token, kind):
        return {"SpecialToken": {"id": token, "type_id": kind}}

    def text(name, kind):
        return {"Sequence": {"id": name, "type_id": kind}}

    single = [special(CLS, 0), text("A", 0), special(SEP, 0)]
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing", "single": single, "pair": [*single, text("B", 1), special(SEP, 1)],
        "special_tokens": {token: {"id": token, "ids": [LETTERS.index(token)], "tokens": [token]} for token in (CLS, SEP)}}
    path.write_text(json.dumps(tokenizer), encoding="utf-8")


def write_roberta_template(path: Path) -> None:
    """The post-processor of RoBERTa's tokenizer: no types, and two tokens between two texts."""
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    tokenizer["post_processor"] = {"type": "RobertaProcessing", "sep": [SEP, LETTERS.index(SEP)], "cls": [CLS, LETTERS.index(CLS)],
                                   "trim_offsets": True, "add_prefix_space": False}
    path.write_text(json.dumps(tokenizer), encoding="utf-8")


def write_unigram_tokenizer(path: Path) -> None:
    """A tokenizer of XLM-RoBERTa's form, whose first ids are <s>, <pad>, </s> and <unk>."""
    marks = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    names = ("<s>", "<pad>", "</s>", "<unk>")
    pieces = [(name, 0.0) for name in names] + [("\u2581", -2.0), ("is", -3.0), ("\u2581wh", -3.5)]
    letters = [letter for letter in LETTERS if letter.isascii()]
    pieces += [(letter, -4.0 - i / 8) for i, letter in enumerate(letters[-(len(LETTERS) - len(pieces)):])]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(marks)
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    tokenizer.add_special_tokens(list(names))
    path.write_text(tokenizer.to_str(), encoding="utf-8")


def write_checkpoint(name: str, out: Path) -> None:
    cls, arguments, changes = SHAPES[name]
    config = getattr(transformers, cls + "Config")(**arguments)
    auto = AutoModelForCausalLM if "classifier_from_token" in changes else AutoModelForSequenceClassification
    model = auto.from_config(config, attn_implementation="eager")
    draw_encoder(model, config)
    model.to(torch.bfloat16).save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)
    (out / "model.safetensors").chmod(0o644)
    path = out / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes, indent=2) + "\n")
    write_tokenizer(out)
    write = {"Bert": write_pair_template, "Roberta": write_roberta_template, "XLMRoberta": write_unigram_tokenizer, "DistilBert": write_pair_template,
             "ModernBert": write_pair_template}.get(cls)
    if write:
        write(out / "tokenizer.json")


@torch.inference_mode()
def compute(name: str, folder: Path) -> dict:
    cls, _, changes = SHAPES[name]
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    is_made_of_tokens = "classifier_from_token" in changes
    model = getattr(transformers, cls + ("ForCausalLM" if is_made_of_tokens else "ForSequenceClassification")).from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()

    def score(*texts):
        if is_made_of_tokens:
            texts = ("".join(texts),)
        encoded = tokenizer(*texts, return_token_type_ids=True)
        inputs = dict(input_ids=torch.tensor([encoded["input_ids"]]))
        if cls == "Bert":
            inputs["token_type_ids"] = torch.tensor([encoded["token_type_ids"]])
        logits = model(**inputs).logits[0]
        if is_made_of_tokens:
            no, yes = (LETTERS.index(token) for token in changes["classifier_from_token"])
            logits = logits[-1, [yes]] - logits[-1, [no]]
        return dict(texts=texts, ids=encoded["input_ids"], scores=logits.tolist())

    return dict(texts=[score(text) for text in TEXTS], pairs=[dict(score(*pair), texts=pair) for pair in PAIRS])


def make(name: str, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_checkpoint(name, out)
    result = dict(shape=name, transformers=transformers.__version__, torch=torch.__version__) | compute(name, out)
    (out / "golden.json").write_text(json.dumps(result, indent=1) + "\n")


def check(name: str) -> None:
    golden = json.loads((GOLDENS / name / "golden.json").read_text())
    for key, cases in compute(name, GOLDENS / name).items():
        for case, want in zip(cases, golden[key], strict=True):
            assert case["ids"] == want["ids"], name
            torch.testing.assert_close(torch.tensor(case["scores"]), torch.tensor(want["scores"]), rtol=1e-4, atol=1e-5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SHAPES))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)  # one thread, so that sums are always added in the same order
    for name in options.names or SHAPES:
        check(name) if options.check else make(name, GOLDENS / name)
        print(f"{name}: {'as committed' if options.check else 'written'}", flush=True)


if __name__ == "__main__":
    main()
