"""What the tests of this folder share: a real server of the bundled model."""

import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))
import serve_test  # noqa: E402

serve_test.BINARY = os.environ.get("REPRISE", str(ROOT / "build" / "release" / "bin" / "reprise"))
serve_test.MODEL = str(ROOT / "models" / "reprise-tiny")
NAME, TIMEOUT, MODEL = serve_test.NAME, serve_test.TIMEOUT, serve_test.MODEL

# Only the package index may be contacted, and only to install.
OFFLINE = {
    "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True", "DO_NOT_TRACK": "1", "CI": "1",
    "HF_HOME": os.path.join(tempfile.gettempdir(), "reprise-clients-hf"), "NO_COLOR": "1", "COLUMNS": "120",
    "OPENAI_API_KEY": "none",
}
os.environ.update(OFFLINE)

QUESTION = [{"role": "user", "content": "What is 3 + 4?"}]
STORY = "Once upon a time"


class WithServer:
    """Mixed into a TestCase: one server for all of its tests, which must end well."""

    options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = serve_test.Server(*cls.options)
        cls.url = f"http://127.0.0.1:{cls.server.port}/v1"

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, (code, cls.server.text())
