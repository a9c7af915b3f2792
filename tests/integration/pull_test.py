#!/usr/bin/env python3
"""`reprise pull` beside a hub on this machine, good and hostile. tests/clients/test_huggingface_hub.py compares caches.

    pull_test.py REPRISE_BINARY MODEL_FOLDER

Uses only Python's standard library.
"""

import base64
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from fake_hub import COMMIT, NAME, FakeHub, Repository

BINARY = MODEL = None
TIMEOUT = 120
TOKEN = "hf_secretsecret"


def model_files():
    """The bundled model, with what a real repository has besides."""
    files = {path.name: path.read_bytes() for path in Path(MODEL).iterdir() if path.is_file()}
    return files | {"README.md": b"read", ".gitattributes": b"x", "pytorch_model.bin": b"pickle", "onnx/model.onnx": b"onnx",
                    "1_Pooling/config.json": b"{}", "chat template é.jinja": b"{{ messages }}"}


TAKEN = {"config.json", "generation_config.json", "model.safetensors", "special_tokens_map.json", "tokenizer.json",
         "tokenizer_config.json", "1_Pooling/config.json", "chat template é.jinja"}


class Proxy:
    """Opens tunnels (CONNECT) for one user, and notes where they lead."""

    def __init__(self, user):
        self.targets, self.expected = [], "Basic " + base64.b64encode(user.encode()).decode()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.tunnel, args=(client,), daemon=True).start()

    def tunnel(self, client):
        with client:
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            first, *lines = head.decode().split("\r\n")
            fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines if line)}
            if fields.get("proxy-authorization") != self.expected:
                return client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            target = first.split()[1]
            self.targets.append(target)
            with socket.create_connection(target.rsplit(":", 1)) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=self.copy, args=(server, client), daemon=True)
                back.start()
                self.copy(client, server)
                back.join()

    @staticmethod
    def copy(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class Case(unittest.TestCase):
    maxDiff = None
    hub_options = {}

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="reprise_pull_"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.repository = Repository(model_files())
        self.hub = FakeHub({NAME: self.repository}, **self.hub_options)
        self.addCleanup(self.hub.close)
        self.cache = self.folder / "hub"
        self.place = self.cache / "models--Tiny--Model-1.0"
        self.snapshot = self.place / "snapshots" / COMMIT

    def environment(self, **more):
        kept = ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")
        clean = {name: os.environ[name] for name in kept if name in os.environ}
        return clean | {"HOME": str(self.folder / "home"), "HF_HUB_CACHE": str(self.cache), "HF_ENDPOINT": self.hub.url} | more

    def run_cli(self, *arguments, **environment):
        clean = {name: value for name, value in self.environment(**environment).items() if value is not None}
        return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, env=clean, timeout=TIMEOUT,
                              check=False)

    def pull(self, *arguments, **environment):
        run = self.run_cli("pull", *(arguments or (NAME,)), **environment)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run

    def start(self):
        """A pull that runs beside the test."""
        return subprocess.Popen([BINARY, "pull", NAME], env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                text=True)

    def refused(self, *arguments, code=2, **environment):
        run = self.run_cli("pull", *(arguments or (NAME,)), **environment)
        self.assertEqual(run.returncode, code, (run.stdout, run.stderr))
        return run.stderr

    def assert_complete(self):
        for path in TAKEN:
            link = self.snapshot / path
            self.assertTrue(link.is_symlink(), path)
            self.assertFalse(os.readlink(link).startswith("/"))
            self.assertEqual(link.read_bytes(), self.repository.files[path], path)
            self.assertEqual(link.resolve().name, self.repository.etag(path))
        self.assertEqual((self.place / "refs" / "main").read_text(), COMMIT)
        self.assertEqual(list((self.place / "blobs").glob("*.incomplete")), [])

    def weights(self):
        digest = self.repository.etag("model.safetensors")
        return self.place / "blobs" / digest, self.place / "blobs" / f"{digest}.incomplete"

    def keep_partial(self, content):
        _, partial = self.weights()
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)


