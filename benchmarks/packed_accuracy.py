#!/usr/bin/env python3
"""How far packed weights are from the float model: KL divergence, perplexity and agreement, for every format.

    packed_accuracy.py BINARY [MODEL] [--formats NAME ...] [--dtypes TYPE ...] [--texts 24] [--tokens 64] [--device cpu|cuda]
                       [--folder DIR]

MODEL is one of these:
  a folder with float weights (one safetensors file), which the script stores in each format;
  a GGUF file, which is measured as it is, beside its own values in float32;
  the word outliers (default): a random Llama whose rows are whole blocks of 256, with heavy-tailed weights and a few channels
  of large activations.
The texts are samples of the float model.

Every engine gives the probability of all tokens at all positions (but see --likeliest). KL is KL(float || engine) in nats: the
mean, and the worst position. "of weights" is the same for the dequantised weights computed in float32: what the format alone
costs.
The ratios have the standard deviation of a bootstrap over texts.

The script needs numpy. llama.cpp (PyPI: xllamacpp) makes the blocks of GGUF files and computes each file too, with its default
settings; without llama.cpp the script makes only Q8_0, Q5_0, Q4_0, Q4_K and Q6_K, with tools/convert_to_gguf.py. "of weights"
needs the PyPI package gguf where the format is GGUF.
"""

import argparse
import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import convert_to_gguf as gguf_files  # noqa: E402
import llama_cpp_logits as llama_cpp  # noqa: E402
import packed_formats as formats  # noqa: E402

# The bundled model knows only stories and sums.
BEGINNINGS = ["Once upon a time", "One day, a little girl", "Tom has 3 boxes with 4 apples in each box.",
              "The dog was happy because", "Anna and Ben went to", "The old house", "Mia has 12 coins. She finds",
              "It was a cold"]
BY_TOOLS = {"Q8_0": gguf_files.Q8_0, "Q5_0": gguf_files.Q5_0, "Q4_0": gguf_files.Q4_0, "Q4_K": gguf_files.Q4_K,
            "Q6_K": gguf_files.Q6_K}
OUTLIERS = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024,
            "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 256,
            "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
            "hidden_act": "silu"}


# ---------------------------------------------------------------------------------------------- models


def write_folder(folder: Path, source: Path, tensors: dict, quantization: dict | None = None) -> Path:
    """A copy of the folder `source` with other tensors: type, shape and bytes by name."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("eval", "*.safetensors"))
    if quantization:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        (folder / "config.json").write_text(json.dumps(config | {"quantization_config": quantization}), encoding="utf-8")
    header, offset = {}, 0
    for name, (kind, shape, raw) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, raw in tensors.values():
            file.write(raw)
    return folder


def write_outliers(folder: Path) -> Path:
    """Weights with the tails of Student's t, norms with a few large channels, and logits whose deviation is about 2."""
    random = np.random.default_rng(11)
    hidden, inner, heads = OUTLIERS["hidden_size"], OUTLIERS["intermediate_size"], OUTLIERS["head_dim"]
    shapes = {"embed_tokens": (256, hidden), "norm": (hidden,)}
    for layer in range(OUTLIERS["num_hidden_layers"]):
        parts = {"self_attn.q_proj": (OUTLIERS["num_attention_heads"] * heads, hidden), "self_attn.o_proj": (hidden, hidden),
                 "self_attn.k_proj": (OUTLIERS["num_key_value_heads"] * heads, hidden),
                 "self_attn.v_proj": (OUTLIERS["num_key_value_heads"] * heads, hidden),
                 "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner),
                 "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,)}
        shapes |= {f"layers.{layer}.{name}": shape for name, shape in parts.items()}
    tensors = {}
    for name, shape in shapes.items():
        if len(shape) == 1:
            values = 1 + 0.1 * random.standard_normal(shape)
            if name != "norm":
                values[random.choice(hidden, 4, replace=False)] *= 8
                values *= 0.5
        else:
            # A layer adds little to what it reads, as in trained models; otherwise each rounding would grow.
            gain = 0.2 if name.endswith(("o_proj", "down_proj")) else 1
            values = gain * random.standard_t(5, shape) / np.sqrt(5 / 3 * shape[1])
        tensors[f"model.{name}.weight"] = formats.stored("F32", values.astype("<f4"))
    head = random.standard_t(5, (256, hidden)) * 2 / np.sqrt(5 / 3 * hidden)
    tensors["lm_head.weight"] = formats.stored("F32", head.astype("<f4"))
    source = folder.with_name("outliers-config")
    source.mkdir()
    (source / "config.json").write_text(json.dumps(OUTLIERS), encoding="utf-8")
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = iter(range(256, 512))
    letters = [chr(byte if byte in printable else next(rest)) for byte in range(256)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (source / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
        "decoder": byte_level, "model": {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(letters)}, "merges": []},
    }), encoding="utf-8")
    return write_folder(folder, source, tensors)


