"""huggingface_hub and `reprise pull` on one cache, beside a hub on this machine: each accepts what the other fetched."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from clients import MODEL, TIMEOUT  # also puts tests/integration on the path
from fake_hub import COMMIT, NAME, FakeHub, Repository
import serve_test

# Runs in a separate process, because huggingface_hub reads the environment when it is imported.
SNAPSHOT = """
import sys
from huggingface_hub import snapshot_download
ignored = ["*.bin", "*.md"]
print(snapshot_download(sys.argv[1], local_files_only=sys.argv[2] == "local", ignore_patterns=ignored))
"""


class HuggingFaceHub(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="reprise_hf_"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        files = {path.name: path.read_bytes() for path in Path(MODEL).iterdir() if path.is_file()}
        files |= {"README.md": b"read", "pytorch_model.bin": b"pickle", "1_Pooling/config.json": b"{}"}
        self.repository = Repository(files)
        self.hub = FakeHub({NAME: self.repository})
        # huggingface_hub expects the store of large files at another host than the hub's: the answer that redirects
        # there describes the file.
        self.hub.store_url = self.hub.store_url.replace("127.0.0.1", "localhost")
        self.addCleanup(self.hub.close)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
        self.environment = kept | {"HF_ENDPOINT": self.hub.url, "HF_HUB_DISABLE_TELEMETRY": "1"}

    def run_in(self, home, *command):
        environment = self.environment | {"HF_HOME": str(self.folder / home)}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run

    def pull(self, home):
        return self.run_in(home, serve_test.BINARY, "pull", NAME)

    def snapshot(self, home, where):
        return Path(self.run_in(home, sys.executable, "-c", SNAPSHOT, NAME, where).stdout.strip())

    def layout(self, home):
        """Names, links and contents of the repository's folder in the cache."""
        folder = self.folder / home / "hub" / "models--Tiny--Model-1.0"
        return {str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
                for part in ("blobs", "refs", "snapshots") for path in (folder / part).rglob("*")
                if path.is_symlink() or path.is_file()}

    def test_both_write_the_same_files_and_links(self):
        self.pull("ours")
        self.snapshot("theirs", "remote")
        self.assertEqual(self.layout("ours"), self.layout("theirs"))

    def test_huggingface_hub_takes_what_was_pulled(self):
        self.pull("ours")
        found = self.snapshot("ours", "local")
        self.assertEqual(found.name, COMMIT)
        before = len(self.hub.store_requests)
        self.assertEqual(self.snapshot("ours", "remote"), found)
        self.assertEqual(len(self.hub.store_requests), before)

    def test_pull_takes_what_huggingface_hub_fetched(self):
        self.snapshot("theirs", "remote")
        before = len(self.hub.store_requests)
        run = self.pull("theirs")
        self.assertIn("are here already", run.stderr)
        self.assertEqual(len(self.hub.store_requests), before)
        self.assertFalse([url for _, url, _ in self.hub.requests[-2:] if "/resolve/" in url])


if __name__ == "__main__":
    unittest.main()