class Downloads(Case):
    def test_the_files_that_the_engine_reads_come_and_the_model_answers_by_its_name(self):
        run = self.pull()
        self.assertEqual(run.stdout.strip(), str(self.snapshot))
        self.assert_complete()
        there = {str(path.relative_to(self.snapshot)) for path in self.snapshot.rglob("*") if not path.is_dir()}
        self.assertEqual(there, TAKEN)
        (self.snapshot / "1_Pooling" / "config.json").unlink()  # the bundled model has none
        (self.snapshot / "chat template é.jinja").unlink()
        asked = ("--prompt", "Once upon a time", "--max-tokens", 4, "--temperature", 0)
        by_name = self.run_cli("generate", NAME, *asked)
        by_folder = self.run_cli("generate", MODEL, *asked)
        self.assertEqual((by_name.returncode, by_name.stdout), (0, by_folder.stdout), by_name.stderr)
        elsewhere = self.run_cli("explain", NAME, "--download-dir", self.cache, HF_HUB_CACHE=str(self.folder / "empty"))
        self.assertEqual(elsewhere.returncode, 0, elsewhere.stderr)

    def test_a_second_pull_asks_for_no_content(self):
        self.pull()
        before = len(self.hub.store_requests)
        run = self.pull()
        self.assertEqual(len(self.hub.store_requests), before)
        self.assertFalse([url for _, url, _ in self.hub.requests[-2:] if "/resolve/" in url])
        self.assertIn("are here already", run.stderr)

    def test_lists_of_several_pages_and_endpoints_with_a_path(self):
        self.hub.close()
        self.hub = FakeHub({NAME: self.repository}, prefix="/mirror/hf")
        self.hub.page_size = 2
        self.pull()
        self.assert_complete()

    def test_another_revision_has_its_own_reference(self):
        self.repository.revision = "refs/pr/1"
        self.pull(NAME, "--revision", "refs/pr/1")
        self.assertEqual((self.place / "refs" / "refs" / "pr" / "1").read_text(), COMMIT)
        self.assertFalse((self.place / "refs" / "main").exists())
        self.assertEqual(self.run_cli("explain", NAME).returncode, 2)
        self.assertEqual(self.run_cli("explain", NAME, "--revision", "refs/pr/1").returncode, 0)
        self.assertEqual(self.run_cli("explain", NAME, "--revision", COMMIT).returncode, 0)
        self.assertIn("no revision 'old'", self.refused(NAME, "--revision", "old"))
        self.assertIn("--revision", self.refused(NAME, "--revision", "../main"))

    def test_one_gguf_by_quantisation_or_path(self):
        files = {"M-Q4_K_M.gguf": b"4" * 50, "M-Q8_0.gguf": b"8" * 90, "README.md": b"read"}
        self.repository.files = files
        self.pull(f"{NAME}:q4_k_m")
        self.assertEqual((self.snapshot / "M-Q4_K_M.gguf").read_bytes(), files["M-Q4_K_M.gguf"])
        self.assertFalse((self.snapshot / "M-Q8_0.gguf").exists())
        self.pull(f"{NAME}:README.md")
        message = self.refused()
        self.assertIn(f"reprise pull {NAME}:M-Q4_K_M.gguf", message)
        self.assertIn("M-Q8_0.gguf", self.refused(f"{NAME}:Q5_0"))
        # The name with the quantisation is also the name of the model, because here the file is not a GGUF file.
        self.assertIn("M-Q4_K_M.gguf", self.run_cli("explain", f"{NAME}:Q4_K_M").stderr)
        self.assertIn(f"reprise pull {NAME}:Q8_0", self.run_cli("explain", f"{NAME}:Q8_0").stderr)

    def test_a_gguf_in_a_folder_answers_by_the_name_with_its_quantisation(self):
        file = self.folder / "model-F16.gguf"
        convert = Path(__file__).resolve().parents[2] / "tools" / "convert_to_gguf.py"
        subprocess.run([sys.executable, "-B", convert, "--outtype", "f16", MODEL, file], check=True, timeout=TIMEOUT,
                       stdout=subprocess.DEVNULL)
        self.repository.files = {"F16/model-F16.gguf": file.read_bytes(), "model-Q4_0.gguf": b"GGUF"}
        run = self.pull(f"{NAME}:f16")
        self.assertIn(f"Ready: reprise serve {NAME}:f16", run.stderr)
        asked = ("--prompt", "Once upon a time", "--max-tokens", 4, "--temperature", 0)
        by_name = self.run_cli("generate", f"{NAME}:f16", *asked)
        by_file = self.run_cli("generate", file, *asked)
        self.assertEqual((by_name.returncode, by_name.stdout), (0, by_file.stdout), by_name.stderr)
        self.assertTrue(by_file.stdout.strip())

    def test_a_dry_run_says_what_would_come_and_writes_nothing(self):
        text = self.pull(NAME, "--dry-run").stdout
        self.assertIn("model.safetensors", text)
        self.assertNotIn("pytorch_model.bin", text)
        self.assertFalse(self.cache.exists())

    def test_download_dir_is_the_cache(self):
        self.pull(NAME, "--download-dir", self.folder / "other")
        self.assertTrue((self.folder / "other" / "models--Tiny--Model-1.0" / "refs" / "main").exists())
        self.assertFalse(self.cache.exists())