def matrices_of(folder: Path):
    """Name and values in float32 of each tensor, and whether it is the matrix of a layer."""
    checkpoint = gguf_files.Checkpoint(folder)
    for name, entry in checkpoint.tensors.items():
        values = np.asarray(checkpoint.floats(name), "<f4").reshape(entry["shape"])
        yield name, values, values.ndim == 2 and ".layers." in name


def write_checkpoint(model: Path, folder: Path, name: str) -> tuple[Path, Path]:
    """The folders of the model in a format of formats.CHECKPOINTS, and of the values that it stands for in float32."""
    quantise, config, _ = formats.CHECKPOINTS[name]
    packed, plain = {}, {}
    for tensor, values, is_quantised in matrices_of(model):
        plain[tensor] = formats.stored("F32", values)
        if is_quantised:
            tensors, values = quantise(tensor.removesuffix(".weight"), values)
            packed |= tensors
            plain[tensor] = formats.stored("F32", values.astype("<f4"))
        else:
            packed[tensor] = plain[tensor]
    return write_folder(folder / "packed", model, packed, config), write_folder(folder / "plain", model, plain)


def write_gguf(model: Path, folder: Path, name: str, library) -> tuple[Path, Path | None]:
    """The files of the model in a GGUF format, and of its values in F32, or None if the package gguf is missing."""
    kind, elements, size = formats.GGUF[name]
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    keys = gguf_files.config_keys(config, "f32") + gguf_files.tokenizer_keys(model, config["vocab_size"])
    packed, plain = [], []
    for tensor, shape, as_stored, raw in gguf_files.tensors_of(model, config, "f32"):
        plain.append((tensor, shape, as_stored, raw))
        if len(shape) == 2:
            rows = np.frombuffer(raw, "<f4").reshape(shape)
            if library:
                raw = llama_cpp.quantised(library, rows, kind, shape[1] // elements * size)
            else:
                raw = gguf_files.encoded(rows.reshape(-1), BY_TOOLS[name])
            packed.append((tensor, shape, kind, raw))
            plain[-1] = (tensor, shape, as_stored, dequantised(raw, kind, shape))
        else:
            packed.append(plain[-1])
    gguf_files.write_file(folder / "packed.gguf", keys, packed)
    if any(raw is None for *_, raw in plain):
        return folder / "packed.gguf", None
    gguf_files.write_file(folder / "plain.gguf", keys, plain)
    return folder / "packed.gguf", folder / "plain.gguf"


def dequantised(raw: bytes, kind: int, shape: list) -> bytes | None:
    try:
        import gguf
    except ImportError:
        return None
    rows = np.frombuffer(raw, "u1").reshape(shape[0], -1)
    return gguf.dequantize(rows, gguf.GGMLQuantizationType(kind)).astype("<f4").tobytes()


def write_values_of_file(path: Path, target: Path) -> tuple[Path, float]:
    """The same GGUF file with all tensors in F32, and the bits of an element of its matrices."""
    import gguf

    reader = gguf.GGUFReader(path)
    infos, offset, num_bits, count = b"", 0, 0, 0
    for tensor in reader.tensors:
        extents = [int(extent) for extent in tensor.shape]
        name = tensor.name.encode()
        infos += struct.pack("<Q", len(name)) + name + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, 0, offset)
        offset += tensor.n_elements * 4 + (-tensor.n_elements * 4) % gguf_files.ALIGNMENT
        if len(extents) > 1:
            num_bits, count = num_bits + tensor.n_bytes * 8, count + tensor.n_elements
    head = path.read_bytes()[: reader.tensors[0].field.offset] + infos  # the keys as they are
    with target.open("wb") as file:
        file.write(head + gguf_files.padding(len(head)))
        for tensor in reader.tensors:
            raw = gguf.dequantize(tensor.data, tensor.tensor_type).astype("<f4").tobytes()
            file.write(raw + gguf_files.padding(len(raw)))
    return target, num_bits / count


