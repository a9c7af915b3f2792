"""Two published models in numpy and float32, written from their papers and file formats: Gemma 3 from a GGUF file,
with its weights dequantised, and a BERT encoder from a folder. The test of real weights compares engines with them."""

import json
import struct

import numpy as np


def softmax(scores):
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


class Gemma3:
    """Gemma 3, text only: RMS norms around both halves of a layer, norms of queries and keys, and five layers with a
    sliding window for each one that sees all."""

    LOCAL_BASE = 10_000.0  # base of the rotation in layers with a window, which GGUF files do not contain
    PERIOD = 6  # every sixth layer sees all

    def __init__(self, path):
        from gguf import GGUFReader, dequantize

        reader = GGUFReader(path)
        field = lambda name: reader.fields[f"gemma3.{name}"].contents()
        self.num_layers = field("block_count")
        self.num_heads = field("attention.head_count")
        self.head_dim = field("attention.key_length")
        self.eps = field("attention.layer_norm_rms_epsilon")
        self.window = field("attention.sliding_window")
        self.global_base = field("rope.freq_base")
        assert field("attention.head_count_kv") == 1
        self.weights = {tensor.name: dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
                        for tensor in reader.tensors}

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.weights[name]

    def rotate(self, x, base):  # [num_tokens, heads, head_dim]
        half = self.head_dim // 2
        angles = np.arange(len(x))[:, None] * base ** (-np.arange(half) / half)
        cos, sin = np.cos(angles)[:, None].astype(np.float32), np.sin(angles)[:, None].astype(np.float32)
        first, second = x[..., :half], x[..., half:]
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)

    def attend(self, x, layer):
        part = lambda name: self.weights[f"blk.{layer}.attn_{name}.weight"]
        is_global = (layer + 1) % self.PERIOD == 0
        base = self.global_base if is_global else self.LOCAL_BASE
        num_tokens = len(x)
        q = (x @ part("q").T).reshape(num_tokens, self.num_heads, self.head_dim)
        k = (x @ part("k").T).reshape(num_tokens, 1, self.head_dim)
        v = x @ part("v").T
        q = self.rotate(self.norm(q, f"blk.{layer}.attn_q_norm.weight"), base) / np.sqrt(self.head_dim)
        k = self.rotate(self.norm(k, f"blk.{layer}.attn_k_norm.weight"), base)[:, 0]
        distance = np.arange(num_tokens)[:, None] - np.arange(num_tokens)[None]
        hidden = distance < 0 if is_global else (distance < 0) | (distance >= self.window)
        heads = [softmax(np.where(hidden, -np.inf, q[:, head] @ k.T)) @ v for head in range(self.num_heads)]
        return np.concatenate(heads, -1).astype(np.float32) @ part("output").T

    def log_probabilities(self, tokens, positions=None):
        """[positions, vocabulary]: of the token after each position; all of them unless they are given."""
        embedding = self.weights["token_embd.weight"]
        x = embedding[np.asarray(tokens)] * np.float32(np.sqrt(embedding.shape[1]))
        for layer in range(self.num_layers):
            name = lambda part: f"blk.{layer}.{part}.weight"
            attended = self.attend(self.norm(x, name("attn_norm")), layer)
            x = x + self.norm(attended, name("post_attention_norm"))
            inner = self.norm(x, name("ffn_norm"))
            gate, up = inner @ self.weights[name("ffn_gate")].T, inner @ self.weights[name("ffn_up")].T
            gelu = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
            x = x + self.norm((gelu * up) @ self.weights[name("ffn_down")].T, name("post_ffw_norm"))
        x = self.norm(x, "output_norm.weight")
        logits = (x if positions is None else x[positions]) @ embedding.T
        top = logits.max(-1, keepdims=True)
        return logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))


def read_safetensors(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    types = {"F32": np.float32, "I64": np.int64}
    return {name: np.frombuffer(data[slice(*tensor["data_offsets"])], types[tensor["dtype"]]).reshape(tensor["shape"])
            for name, tensor in header.items() if name != "__metadata__"}


class SentenceEncoder:
    """BERT with the mean of its hidden states, of length 1: all-MiniLM-L6-v2."""

    def __init__(self, folder):
        with open(f"{folder}/config.json", encoding="utf-8") as file:
            self.config = json.load(file)
        self.weights = read_safetensors(f"{folder}/model.safetensors")

    def part(self, name, x):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.config["layer_norm_eps"])
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def vector(self, tokens):
        from math import erf

        weights, num_heads = self.weights, self.config["num_attention_heads"]
        x = (weights["embeddings.word_embeddings.weight"][np.asarray(tokens)]
             + weights["embeddings.position_embeddings.weight"][: len(tokens)]
             + weights["embeddings.token_type_embeddings.weight"][0])
        x = self.norm("embeddings.LayerNorm", x)
        for layer in range(self.config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}"
            heads = lambda part: np.stack(np.split(self.part(f"{name}.attention.self.{part}", x), num_heads, -1))
            q, k, v = heads("query"), heads("key"), heads("value")
            scores = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]))
            attended = np.concatenate(list(scores @ v), -1)
            x = self.norm(f"{name}.attention.output.LayerNorm", x + self.part(f"{name}.attention.output.dense", attended))
            inner = self.part(f"{name}.intermediate.dense", x)
            inner = inner * 0.5 * (1 + np.vectorize(erf)(inner / np.sqrt(2)).astype(np.float32))
            x = self.norm(f"{name}.output.LayerNorm", x + self.part(f"{name}.output.dense", inner))
        mean = x.mean(0)
        return mean / np.linalg.norm(mean)
