#!/usr/bin/env python3
"""The chat page in a real Chromium, against a real server.

    page_test.py REPRISE_BINARY MODEL_FOLDER [--screenshots FOLDER]

Uses only Python's standard library: Chromium is driven through its DevTools pipe. Without Chromium
it exits with 77, which ctest counts as skipped.
"""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
import serve_test  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCREENSHOTS = None
KEY = "a-key-of-the-test"


class Browser:
    """One Chromium with one tab."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory()
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def pipes():  # Chromium reads from 3 and writes to 4
            os.dup2(to_browser, 30)
            os.dup2(from_browser, 31)
            os.dup2(30, 3)
            os.dup2(31, 4)

        self.process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=pipes, close_fds=False,
            start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.next_id, self.session, self.violations = b"", 0, None, []
        target = next(info for info in self.call("Target.getTargets")["targetInfos"] if info["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def call(self, method, **parameters):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.next_id:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.note(answer)

    def receive(self):
        while b"\0" not in self.buffer:
            got = os.read(self.read_end, 1 << 16)
            assert got, "Chromium has ended"
            self.buffer += got
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def note(self, event):
        text = json.dumps(event)
        if event.get("method") == "Runtime.exceptionThrown" or "Content Security Policy" in text:
            self.violations.append(text)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (expression, result)
        return result["result"].get("value")

    def wait(self, expression):
        deadline = time.monotonic() + serve_test.TIMEOUT
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < deadline, "never true: " + expression + "\n" + self.evaluate("document.body.innerText")
            time.sleep(0.03)
        return value

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})")

    def resize(self, width, height, scale=1, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile)

    def prefer(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def type_into(self, identity, text):
        self.evaluate(f"(() => {{ const e = document.getElementById('{identity}'); e.focus(); e.value = ''; }})()")
        self.call("Input.insertText", text=text)

    def press_enter(self):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r" if kind == "keyDown" else "",
                      windowsVirtualKeyCode=13)

    def click(self, identity):
        box = self.evaluate(f"(() => {{ const r = document.getElementById('{identity}').getBoundingClientRect();"
                            "return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def screenshot(self, name):
        if SCREENSHOTS:
            data = self.call("Page.captureScreenshot", format="png")["data"]
            (SCREENSHOTS / (name + ".png")).write_bytes(base64.b64decode(data))

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        self.profile.cleanup()


LAST_ANSWER = "[...document.querySelectorAll('.message.assistant .text')].at(-1)?.textContent ?? ''"
IS_IDLE = "document.getElementById('stop').hidden && !document.getElementById('send').hidden"


class ChatPage(unittest.TestCase):
    def setUp(self):
        self.browser = Browser()
        self.addCleanup(self.browser.close)
        self.browser.resize(1280, 800)

    def serve(self, *options):
        server = serve_test.Server(*options)
        self.addCleanup(lambda: server.process.poll() is None and server.stop(signal.SIGKILL))
        self.browser.open(f"http://127.0.0.1:{server.port}/")
        self.browser.wait("document.getElementById('status').dataset.state === 'ready'")
        return server

    def ignore_eos(self):
        self.browser.evaluate(
            "window.plainBody = requestBody; requestBody = () => ({...plainBody(), ignore_eos: true})")

    def ask(self, text, max_tokens):
        self.browser.evaluate(f"document.getElementById('max_tokens').value = '{max_tokens}'")
        self.browser.evaluate("document.getElementById('seed').value = '7'")
        self.browser.type_into("prompt", text)
        self.browser.press_enter()

    def test_an_answer_streams_in_and_the_strip_says_which_graphs_replayed(self):
        browser = self.browser
        server = self.serve()
        self.ignore_eos()
        self.ask("Once upon a time there was a little girl.", 120)
        browser.wait(LAST_ANSWER + ".length > 0")
        browser.wait(IS_IDLE)
        browser.wait("Number(document.getElementById('step-count').textContent.split(' ')[0]) > 60")
        browser.wait("document.getElementById('last-mode').textContent === 'FULL'")
        self.assertIn("tokens=", browser.evaluate("document.getElementById('last-descriptor').textContent"))
        self.assertGreater(len(browser.evaluate("document.getElementById('last-reason').textContent")), 10)
        self.assertGreater(browser.evaluate("document.querySelectorAll('#step-bars i[data-mode=FULL]').length"), 20)
        self.assertRegex(browser.evaluate("document.getElementById('answer-rate').textContent"), r"^\d")
        self.assertRegex(browser.evaluate("document.getElementById('answer-ttft').textContent"), r"^\d")
        # What the page shows is what the API says to the same request.
        status, answer = server.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Once upon a time there was a little girl."}],
            "max_tokens": 120, "seed": 7, "ignore_eos": True})
        self.assertEqual(status, 200)
        shown = browser.evaluate("messages.at(-1).content")
        self.assertEqual(shown, answer["choices"][0]["message"]["content"])
        browser.screenshot("chat")
        browser.prefer("dark")
        browser.screenshot("chat-dark")
        browser.resize(390, 844, 2, True)
        browser.screenshot("chat-phone")
        self.assert_composer_is_at_the_bottom(844)
        browser.click("toggle-live")
        browser.wait("getComputedStyle(document.getElementById('live')).display === 'block'")
        browser.screenshot("chat-phone-live")
        self.assert_composer_is_at_the_bottom(844)
        self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), 390)
        self.assertEqual(browser.violations, [])

    def test_a_conversation_as_in_the_picture_of_the_docs(self):
        """docs/images/chat-page.png is the screenshot "conversation" of this test."""
        browser = self.browser
        self.serve()
        browser.evaluate("document.getElementById('temperature').value = '0'")
        for turn, question in enumerate((
                "Tom has 14 apples. He buys 23 more. How many apples does Tom have now?", "Tell me a story about a mouse.")):
            browser.type_into("prompt", question)
            browser.press_enter()
            browser.wait(f"document.querySelectorAll('.message.assistant .text').length === {turn + 1} && " + IS_IDLE)
            if turn == 0:
                self.assertIn("37", browser.evaluate(LAST_ANSWER))
        self.assertIn("mouse", browser.evaluate(LAST_ANSWER))
        browser.wait("Number(document.getElementById('step-count').textContent.split(' ')[0]) > 100")
        browser.wait("document.getElementById('running').textContent === '0'")
        browser.screenshot("conversation")

    def test_on_a_phone_the_composer_is_at_the_bottom_before_the_first_message_and_after_many(self):
        browser = self.browser
        browser.resize(390, 844, 2, True)
        self.serve()
        browser.screenshot("phone-empty")
        self.assert_composer_is_at_the_bottom(844)
        browser.evaluate("for (let i = 0; i < 40; ++i) addMessage('assistant', 'Line ' + i)")
        self.assert_composer_is_at_the_bottom(844)
        browser.resize(390, 420, 2, True)  # the keyboard of the phone is open
        self.assert_composer_is_at_the_bottom(420)

    def assert_composer_is_at_the_bottom(self, height):
        bottom = self.browser.evaluate("document.getElementById('composer').getBoundingClientRect().bottom")
        self.assertAlmostEqual(bottom, height, delta=1)

    def stop_an_answer(self):
        """Asks for a long answer of a new server and stops it. False if all of it was there by then."""
        browser = self.browser
        server = self.serve()
        self.ignore_eos()
        # The model answers 900 tokens in a moment: the page itself clicks, on the first text it shows.
        browser.evaluate(f"new MutationObserver((_, self) => {{ if (({LAST_ANSWER}).length > 0) {{ self.disconnect();"
                         "document.getElementById('stop').click(); } })"
                         ".observe(document.getElementById('messages'), {childList: true, subtree: true})")
        self.ask("Tell me a long story.", 900)
        browser.wait("document.querySelector('.figures-line') !== null")
        browser.wait(IS_IDLE)
        self.assertIn("stopped", browser.evaluate("document.querySelector('.figures-line').textContent"))
        ended = re.compile(rb'finished_reason="(abort|length)"} 1')
        server.wait_until(lambda: ended.search(server.request("GET", "/metrics")[1]))
        return ended.search(server.request("GET", "/metrics")[1]).group(1) == b"abort"

    def test_stop_ends_the_request_in_the_engine(self):
        # On a busy machine the engine may be through before the page shows anything.
        self.assertTrue(any(self.stop_an_answer() for _ in range(8)))
        browser = self.browser
        self.ask("And another one.", 5)  # the conversation goes on
        browser.wait("document.querySelectorAll('.message.assistant').length === 2 && " + IS_IDLE)
        self.assertEqual(browser.violations, [])

    def test_markup_in_text_stays_text(self):
        browser = self.browser
        self.serve()
        hostile = "<img src=x onerror=alert(1)> **bold** `<b>` \n```html\n<script>alert(1)</script>\n```\nend"
        browser.evaluate(f"addMessage('assistant', {json.dumps(hostile)})")
        message = "document.querySelector('.message.assistant .text')"
        self.assertEqual(browser.evaluate(message + ".querySelectorAll('img, script, b').length"), 0)
        self.assertEqual(browser.evaluate(message + ".querySelector('pre').textContent"), "<script>alert(1)</script>")
        self.assertEqual(browser.evaluate(message + ".querySelector('strong').textContent"), "bold")
        self.assertEqual(browser.evaluate(message + ".querySelector('code').textContent"), "<b>")
        # An unfinished block, as it is while it streams in.
        browser.evaluate("addMessage('assistant', 'so: ```\\nint x;')")
        browser.evaluate("addMessage('assistant', '```c\\nint x;')")
        self.assertEqual(browser.evaluate("document.querySelectorAll('.message pre').length"), 2)

    def test_a_key_is_asked_for_and_kept_for_the_tab_only(self):
        browser = self.browser
        self.serve("--api-key", KEY)
        self.ask("Hello there.", 8)
        browser.wait("document.getElementById('key-dialog').open")
        browser.screenshot("key")
        browser.type_into("key", "wrong")
        browser.click("save-key")
        browser.wait("document.getElementById('key-dialog').open && !document.getElementById('key-error').hidden")
        browser.type_into("key", KEY)
        browser.click("save-key")
        browser.wait("document.querySelectorAll('.message.assistant').length === 1 && " + IS_IDLE)
        self.assertEqual(browser.evaluate("document.querySelectorAll('.message.user').length"), 1)
        self.assertEqual(browser.evaluate("sessionStorage.getItem('reprise.key')"), KEY)
        self.assertNotIn(KEY, browser.evaluate("JSON.stringify({...localStorage}) + document.documentElement.outerHTML"))

    def test_errors_of_the_server_and_its_end_are_said(self):
        browser = self.browser
        server = self.serve()
        self.ask("Hello.", 100000000)
        browser.wait("document.querySelector('.messages .problem')?.textContent.length > 10")
        self.assertIn("max", browser.evaluate("document.querySelector('.messages .problem').textContent"))
        server.stop(signal.SIGKILL)
        browser.wait("document.getElementById('status').dataset.state === 'offline'")
        self.ask("Anybody?", 5)
        browser.wait("[...document.querySelectorAll('.messages .problem')].at(-1).textContent.includes('connection')")
        browser.screenshot("offline")

    def test_settings_are_sent_and_remembered(self):
        browser = self.browser
        server = self.serve()
        browser.click("open-settings")
        browser.wait("document.getElementById('settings').open")
        browser.type_into("system", "Be brief.")
        browser.type_into("temperature", "0.5")
        browser.screenshot("settings")
        browser.evaluate("document.querySelector('#settings .primary').click()")
        browser.wait("localStorage.getItem('reprise.settings') !== null")
        browser.open(f"http://127.0.0.1:{server.port}/?again")
        body = browser.evaluate("messages.push({role: 'user', content: 'x'}), requestBody()")
        self.assertEqual(body["messages"][0], {"role": "system", "content": "Be brief."})
        self.assertEqual(body["temperature"], 0.5)
        self.assertNotIn("top_p", body)


class Headers(unittest.TestCase):
    def test_the_page_allows_nothing_from_elsewhere_and_nothing_inline(self):
        server = serve_test.Server()
        self.addCleanup(server.stop)
        for path in ("/", "/chat.js", "/chat.css"):
            response, body = server.request("GET", path)
            policy = response.getheader("Content-Security-Policy")
            self.assertIn("default-src 'none'", policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual(response.getheader("X-Content-Type-Options"), "nosniff")
            self.assertNotRegex(body.decode(), r"https?://|\son\w+=\"|style=\"|<script>")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if "--screenshots" in arguments:
        at = arguments.index("--screenshots")
        SCREENSHOTS = Path(arguments[at + 1])
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        del arguments[at:at + 2]
    serve_test.BINARY, serve_test.MODEL = arguments
    if not CHROMIUM:
        print("Chromium is not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