# ---------------------------------------------------------------------------------------------- engines


class Text(NamedTuple):
    tokens: list[int]
    num_given: int  # the tokens of the beginning; the others are samples


class Reprise:
    """The program's server, started for one model at a time."""

    def __init__(self, binary: Path, num_likeliest: int):
        self.binary, self.num_likeliest = binary, num_likeliest
        self.device = "cpu"

    def answers(self, model: Path, bodies: list[dict], options: tuple, hook=None):
        """The first choice of each answer, one after the other. `hook`: what becomes of each JSON object."""
        command = [self.binary, "serve", model, "--port", "0", "--device", self.device, "--enforce-eager", "--max-model-len", "256",
                   "--kv-cache-memory-bytes", "256M", "--num-threads", "1", "--max-logprobs", "-1",
                   "--max-answer-bytes", str(1 << 40), *options]
        with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
            server = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=log)
            try:
                address = self._address(server, log)
                for body in bodies:
                    request = urllib.request.Request(f"{address}/v1/completions", json.dumps(body).encode(),
                                                     {"Content-Type": "application/json"})
                    with urllib.request.urlopen(request) as answer:
                        yield json.loads(answer.read(), object_hook=hook)["choices"][0]
            finally:
                server.terminate()
                server.wait()
            log.seek(0)
            self.is_dequantised = "dequantise" in log.read()

    def _address(self, server: subprocess.Popen, log) -> str:
        while True:
            log.seek(0)
            text = log.read()
            found = re.search(r"server on (http://127\.0\.0\.1:\d+)", text)
            if found and "Application startup complete." in text:
                return found[1]
            if server.poll() is not None:
                raise SystemExit(f"the server did not start:\n{text}")
            time.sleep(0.02)

    def samples(self, model: Path, arguments) -> list["Text"]:
        bodies = [{"prompt": BEGINNINGS[i % len(BEGINNINGS)], "max_tokens": arguments.tokens, "temperature": 1, "seed": i,
                   "ignore_eos": True, "return_token_ids": True} for i in range(arguments.texts)]
        choices = self.answers(model, bodies, ("--dtype", "float32"))
        return [Text(choice["prompt_token_ids"] + choice["token_ids"], len(choice["prompt_token_ids"])) for choice in choices]

    def log_probabilities(self, model: Path, texts: list, *options) -> list:
        """For each text and token behind its beginning, an array of the vocabulary, or a dictionary of the likeliest tokens."""
        found = []
        bodies = [{"prompt": text.tokens, "max_tokens": 1, "temperature": 0, "prompt_logprobs": self.num_likeliest or -1}
                  for text in texts]
        # The answers come first in zip: only where they end are the server's warnings read.
        for choice, text in zip(self.answers(model, bodies, options, lambda entry: entry.get("logprob", entry)), texts):
            rows = []
            for entry in choice["prompt_logprobs"][text.num_given:]:
                if self.num_likeliest:
                    rows.append({int(token): value for token, value in entry.items()})
                    continue
                row = np.empty(len(entry), "<f4")
                row[np.fromiter(map(int, entry), "<i8", len(entry))] = np.fromiter(entry.values(), "<f4", len(entry))
                rows.append(row)
            found.append(rows)
        return found


