#!/usr/bin/env python3
"""`reprise serve` with models that score labels: /classify, and /score and /rerank with a cross-encoder.

    classifiers_test.py REPRISE_BINARY MODEL_FOLDER SOURCE_FOLDER

The models are those of tests/goldens/classifiers. Uses only Python's standard library.
"""

import json
import math
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import serve_test

SOURCE = None
NAMES = ("bert-pairs", "xlm-roberta-pairs", "qwen3-score", "qwen3-yes-no")  # with one label


def sigmoid(score):
    return 1 / (1 + math.exp(-score))


def softmax(scores):
    powers = [math.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


class Classifiers(unittest.TestCase):
    def copy_of(self, name, **members):
        folder = tempfile.TemporaryDirectory(prefix="reprise_classifiers_")
        self.addCleanup(folder.cleanup)
        model = Path(folder.name) / "model"
        shutil.copytree(SOURCE / "tests" / "goldens" / "classifiers" / name, model)
        path = model / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | members))
        return model, json.loads((model / "golden.json").read_text())

    def start(self, model, *options):
        serve_test.MODEL = str(model)
        server = serve_test.Server("--dtype", "float32", "--disable-compile-cache", *options)
        self.addCleanup(server.stop, 9)
        return server

    def post(self, server, path, **body):
        status, answer = server.post(path, body)
        self.assertEqual(status, 200, answer)
        return answer

    def refusal(self, model, *words):
        done = subprocess.run([serve_test.BINARY, *words, model], capture_output=True, text=True, timeout=serve_test.TIMEOUT)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def assert_near(self, got, want, bound=1e-5):
        self.assertEqual(len(got), len(want))
        self.assertLessEqual(max(abs(a - b) for a, b in zip(got, want, strict=True)), bound)

    def test_scores_of_pairs_are_those_of_transformers(self):
        for name in NAMES:
            model, golden = self.copy_of(name)
            pairs = [case["texts"] for case in golden["pairs"]]
            want = [sigmoid(case["scores"][0]) for case in golden["pairs"]]
            # The pairs differ so much that a program that ignores one text fails.
            self.assertGreater(max(want) - min(want), 1e-3)
            for options in ([], ["--enforce-eager"], ["-O0"], ["--max-num-seqs", "1"]):
                with self.subTest(name, options=options):
                    server = self.start(model, *options)
                    first, second = zip(*pairs, strict=True)
                    answer = self.post(server, "/score", text_1=first, text_2=second)
                    self.assert_near([item["score"] for item in answer["data"]], want)
                    self.assertEqual(answer["usage"]["prompt_tokens"], sum(len(case["ids"]) for case in golden["pairs"]))
                    raw = self.post(server, "/score", text_1=first, text_2=second, use_activation=False)
                    self.assert_near([item["score"] for item in raw["data"]], [case["scores"][0] for case in golden["pairs"]], 1e-4)
                    alone = [self.post(server, "/score", text_1=a, text_2=b)["data"][0]["score"] for a, b in pairs]
                    self.assertEqual(alone, [item["score"] for item in answer["data"]])
                    self.assertEqual(server.metric("reprise:failed_steps_total"), 0)
                    server.stop()

    def test_the_second_text_has_types_of_its_own(self):
        model, golden = self.copy_of("bert-pairs")
        server = self.start(model)
        for case in golden["pairs"]:
            as_one_text = self.post(server, "/classify", input=case["ids"])["data"][0]["probs"][0]
            self.assertGreater(abs(as_one_text - sigmoid(case["scores"][0])), 1e-4)

    def test_a_ranking_puts_the_best_pair_first(self):
        for name in NAMES:
            with self.subTest(name):
                model, golden = self.copy_of(name)
                server = self.start(model)
                documents = [case["texts"][1] for case in golden["pairs"]]
                scores = [self.post(server, "/score", text_1="query", text_2=text)["data"][0]["score"] for text in documents]
                self.assertAlmostEqual(scores[2], sigmoid(golden["pairs"][2]["scores"][0]), places=5)
                results = self.post(server, "/v1/rerank", query="query", documents=documents, top_n=3)["results"]
                order = sorted(range(len(documents)), key=lambda i, scores=scores: -scores[i])[:3]
                self.assertEqual([item["index"] for item in results], order)
                self.assertEqual([item["relevance_score"] for item in results], [scores[i] for i in order])
                self.assertEqual(results[0]["document"]["text"], documents[order[0]])

    def test_labels_are_those_of_transformers(self):
        for name in ("bert-labels", "roberta-labels", "distilbert-labels", "modernbert-labels"):
            with self.subTest(name):
                model, golden = self.copy_of(name)
                server = self.start(model)
                texts = [case["texts"][0] for case in golden["texts"]]
                answer = self.post(server, "/classify", input=texts)
                self.assertEqual(answer["object"], "list")
                self.assertTrue(answer["id"].startswith("classify-"))
                for item, case in zip(answer["data"], golden["texts"], strict=True):
                    want = softmax(case["scores"])
                    self.assert_near(item["probs"], want)
                    self.assertEqual(item["num_classes"], 3)
                    self.assertEqual(item["label"], ["odd", "good", "bad"][want.index(max(want))])
                raw = self.post(server, "/classify", input=texts[0], use_activation=False)["data"][0]["probs"]
                self.assert_near(raw, golden["texts"][0]["scores"], 1e-4)
                pooled = self.post(server, "/pooling", input=texts[0])["data"][0]["data"]
                self.assert_near(pooled, answer["data"][0]["probs"], 1e-7)
                self.assertEqual(self.post(server, "/pooling", input=texts[0], task="classify")["data"][0]["data"], pooled)
                self.assertEqual(server.post("/pooling", {"input": texts[0], "task": "embed"})[0], 400)
                server.stop()

    def test_the_config_chooses_the_function(self):
        for members, function in (({"problem_type": "regression"}, lambda score: score),
                                  ({"problem_type": "multi_label_classification"}, sigmoid)):
            with self.subTest(members=members):
                model, golden = self.copy_of("bert-labels", **members)
                server = self.start(model)
                probs = self.post(server, "/classify", input=golden["texts"][1]["texts"][0])["data"][0]["probs"]
                self.assert_near(probs, [function(score) for score in golden["texts"][1]["scores"]], 1e-4)
                server.stop()

    def test_a_cut_pair_keeps_its_second_text(self):
        model, golden = self.copy_of("bert-pairs")
        server = self.start(model)
        case = golden["pairs"][1]
        whole = self.post(server, "/score", text_1=case["texts"][0], text_2=case["texts"][1])["data"][0]["score"]
        cut = {side: self.post(server, "/score", text_1=case["texts"][0], text_2=case["texts"][1], truncation_side=side,
                               truncate_prompt_tokens=12)["data"][0]["score"] for side in ("left", "right")}
        self.assertEqual(len({whole, *cut.values()}), 3)
        self.assertEqual(self.post(server, "/score", text_1="a", text_2="b", truncate_prompt_tokens=60)["usage"]["prompt_tokens"], 5)

    def test_a_template_of_the_user_makes_the_prompt(self):
        model, golden = self.copy_of("qwen3-yes-no")
        template = "{{ messages[0].content }}{{ messages[1].content }}"
        server = self.start(model, "--chat-template", template)
        texts = golden["pairs"][1]["texts"]
        score = self.post(server, "/score", text_1=texts[0], text_2=texts[1])["data"][0]["score"]
        self.assertAlmostEqual(score, sigmoid(golden["pairs"][1]["scores"][0]), places=5)
        server.stop()
        server = self.start(model, "--chat-template", "Q:" + template)
        self.assertNotAlmostEqual(self.post(server, "/score", text_1=texts[0], text_2=texts[1])["data"][0]["score"], score, places=5)

    def test_what_a_model_cannot_do_is_refused(self):
        model, _ = self.copy_of("bert-labels")
        server = self.start(model)
        for path, body, name in (("/v1/embeddings", {"input": "a"}, "Embeddings"), ("/v1/completions", {"prompt": "a"}, "Completions"),
                                 ("/score", {"text_1": "a", "text_2": "b"}, "Score"),
                                 ("/rerank", {"query": "a", "documents": ["b"]}, "Rerank")):
            with self.subTest(path):
                status, answer = server.post(path, body)
                self.assertEqual((status, answer["error"]["message"]), (400, f"The model does not support {name} API"))
        self.assertEqual(len(self.post(server, "/classify", input="a")["data"]), 1)
        self.assertIn("--runner", self.refusal(model, "serve", "--runner", "generate"))
        self.assertIn("classifier_from_token", self.refusal(self.copy_of("qwen3-yes-no", classifier_from_token=["no", "yes"])[0], "serve"))
        self.assertIn("id2label", self.refusal(self.copy_of("bert-labels", id2label=7)[0], "serve"))
        self.assertIn("classifier.weight", self.refusal(self.copy_of("bert-labels", num_labels=2)[0], "serve"))


if __name__ == "__main__":
    serve_test.BINARY = sys.argv[1]
    SOURCE = Path(sys.argv[3])
    unittest.main(argv=sys.argv[:1])
