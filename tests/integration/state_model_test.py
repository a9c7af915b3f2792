#!/usr/bin/env python3
"""benchmarks/state_model.py: its counts against loops that go through the work one by one, and the goal that they prove.

    state_model_test.py SOURCE_FOLDER

Uses only Python's standard library.
"""

import sys
import unittest
from pathlib import Path

SOURCE = None


class StateModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(SOURCE / "benchmarks"))
        import state_model

        cls.model = state_model

    def layers(self):
        layer = self.model.Layer
        return {"Qwen3-Next": layer(True, 32, 128, 128), "Mamba-2": layer(False, 80, 128, 64)}

    def test_chunks_need_a_twentieth_of_the_bytes_and_passes(self):
        for name, layer in self.layers().items():
            for tokens in (512, 4096, 32768):
                before = self.model.bytes_token_after_token(layer, tokens)
                self.assertGreaterEqual(before / self.model.bytes_in_chunks(layer, tokens), 20, (name, tokens))
            self.assertGreaterEqual(self.model.CHUNK, 20)

    def test_bytes_are_those_of_a_walk_through_the_elements(self):
        layer = self.model.Layer(True, 2, 3, 5)
        tokens, total = 7, 0
        for _ in range(tokens):
            for _ in range(layer.heads):
                for _ in range(layer.values):
                    for _ in range(layer.keys):
                        total += 4 + 4  # the decay: loads the element before, stores the decayed one
                        total += 4 + 4  # the change: loads that, stores the changed one
                total += 2 * (2 * layer.keys + 2 * layer.values)
        self.assertEqual(self.model.bytes_token_after_token(layer, tokens), total)

    def test_products_are_those_of_a_walk_through_the_tiles(self):
        for layer in self.layers().values():
            products = 0
            for _ in range(2 if layer.is_delta else 1):  # a triangle of keys with keys, one of queries with keys
                for row in range(0, 64, 16):
                    for column in range(0, row + 16, 8):
                        products += layer.keys // 16
            for _ in range(0, layer.values, 16):  # warps; each number has two terms, except keys and queries
                for _ in range(2 if layer.is_delta else 1):
                    products += 2 * (64 // 8) * (layer.keys // 16)  # answers of the state
                    products += 3 * sum(1 for row in range(0, 64, 8) for depth in range(0, 64, 16) if depth <= row)
                products += 2 * (layer.keys // 8) * (64 // 16)  # changes of the state
            self.assertEqual(self.model.products_of_chunk(layer), products)

    def test_the_page_has_the_counts(self):
        page = (SOURCE / "docs/gpu-figures.md").read_text(encoding="utf-8")
        for layer in self.layers().values():
            for count in (self.model.bytes_token_after_token(layer, 4096) / 1e6, self.model.bytes_in_chunks(layer, 4096) / 1e6):
                self.assertIn(f"| {count:,.0f} |", page)
            self.assertIn(f"| {self.model.operations_in_chunks(layer, 4096) / 1e9:.1f} |", page)
            self.assertIn(f"{self.model.products_of_chunk(layer):,}", page)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    SOURCE = Path(sys.argv.pop(1))
    unittest.main()