# ---------------------------------------------------------------------------------------------- figures


class Score:
    """An engine's distributions beside those of the float model, for each position of each text."""

    def __init__(self, texts: list, exact: list, engine: list):
        self.divergences, surprise, same = [], [], []
        for text, of_text, rows in zip(texts, exact, engine, strict=True):
            found = []
            for token, true, row in zip(text.tokens[text.num_given:], of_text, rows, strict=True):
                row = row if isinstance(row, dict) else normalised(row)
                surprise.append(-row[token])
                same.append(likeliest(true) == likeliest(row))
                true, row = with_rest(true, row) if isinstance(true, dict) else (normalised(true), row)
                found.append(float((np.exp(true) * (true - row)).sum()))
            self.divergences.append(np.array(found))
        every = np.concatenate(self.divergences)
        self.mean, self.worst = float(every.mean()), float(every.max())
        self.perplexity, self.same = float(np.exp(np.mean(surprise))), float(np.mean(same))

    def over(self, other: "Score | None") -> str:
        """The ratio of the means, and its deviation if other texts had been drawn."""
        if other is None:
            return "-"
        sums = np.array([[mine.sum(), theirs.sum()] for mine, theirs in zip(self.divergences, other.divergences)])
        drawn = np.random.default_rng(3).integers(0, len(sums), (1000, len(sums)))
        ratios = sums[drawn].sum(1)
        return f"{self.mean / other.mean:.3f} ± {(ratios[:, 0] / ratios[:, 1]).std():.3f}" if other.mean > 0 else "-"


def likeliest(row) -> int:
    return max(row, key=row.get) if isinstance(row, dict) else int(row.argmax())


def with_rest(true: dict, row) -> tuple:
    """The log-probabilities of the likelier half of the tokens that the float model gave, and of all others as one."""
    kept = sorted(true, key=true.get, reverse=True)[: len(true) // 2]
    both = []
    for values in (true, row):
        chosen = np.array([values[token] for token in kept], "<f8")
        both.append(np.append(chosen, np.log(max(1 - np.exp(chosen).sum(), 1e-12))))
    return tuple(both)


def normalised(logits):
    logits = logits.astype("<f8") - logits.max()
    return logits - np.log(np.exp(logits).sum())


HEADER = ("format", "bits", "type", "KL mean", "KL worst", "perplexity", "same top token", "KL of weights",
          "Reprise / weights", "llama.cpp KL", "llama.cpp perplexity", "Reprise / llama.cpp")


def row_of(name: str, bits: float, dtype: str, score: Score, weights: Score | None, theirs: Score | None) -> str:
    cells = [name, f"{bits:.2f}", dtype, f"{score.mean:.3e}", f"{score.worst:.2e}", f"{score.perplexity:.4f}",
             f"{score.same:.4f}", f"{weights.mean:.3e}" if weights else "-", score.over(weights),
             f"{theirs.mean:.3e}" if theirs else "-", f"{theirs.perplexity:.4f}" if theirs else "-", score.over(theirs)]
    return f"| {' | '.join(cells)} |"


class Table:
    def __init__(self, reprise: Reprise, library, arguments, model: Path, reference: Path):
        self.reprise, self.library, self.arguments, self.model = reprise, library, arguments, model
        self.texts = reprise.samples(reference, arguments)
        self.exact = reprise.log_probabilities(reference, self.texts, "--dtype", "float32")
        float_model = self.score(self.exact)
        print(f"{sum(map(len, self.exact))} positions of {len(self.texts)} texts, {len(self.exact[0][0])} tokens; perplexity of "
              f"the float model {float_model.perplexity:.4f}; llama.cpp: {'yes' if library else 'not installed'}\n")
        print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}", flush=True)

    def score(self, rows: list) -> Score:
        return Score(self.texts, self.exact, rows)

    def of(self, model: Path, *options, device: str = "cpu") -> Score:
        self.reprise.device = device
        return self.score(self.reprise.log_probabilities(model, self.texts, *options))

    def add(self, name: str, bits: float, packed: Path, plain: Path | None, options: tuple = ()) -> None:
        weights = self.of(plain, "--dtype", "float32") if plain else None
        theirs = None
        if self.library and packed.suffix == ".gguf":
            theirs = self.score(llama_cpp.logits(self.library, packed, self.texts))
        for dtype in self.arguments.dtypes:
            score = self.of(packed, "--dtype", dtype, *options, device=self.arguments.device)
            mark = " (dequantised)" if self.reprise.is_dequantised else ""
            print(row_of(name + mark, bits, dtype, score, weights, theirs), flush=True)