class Interruptions(Case):
    def weights_content(self):
        return self.repository.files["model.safetensors"]

    def test_a_partial_file_is_continued_and_not_fetched_again(self):
        self.keep_partial(self.weights_content()[:1_000_000])
        self.pull()
        self.assertEqual(self.hub.asked_for("model.safetensors"), ["bytes=1000000-"])
        self.assert_complete()

    def test_a_partial_file_with_wrong_bytes_is_found_by_its_hash(self):
        self.keep_partial(b"x" * 1_000_000)
        run = self.pull()
        self.assertEqual(self.hub.asked_for("model.safetensors"), ["bytes=1000000-", ""])
        self.assertIn("fetching it anew", run.stderr)
        self.assert_complete()

    def test_a_partial_file_that_is_too_long_is_not_used(self):
        self.keep_partial(self.weights_content() + b"more")
        self.pull()
        self.assertEqual(self.hub.asked_for("model.safetensors"), [""])
        self.assert_complete()

    def test_a_server_without_ranges_sends_the_whole_again(self):
        def ignore_range(handler):
            if handler.is_store:
                del handler.headers["Range"]

        self.hub.faults.append(ignore_range)
        self.keep_partial(self.weights_content()[:1000])
        self.pull()
        self.assert_complete()

    def test_a_cut_connection_goes_on_where_it_was(self):
        cuts = iter([1_000_000, 2_000_000])

        def cut(handler):
            end = next(cuts, None) if handler.is_store else None
            if end is None:
                return False
            content = self.weights_content()
            begin = int((handler.headers.get("Range") or "bytes=0-")[6:-1])
            handler.send_response(206 if begin else 200)
            handler.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
            handler.send_header("Content-Length", str(len(content) - begin))
            handler.end_headers()
            handler.wfile.write(content[begin:end])
            handler.close_connection = True
            return True

        self.hub.faults.append(cut)
        self.pull()
        self.assertEqual(self.hub.asked_for("model.safetensors"), ["", "bytes=1000000-", "bytes=2000000-"])
        self.assert_complete()

    def test_a_killed_pull_goes_on(self):
        for number in (signal.SIGINT, signal.SIGKILL):
            with self.subTest(number):
                shutil.rmtree(self.cache, ignore_errors=True)
                self.hub.store_requests.clear()
                gate = threading.Event()

                def stall(handler, gate=gate):
                    if not handler.is_store or gate.is_set():
                        return False
                    content = self.weights_content()
                    handler.send_response(200)
                    handler.send_header("Content-Length", str(len(content)))
                    handler.end_headers()
                    handler.wfile.write(content[:500_000])
                    gate.wait(TIMEOUT)
                    handler.close_connection = True
                    return True

                self.hub.faults[:] = [stall]
                with self.start() as run:
                    _, partial = self.weights()
                    deadline = time.monotonic() + TIMEOUT
                    while not (partial.exists() and partial.stat().st_size == 500_000):
                        self.assertLess(time.monotonic(), deadline)
                        time.sleep(0.01)
                    run.send_signal(number)
                    text = run.communicate(timeout=TIMEOUT)[1]
                self.assertEqual(run.returncode, -number)
                if number == signal.SIGINT:
                    self.assertIn("the same command goes on", text)
                self.assertFalse((self.place / "refs" / "main").exists())
                self.assertIn("reprise pull", self.run_cli("explain", NAME).stderr)
                gate.set()
                self.pull()
                self.assertEqual(self.hub.asked_for("model.safetensors"), ["", "bytes=500000-"])
                self.assert_complete()

    def test_busy_servers_are_asked_again_and_retry_after_is_obeyed(self):
        answers = iter([(429, "1"), (503, None), (500, None)])

        def busy(handler):
            status, wait = next(answers, (None, None))
            if status is None:
                return False
            handler.reply(status, **({"Retry_After": wait} if wait else {}))
            return True

        self.hub.faults.append(busy)
        begin = time.monotonic()
        text = self.pull().stderr
        self.assertGreater(time.monotonic() - begin, 1 + 2 + 4)
        for part in ("429", "trying again in 1 s", "503", "trying again in 2 s", "500", "trying again in 4 s"):
            self.assertIn(part, text)
        self.assert_complete()

    def test_two_pulls_share_the_work(self):
        gate = threading.Event()
        arrived = threading.Event()

        def slow(handler):
            if handler.is_store:
                arrived.set()
                gate.wait(TIMEOUT)

        self.hub.faults.append(slow)
        first = self.start()
        self.assertTrue(arrived.wait(TIMEOUT))
        second = self.start()
        lines = []
        for line in second.stderr:
            lines.append(line)
            if "another process" in line:
                break
        gate.set()
        lines.append(second.communicate(timeout=TIMEOUT)[1])
        first.communicate(timeout=TIMEOUT)
        self.assertEqual((first.returncode, second.returncode), (0, 0), lines)
        self.assertEqual(self.hub.asked_for("model.safetensors"), [""])
        self.assert_complete()

    def test_the_lock_is_that_of_huggingface_hub(self):
        lock = self.cache / ".locks" / "models--Tiny--Model-1.0" / f"{self.repository.etag('model.safetensors')}.lock"
        lock.parent.mkdir(parents=True)
        with lock.open("w") as file, self.start() as run:
            fcntl.flock(file, fcntl.LOCK_EX)
            for line in run.stderr:
                if "another process" in line:
                    break
            else:
                self.fail("the pull did not wait")
            fcntl.flock(file, fcntl.LOCK_UN)
            run.communicate(timeout=TIMEOUT)
        self.assert_complete()


