"""lm_eval's local-completions over our tokenizer endpoints: no hub, no local tokenizer, local tasks."""

import math
import pathlib
import tempfile
import unittest

from clients import MODEL, NAME, WithServer  # first: it sets the environment
import lm_eval  # noqa: E402
from lm_eval.models.openai_completions import LocalCompletionsAPI  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

TASKS = pathlib.Path(__file__).parent / "tasks"


def reference_logprobs(token_ids):
    """Of tokens 1, 2, ..., by transformers in f32; None where it is not installed with a model's weights."""
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    with torch.no_grad():
        logprobs = torch.log_softmax(model(torch.tensor([token_ids])).logits[0], dim=-1)
    return [logprobs[i, token].item() for i, token in enumerate(token_ids[1:])]


class LmEval(WithServer, unittest.TestCase):
    options = ("--dtype", "float32")

    def evaluate(self, task):
        with tempfile.TemporaryDirectory() as folder:
            for file in TASKS.iterdir():
                text = file.read_text().replace("__FOLDER__", folder)
                pathlib.Path(folder, file.name).write_text(text)
            return lm_eval.simple_evaluate(
                model="local-completions",
                model_args={"model": NAME, "base_url": self.url + "/completions", "num_concurrent": 4,
                            "tokenizer_backend": "remote", "max_retries": 1, "max_length": 1024},
                tasks=[task], task_manager=TaskManager(include_path=folder, include_defaults=False),
                bootstrap_iters=0, log_samples=True)

    def test_generate(self):
        result = self.evaluate("reprise_sums")
        samples = result["samples"]["reprise_sums"]
        self.assertEqual(len(samples), 4)
        self.assertTrue(all(sample["resps"][0][0] for sample in samples), samples)

    def test_loglikelihood(self):
        result = self.evaluate("reprise_stories")
        # Even a model of two million parameters is above chance; the figures are checked below.
        self.assertGreater(result["results"]["reprise_stories"]["acc,none"], 0.5)
        for sample in result["samples"]["reprise_stories"]:
            for total, is_greedy in sample["filtered_resps"]:
                self.assertTrue(math.isfinite(float(total)) and float(total) < 0, sample)
                self.assertIn(str(is_greedy), ("True", "False"))

    def test_loglikelihoods_are_those_of_transformers(self):
        model = LocalCompletionsAPI(model=NAME, base_url=self.url + "/completions", tokenizer_backend="remote",
                                    max_retries=1, max_length=1024)
        context, continuation = "Once upon a time", ", there was a little girl named Lily."
        tokens = model.tok_encode(context), model.tok_encode(continuation)
        ((total, is_greedy),) = model._loglikelihood_tokens([((context, continuation), *tokens)])
        wanted = reference_logprobs(tokens[0] + tokens[1])[len(tokens[0]) - 1:]
        self.assertAlmostEqual(total, sum(wanted), delta=2e-3)
        self.assertIsInstance(is_greedy, bool)


if __name__ == "__main__":
    unittest.main()