def wanted(arguments, kinds, default) -> list[str]:
    return [name for name in kinds if name in (arguments.formats or default)]


def measure_folder(table: Table, folder: Path) -> None:
    arguments, model = table.arguments, table.model
    if not arguments.formats or "none" in arguments.formats:
        table.add("not packed", 32, model, None)
    depths = {values.shape[1] for _, values, is_matrix in matrices_of(model) if is_matrix}
    fitting = [name for name, (_, elements, _) in formats.GGUF.items() if all(depth % elements == 0 for depth in depths)
               and (table.library or name in BY_TOOLS)]
    for name in wanted(arguments, fitting, fitting):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            packed, plain = write_gguf(model, Path(place), name, table.library)
            _, elements, size = formats.GGUF[name]
            table.add(f"GGUF {name}", 8 * size / elements, packed, plain)
    for name in wanted(arguments, formats.CHECKPOINTS, formats.CHECKPOINTS):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            table.add(name, formats.CHECKPOINTS[name][2], *write_checkpoint(model, Path(place), name))
    for name in wanted(arguments, formats.WHILE_LOADING, formats.WHILE_LOADING):
        table.add(f"--quantization {name}", formats.WHILE_LOADING[name], model, None, ("--quantization", name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("model", nargs="?", default="outliers", help="a folder, a GGUF file, or outliers")
    parser.add_argument("--formats", nargs="+", default=[], metavar="NAME",
                        choices=["none", *formats.GGUF, *formats.CHECKPOINTS, *formats.WHILE_LOADING],
                        help="all by default; none is the float model itself, in each type")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"], help="types of what is not packed")
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=64, help="sampled tokens of a text")
    parser.add_argument("--likeliest", type=int, default=0, metavar="N",
                        help="for large vocabularies: Reprise gives only the N likeliest tokens of each position, and KL "
                        "compares the float model's N / 2 likeliest ones, and all others as one; 0: every token")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu",
                        help="of the packed models; a GPU multiplies texts of more than 64 tokens in eight bits where the format allows it")
    parser.add_argument("--folder", type=Path, help="where files are written; a temporary folder by default")
    arguments = parser.parse_args()
    library = llama_cpp.open_library()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        folder, reprise = Path(place), Reprise(arguments.binary, arguments.likeliest)
        model = write_outliers(folder / "outliers") if arguments.model == "outliers" else Path(arguments.model)
        if model.suffix == ".gguf":
            reference, bits = write_values_of_file(model, folder / "values.gguf")
            table = Table(reprise, library, arguments, model, reference)
            table.add(model.name, bits, model, None)
        else:
            measure_folder(Table(reprise, library, arguments, model, model), folder)


if __name__ == "__main__":
    main()
