#!/usr/bin/env python3
"""The chat page in a real Chromium, against a real server.

    page_test.py REPRISE_BINARY MODEL_FOLDER [--screenshots FOLDER]

Uses only Python's standard library. page_parts_test.py tests the parts of the page, without this program. Without
Chromium it exits with 77, which ctest counts as skipped.
"""

import http.client
import http.server
import re
import signal
import sys
import threading
import unittest
from pathlib import Path

import browser as chromium
from browser import Browser

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
import serve_test  # noqa: E402

KEY = "a-key-of-the-test"


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
        self.browser.evaluate("window.plainFetch = fetch; window.fetch = (url, options) => plainFetch(url, options?.body ? "
                              "{...options, body: JSON.stringify({...JSON.parse(options.body), ignore_eos: true})} : options)")

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
        # The page must show what the API answers to the same request.
        status, answer = server.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Once upon a time there was a little girl."}],
            "max_tokens": 120, "seed": 7, "ignore_eos": True})
        self.assertEqual(status, 200)
        shown = browser.module("history.js", "(async () => { const h = new m.History(() => {}, () => {}); await h.open();"
                               "return (await h.all())[0].messages.at(-1).content; })()")
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

    def test_the_strip_links_to_the_graphs_where_the_server_shows_them(self):
        browser = self.browser
        is_hidden = "document.getElementById('graphs-link').hidden"
        self.serve()
        self.assertTrue(browser.evaluate(is_hidden))
        server = self.serve("--dev", "--max-num-seqs", "4")
        browser.wait("!" + is_hidden)
        for width in (1280, 390):
            browser.resize(width, 844, 1 if width > 400 else 2, width < 400)
            browser.open(f"http://127.0.0.1:{server.port}/")
            browser.wait("!" + is_hidden)
            browser.screenshot(f"strip-{width}")
            browser.call("Page.navigate", url=browser.evaluate("document.querySelector('#graphs-link a').href"))
            browser.wait("document.querySelectorAll('form button').length > 5")
            self.assertIn("FULL_AND_PIECEWISE", browser.evaluate("document.querySelector('dl').textContent"))
            self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), width)
            browser.screenshot(f"graphs-{width}")
            browser.evaluate("[...document.querySelectorAll('form')].at(-1).querySelector('button').click()")
            browser.wait("document.querySelectorAll('.layer').length > 3")
            self.assertRegex(browser.evaluate("document.title"), "^FULL:tokens=1,reqs=1,uniform of reprise-tiny")
            self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), width)
            browser.screenshot(f"graph-{width}")
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
        browser.evaluate("for (let i = 0; i < 40; ++i) document.getElementById('messages').append("
                         "Object.assign(document.createElement('p'), {textContent: 'Line ' + i}))")
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
        # The model answers 900 tokens in a moment, so the page itself clicks as soon as it shows text.
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
        # On a busy machine the engine may be finished before the page shows anything.
        self.assertTrue(any(self.stop_an_answer() for _ in range(8)))
        browser = self.browser
        self.ask("And another one.", 5)  # the conversation goes on
        browser.wait("document.querySelectorAll('.message.assistant').length === 2 && " + IS_IDLE)
        self.assertEqual(browser.violations, [])

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
        browser.wait("[...document.querySelectorAll('.messages .problem')].at(-1)?.textContent.includes('connection')")
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
        browser.wait("localStorage.getItem('reprise.choices') !== null")
        browser.open(f"http://127.0.0.1:{server.port}/?again")
        self.assertEqual(browser.module("settings.js", "m.systemPrompt()"), "Be brief.")
        self.assertEqual(browser.module("settings.js", "m.requestFields()"), {"temperature": 0.5})

    def test_the_page_works_behind_a_path_of_a_proxy(self):
        browser = self.browser
        server = self.serve()
        proxy = Proxy(server.port, "/llm/")
        self.addCleanup(proxy.close)
        browser.open(proxy.url)
        browser.wait("document.getElementById('status').dataset.state === 'ready'")
        self.ask("Tell me a story about a mouse.", 12)
        browser.wait("document.querySelectorAll('.message.assistant').length === 1 && " + IS_IDLE)
        self.assertTrue(browser.evaluate(LAST_ANSWER))
        self.assertEqual(proxy.strays, [])
        self.assertEqual(browser.violations, [])


class Proxy:
    """Passes on what is below a path, without that path, as nginx does for `location /llm/`."""

    def __init__(self, port, prefix):
        self.strays = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if not self.path.startswith(prefix):
                    outer.strays.append(self.path)
                    return self.send_error(404)
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=serve_test.TIMEOUT)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {"Content-Type": self.headers.get("Content-Type", "text/plain"), "Host": f"127.0.0.1:{port}"}
                connection.request(self.command, "/" + self.path.removeprefix(prefix), body, headers)
                answer = connection.getresponse()
                self.send_response(answer.status)
                for name in ("Content-Type", "Content-Security-Policy"):
                    if value := answer.getheader(name):
                        self.send_header(name, value)
                self.end_headers()
                while piece := answer.read1(65536):
                    self.wfile.write(piece)
                return connection.close()

            do_POST = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}{prefix}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Headers(unittest.TestCase):
    def test_the_page_allows_nothing_from_elsewhere_and_nothing_inline(self):
        server = serve_test.Server()
        self.addCleanup(server.stop)
        files = re.findall(r'(?:src|href)="(page/.*?)"', server.request("GET", "/")[1].decode())
        self.assertGreater(len(files), 3)
        for path in ("/", *("/" + file for file in files), "/page/markdown_inline.js"):
            response, body = server.request("GET", path)
            policy = response.getheader("Content-Security-Policy")
            self.assertIn("default-src 'none'", policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual(response.getheader("X-Content-Type-Options"), "nosniff")
            self.assertNotRegex(body.decode(), r"https?://\w|\son\w+=\"|style=\"|<script>|innerHTML")
        self.assertEqual(server.request("GET", "/page/none.js")[0].status, 404)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if "--screenshots" in arguments:
        at = arguments.index("--screenshots")
        chromium.SCREENSHOTS = Path(arguments[at + 1])
        chromium.SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        del arguments[at:at + 2]
    serve_test.BINARY, serve_test.MODEL = arguments
    if not chromium.CHROMIUM:
        print("Chromium is not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