class HostileHub(Case):
    def test_content_with_a_wrong_hash_is_thrown_away(self):
        content = bytearray(self.repository.files["model.safetensors"])
        content[7] ^= 1

        def lie(handler):
            if not handler.is_store:
                return False
            handler.reply_content(bytes(content))
            return True

        self.hub.faults.append(lie)
        self.assertIn("does not have the hash", self.refused(code=1))
        blob, _ = self.weights()
        self.assertFalse(blob.exists())
        self.assertFalse((self.place / "refs" / "main").exists())
        self.hub.faults.clear()
        self.pull()
        self.assert_complete()

    def test_a_small_file_with_a_wrong_hash_is_thrown_away(self):
        def lie(handler):
            if "/resolve-cache/" not in handler.path or not handler.path.endswith(f"{COMMIT}/config.json"):
                return False
            handler.reply(200, self.repository.files["config.json"].replace(b"{", b"["))
            return True

        self.hub.faults.append(lie)
        self.assertIn("config.json: the content does not have the hash", self.refused(code=1))
        self.assertFalse((self.snapshot / "config.json").exists())

    def test_more_bytes_than_promised_are_refused(self):
        def flood(handler):
            if not handler.is_store:
                return False
            handler.reply(200, self.repository.files["model.safetensors"] + b"x")
            return True

        self.hub.faults.append(flood)
        self.assertIn("sends more than", self.refused(code=1))

    def test_a_part_that_was_not_asked_for_is_refused(self):
        def shift(handler):
            if not handler.is_store:
                return False
            handler.reply(206, b"x" * 10, Content_Range="bytes 5-14/2630760")
            return True

        self.hub.faults.append(shift)
        self.keep_partial(self.repository.files["model.safetensors"][:1000])
        self.assertIn("bytes 5-14", self.refused(code=1))

    def test_names_and_sizes_that_cannot_be_are_refused_and_nothing_is_written(self):
        good = self.repository.entry("config.json")
        for change in ({"path": "../../../evil"}, {"path": "/tmp/evil"}, {"path": "a\\..\\evil"}, {"oid": "../../evil"},
                       {"size": -1}, {"size": "3"}, {"size": 1 << 60}, {"lfs": {"oid": "x", "size": 3}}):
            with self.subTest(change):
                self.hub.tree = lambda _, change=change: [good | change]
                self.assertIn(str(change.get("path", "config.json")), self.refused(code=1))
                self.assertFalse(self.cache.exists())

    def test_answers_that_are_no_listing_are_refused(self):
        for body in (b"<html>log in</html>", b"[]", b'{"sha": "../../x"}'):
            with self.subTest(body):
                self.hub.faults[:] = [lambda handler, body=body: handler.reply(200, body) or True]
                self.assertIn("HF_ENDPOINT", self.refused(code=1))

    def test_redirects_without_end_are_refused(self):
        self.hub.faults.append(lambda handler: handler.reply(302, Location=handler.path) or True)
        self.assertIn("redirects", self.refused(code=1))

    def test_a_model_larger_than_the_disk_is_refused_before_it_comes(self):
        entry = self.repository.entry("model.safetensors")
        entry["lfs"]["size"] = 1 << 49
        self.hub.tree = lambda _: [entry]
        self.assertIn("the disk has", self.refused(code=1))
        self.assertEqual(self.hub.store_requests, [])


