#!/usr/bin/env python3
"""benchmarks/card_model.py against what an H200 measured.

    card_model_test.py SOURCE_FOLDER

Uses only Python's standard library.
"""

import json
import sys
import unittest
from pathlib import Path

SOURCE = None
# (outputs, depth) of the products that were measured.
SHAPES = {
    "0.5b": {"qkv": (1152, 896), "o": (896, 896), "gate_up": (9728, 896), "down": (896, 4864), "head": (151936, 896)},
    "1b": {"qkv": (3072, 2048), "o": (2048, 2048), "gate_up": (16384, 2048), "down": (2048, 8192), "head": (128256, 2048)},
    "8b": {"qkv": (6144, 4096), "o": (4096, 4096), "gate_up": (28672, 4096), "down": (4096, 14336), "head": (128256, 4096)},
}
CONFIGS = {
    "0.5b": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
             "num_key_value_heads": 2, "vocab_size": 151936},
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "head_dim": 64,
           "num_key_value_heads": 8, "vocab_size": 128256},
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
           "num_key_value_heads": 8, "vocab_size": 128256},
}


class CardModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(SOURCE / "benchmarks"))
        import card_model

        cls.model = card_model
        cls.rows = json.loads((SOURCE / "benchmarks/results/2026-11-28-h200.json").read_text())

    def product_errors(self, key, kernel, most_rows):
        errors = []
        for row in self.rows[key]:
            if row["rows"] <= most_rows:
                predicted = self.model.PRODUCTS[kernel].us(row["rows"], *SHAPES[row["model"]][row["name"]])
                errors.append(predicted / row["us"] - 1)
        return errors

    def test_products_are_within_a_tenth_with_few_exceptions(self):
        for key, kernel, most_rows, exceptions, worst in (("products, own kernels", "own", 8, 9, 0.165),
                                                          ("products, cuBLASLt", "library", 32, 2, 0.135)):
            errors = self.product_errors(key, kernel, most_rows)
            self.assertGreaterEqual(len(errors), 60)
            self.assertLessEqual(sum(abs(error) > 0.1 for error in errors), exceptions, key)
            self.assertLessEqual(max(map(abs, errors)), worst, key)

    def test_attention_of_decoding_is_within_a_tenth_with_few_exceptions(self):
        # Above 8,192 positions, contexts are cut into parts of another size, which the model does not know.
        rows = [row for row in self.rows["attention"] if "context" in row and row["context"] == row["others"] <= 8192]
        self.assertGreaterEqual(len(rows), 12)
        for row in rows:
            predicted = self.model.own_attention_us(row["requests"], row["context"], 8)
            self.assertAlmostEqual(predicted / row["microseconds"], 1, delta=0.1, msg=row)

    def test_a_step_of_one_request_is_within_a_tenth(self):
        for shape, config in CONFIGS.items():
            measured = [row["step_us"] for row in self.rows[f"decode {shape}"]
                        if row["row"] == "decode" and row["mode"] == "FULL" and row["requests"] == 1]
            predicted = self.model.step_us(self.model.nodes_of(config, 1, 256, "own", "own"), "own")
            for us in measured:
                self.assertAlmostEqual(predicted / us, 1, delta=0.1, msg=shape)

    def test_a_prompt_of_8b_is_near_what_was_measured_and_eight_bits_have_work_of_their_own(self):
        prompt = self.model.prompt_parts
        measured = next(1e3 * row["seconds"] for row in self.rows["decode 8b"] if row["row"] == "prefill")
        self.assertAlmostEqual(sum(us for _, us in prompt(CONFIGS["8b"], 4096)) / 1e3 / measured, 1, delta=0.05)
        # By arithmetic: 7 billion elements are read and written once, and the rows of four products are quantised.
        float8, int8 = (dict(prompt(CONFIGS["8b"], 4096, name)) for name in ("f8e4m3_rows", "int8_rows"))
        self.assertAlmostEqual(float8["panels to rows of codes"], 2 * 6.98e9 / 1e6 / 4.48, delta=10)
        self.assertAlmostEqual(float8["quantised rows"], 32 * 4096 * (3 * 4096 + 14336) * 3 / 1e6 / 2.5, delta=1)
        self.assertNotIn("quantised rows", int8)

    def test_from_65_rows_on_eight_bits_by_the_library_take_no_longer_than_own_kernels(self):
        elements, outputs, depths = 6.98e9, 32 * 43008, 32 * 26624
        for weights in ("int8_rows", "f8e4m3_rows", "f8e4m3_g128"):
            wins = [rows for rows in range(9, 257)
                    if self.model.library_rows_us(elements, outputs, depths, rows, weights) < self.model.own_rows_us(elements, rows, weights)]
            self.assertTrue(49 <= wins[0] <= 65 and wins == list(range(wins[0], 257)), (weights, wins[0]))

    def test_packed_products_read_the_bytes_of_their_codec_and_are_bound_by_instructions_where_these_take_longer(self):
        nodes_of, own = self.model.nodes_of, self.model.PRODUCTS["own"]
        shape = {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
                 "num_key_value_heads": 4, "vocab_size": 152064}
        megabytes = {name: size for name, _, _, size in nodes_of(shape, 1, 256, "own", "own", "int4_g128")}
        self.assertAlmostEqual(megabytes["gate_up"], 2 * 18944 * 3584 * (16 * 4 + 3) / 128 / 1e6)
        self.assertAlmostEqual(megabytes["head"], 152064 * 3584 * 2 / 1e6)
        start = own.start_us + own.us_per_1000_deep * 3.584
        instructions = 37888 * 3584 / 512 * 45 / self.model.INSTRUCTIONS_PER_US
        self.assertAlmostEqual(own.us(1, 37888, 3584, 67 / 128), start + instructions)
        self.assertAlmostEqual(own.us(1, 37888, 3584, 34 / 32), start + 37888 * 3584 * 34 / 32 / 1e6 / own.bandwidth)
        packed, plain = (self.model.step_us(nodes_of(shape, 1, 256, "own", "own", weights), "own")
                         for weights in ("int4_g128", "bfloat16"))
        self.assertLess(packed, 0.65 * plain)

    def test_streamed_products_are_predicted_between_a_chain_that_only_reads_and_own_kernels(self):
        model = self.model
        for shape, config in CONFIGS.items():
            for name, (outputs, depth) in SHAPES[shape].items():
                for rows in (1, 8):
                    us, least, own = (model.PRODUCTS[kernel].us(rows, outputs, depth) for kernel in ("streamed", "overlapped", "own"))
                    self.assertTrue(least < us < 1.03 * own, (shape, name, rows))
            step, least, own = (model.step_us(model.nodes_of(config, 1, 256, kernel, "own"), kernel)
                                for kernel in ("streamed", "overlapped", "own"))
            self.assertTrue(least < step < 0.95 * own, shape)
        # By arithmetic: 235 MB at 4.58 TB/s, and 1.6 MB, which take less than the latencies.
        self.assertAlmostEqual(model.PRODUCTS["streamed"].us(1, 28672, 4096), 234.88 / 4.58 + 0.2, places=2)
        self.assertAlmostEqual(model.PRODUCTS["streamed"].us(1, 896, 896), 2.2)

    def test_streamed_packed_products_are_bound_by_bytes_instructions_or_latencies(self):
        model = self.model
        streamed = model.PRODUCTS["streamed"]
        shape = {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
                 "num_key_value_heads": 4, "vocab_size": 152064}
        of_four_bits = model.streamed_instructions("int4_g128", 1)
        # By arithmetic: 71 MB in four bits, less what arrives in 2 us; with eight rows the instructions take longer.
        elements = 37888 * 3584
        self.assertAlmostEqual(streamed.us(1, 37888, 3584, 67 / 128, 1, 2.0), elements * 67 / 128 / 1e6 / 4.58 - 2.0 + 0.2, places=2)
        self.assertAlmostEqual(streamed.us(8, 37888, 3584, 67 / 128, model.streamed_instructions("int4_g128", 8), 2.0, 32),
                               elements / 512 * (44 + 41 / 4) / model.INSTRUCTIONS_PER_US + 0.2, places=2)
        # However long the kernel ahead runs, only the ring is filled. Small products take as long as their latencies.
        self.assertAlmostEqual(streamed.us(1, 37888, 3584, 67 / 128, 1, 50.0), elements * 67 / 128 / 1e6 / 4.58 - 10.56 / 4.58 + 0.2, places=2)
        self.assertAlmostEqual(streamed.us(1, 3584, 3584, 67 / 128, of_four_bits, 2.0), 2.2)
        step, own = (model.step_us(model.nodes_of(shape, 1, 256, kernel, "own", "int4_g128"), kernel) for kernel in ("streamed", "own"))
        self.assertLess(step, 0.7 * own)

    def test_products_that_quantise_their_rows_save_the_kernels_and_pay_with_instructions(self):
        model = self.model
        shape = {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
                 "num_key_value_heads": 4, "vocab_size": 152064}

        def nodes(products, requests=1, weights="int4_g128", attention="own"):
            return {name: (count, us) for name, count, us, _ in model.nodes_of(shape, requests, 256, products, attention, weights)}

        def step(products, requests=1, weights="int4_g128", attention="own"):
            return model.step_us(model.nodes_of(shape, requests, 256, products, attention, weights), products)

        # By arithmetic: 74 times 256 elements, 120 instructions each, of 2.8 in each of 1,750 clocks in a microsecond.
        down_us = 0.2 + 74 * 120 / (2.8 * 1750)
        self.assertAlmostEqual(model.rows_in_product_us("int4_g128", 1, 18944, 1, False), down_us)
        multiplied_us = 3584 * 18944 / 512 * model.streamed_instructions("int4_g128", 1) / model.INSTRUCTIONS_PER_US
        self.assertAlmostEqual(nodes("streamed-own-rows")["down"][1], 0.6 + down_us + multiplied_us + 0.2)
        # A product of few bytes takes its latencies and the quantisation, and one of many bytes the time of these.
        streamed = model.PRODUCTS["streamed-own-rows"]
        self.assertAlmostEqual(streamed.us(1, 896, 896, 67 / 128, 40, own_rows_us=0.5), 2.0 + 0.5 + 0.2)
        self.assertAlmostEqual(streamed.us(1, 37888, 3584, 34 / 32, 1, own_rows_us=0.5), 37888 * 3584 * 34 / 32 / 1e6 / 4.58 + 0.2)
        # Shared memory holds two of the long rows. With five rows or more, no product quantises rows itself.
        quantise = [nodes("streamed-own-rows", requests)["quantise"][0] / 28 for requests in (1, 2, 3, 4, 5)]
        self.assertEqual(quantise, [0, 0, 1, 1, 5])
        self.assertEqual(step("streamed-own-rows", 5), step("streamed", 5))
        # Rows of float8 stay elements: two products norm them, and one of these rotates.
        self.assertEqual(nodes("streamed-own-rows", 1, "f8e4m3_rows")["quantise"][0], 0)
        self.assertEqual(nodes("streamed-own-rows", 1, "f8e4m3_rows")["down"], nodes("streamed", 1, "f8e4m3_rows")["down"])
        for weights in ("int4_g128", "q8_0", "int8_rows", "f8e4m3_rows"):
            self.assertLess(step("streamed-own-rows", 1, weights), step("streamed", 1, weights) - 60)
            # More than that the five kernels do not take.
            self.assertGreater(step("streamed-own-rows", 1, weights), step("streamed", 1, weights) - 28 * 5 * 2.7)

    def test_flashinfers_attention_is_what_decision_114_predicts(self):
        us = self.model.flashinfer_attention_us
        for requests, context, predicted in ((1, 256, 6), (32, 1024, 37), (256, 1024, 300)):
            self.assertAlmostEqual(us(requests, context, 8, 128) / predicted, 1, delta=0.03)
        for requests in (1, 32):
            for context in (256, 4096):
                self.assertLess(us(requests, context, 8, 128), self.model.own_attention_us(requests, context, 8))
                self.assertGreater(us(requests, context, 8, 128), self.model.roof_attention_us(requests, context, 8, 128))

    def test_experts_read_each_chosen_expert_once(self):
        model = self.model
        config = {"hidden_size": 2048, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8}
        self.assertAlmostEqual(model.distinct_experts(config, 1), 8)
        self.assertAlmostEqual(model.distinct_experts(config, 8), 52, delta=1)
        self.assertLess(model.distinct_experts(config, 10000), 128.1)
        for weights in ("bfloat16", "int4_g128"):
            parts = {name: (us, megabytes) for name, us, megabytes in model.expert_parts(config, 1, weights)}
            self.assertAlmostEqual(parts["gate_up"][1], 8 * 1536 * 2048 * model.CODECS[weights] / 1e6)
            self.assertEqual("quantise" in parts, weights != "bfloat16")
            # The second product knows its experts while silu runs; the first one waits for them.
            self.assertGreater(parts["gate_up"][0], parts["gate_up"][1] / 4.58 + 1.5)
            self.assertLess(parts["down"][0], max(parts["down"][1] / 4.58, 2.2) + 0.3)

    def test_nothing_is_faster_than_a_chain_of_kernels_that_only_read(self):
        for row in self.rows["nodes in a chain of kernels that read"]:
            if "kilobytes" not in row:
                continue
            # A product of the same size, in one row.
            least = self.model.PRODUCTS["overlapped"].us(1, row["kilobytes"] * 1024 / 2, 1)
            self.assertLess(max(least, self.model.LEAST_NODE_US), 1.1 * row["programmatic_us"], row)


if __name__ == "__main__":
    SOURCE = Path(sys.argv.pop(1))
    unittest.main()
