"""What the tests of the page's parts share."""

import json
import unittest

from browser import Browser
from scripted_server import ScriptedServer

IS_IDLE = "document.getElementById('stop').hidden"


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.resize(1280, 800)
        self.browser.prefer("light")
        self.browser.violations.clear()

    def serve(self, *answers, **options):
        """Opens the page of a new server: a new origin, so its storage is empty."""
        server = ScriptedServer(answers, **options)
        self.addCleanup(server.close)
        self.browser.open(server.url)
        return server

    def ask(self, text):
        """Asks and waits for the end of the answer."""
        browser = self.browser
        before = browser.evaluate("document.querySelectorAll('.message').length")
        browser.type_into("prompt", text)
        browser.press_enter()
        browser.wait(f"document.querySelectorAll('.message').length > {before} && " + IS_IDLE)

    def click(self, selector, at=-1):
        self.browser.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].at({at}).click()")

    def click_action(self, text, at=-1):
        self.browser.evaluate("[...document.querySelectorAll('.actions button')].filter((b) => b.textContent === "
                              f"{json.dumps(text)}).at({at}).click()")

    def shown(self):
        """The messages on the page, as [role, text]."""
        return self.browser.evaluate("[...document.querySelectorAll('.message')].map((m) => [m.classList[1], "
                                     "m.querySelector('.text')?.innerText.trim() ?? ''])")

    def assert_no_violations(self):
        self.assertEqual(self.browser.violations, [])