class Tokens(Case):
    hub_options = {"token": TOKEN}

    def test_the_token_goes_to_the_hub_and_not_to_the_store(self):
        self.repository.gated = True
        self.pull(HF_TOKEN=TOKEN)
        self.assert_complete()
        self.assertTrue(self.hub.store_requests)
        for _, url, headers in self.hub.requests:
            self.assertEqual(headers.get("authorization"), f"Bearer {TOKEN}", url)
        for _, url, headers in self.hub.store_requests:
            self.assertNotIn("authorization", headers, url)

    def test_the_token_is_found_where_huggingface_hub_writes_it(self):
        self.repository.gated = True
        home, other = self.folder / "hf", self.folder / "token"
        default = self.folder / "home" / ".cache" / "huggingface"
        for path, environment in ((home / "token", {"HF_HOME": str(home)}), (other, {"HF_TOKEN_PATH": str(other)}),
                                  (default / "token", {})):
            with self.subTest(environment):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(TOKEN + "\n", encoding="utf-8")
                self.pull(**environment)
                path.unlink()

    def test_the_cache_is_where_huggingface_hub_has_it(self):
        self.pull(HF_HUB_CACHE=None, HF_HOME=str(self.folder / "hf"))
        self.assertTrue((self.folder / "hf" / "hub" / "models--Tiny--Model-1.0" / "refs" / "main").exists())

    def test_refusals_say_what_to_do(self):
        self.repository.gated = True
        gated = self.refused()
        for part in ("is gated", f"{self.hub.url}/{NAME}", "HF_TOKEN", "Access to the model is restricted."):
            self.assertIn(part, gated)
        self.assertIn("does not accept the token", self.refused(HF_TOKEN="hf_old"))
        self.assertIn("Check the spelling", self.refused("Tiny/Modle"))
        self.assertIn("the account of the token cannot see it", self.refused("Tiny/Modle", HF_TOKEN=TOKEN))
        for message in (gated, self.refused(HF_TOKEN="hf_old")):
            self.assertNotIn("hf_old", message)
        self.assertIn("bytes that no token may contain", self.refused(HF_TOKEN="a\nX-Evil: 1"))
        self.hub.faults.append(lambda handler: handler.reply(403, X_Error_Message="fine-grained token") or True)
        self.assertIn("fine-grained token", self.refused(HF_TOKEN=TOKEN))


class WithoutNetwork(Case):
    def test_a_closed_network_is_told_what_to_run_elsewhere(self):
        self.hub.close()
        for arguments, part in (((NAME,), f"reprise pull {NAME}\n"),
                                ((f"{NAME}:Q4_K_M", "--revision", "x"), f"reprise pull {NAME}:Q4_K_M --revision x\n")):
            message = self.refused(*arguments, code=1)
            for text in ("does not answer", part, f"hf download {NAME}", str(self.place), "HF_ENDPOINT"):
                self.assertIn(text, message)

    def test_offline_asks_nothing(self):
        message = self.refused(HF_HUB_OFFLINE="1")
        self.assertIn("HF_HUB_OFFLINE", message)
        self.assertIn(f"reprise pull {NAME}", message)
        self.assertEqual(self.hub.requests, [])

    def test_names_that_are_none_are_refused(self):
        for arguments in ((), ("gpt2",), ("./folder",), ("a/b/c",), (NAME, "more"), ("Tiny/x.gguf",)):
            run = self.run_cli("pull", *arguments)
            self.assertEqual((run.returncode, "ORG/NAME" in run.stderr or "unexpected" in run.stderr), (2, True), run.stderr)

    def test_the_endpoint_is_an_address(self):
        self.assertIn("HF_ENDPOINT", self.refused(HF_ENDPOINT="huggingface.co"))


class Tls(Case):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.certificate, key = f"{folder.name}/hub.pem", f"{folder.name}/hub.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cls.certificate],
                       check=True, capture_output=True)
        cls.hub_options = {"certificate": cls.certificate, "key": key}

    def test_a_trusted_hub_is_asked(self):
        self.pull(SSL_CERT_FILE=self.certificate)
        self.assert_complete()

    def test_a_proxy_opens_tunnels(self):
        proxy = Proxy("me:secret")
        self.addCleanup(proxy.close)
        address = f"127.0.0.1:{proxy.port}"
        self.pull(SSL_CERT_FILE=self.certificate, HTTPS_PROXY=f"http://me:secret@{address}")
        self.assert_complete()
        self.assertEqual(set(proxy.targets), {url.removeprefix("https://") for url in (self.hub.url, self.hub.store_url)})
        message = self.refused("Tiny/Other", code=1, SSL_CERT_FILE=self.certificate, https_proxy=address)
        self.assertIn("407", message)
        before = len(proxy.targets)
        self.pull(SSL_CERT_FILE=self.certificate, HTTPS_PROXY=address, NO_PROXY="example.com,localhost")
        self.pull(SSL_CERT_FILE=self.certificate, HTTPS_PROXY=address, no_proxy="*")
        self.assertEqual(len(proxy.targets), before)
        self.assertIn("HTTPS_PROXY", self.refused(HTTPS_PROXY="socks5://127.0.0.1:1"))

    def test_an_unknown_certificate_is_refused(self):
        self.assertIn("certificate", self.refused(code=1))
        self.assertEqual(self.hub.requests, [])

    def test_a_redirect_to_plain_http_is_refused(self):
        self.hub.store_url = self.hub.store_url.replace("https", "http")
        self.assertIn("redirects from https", self.refused(code=1, SSL_CERT_FILE=self.certificate))


if __name__ == "__main__":
    BINARY, MODEL = (str(Path(argument).resolve()) for argument in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
