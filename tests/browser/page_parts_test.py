#!/usr/bin/env python3
"""The parts of the chat page in a real Chromium, against a server whose answers the test decides, behind a path.

    page_parts_test.py [--screenshots FOLDER] [TEST ...]

Standard library only. Where the package axe-core-python is installed, axe judges the page too. Without Chromium it
exits with 77, which ctest counts as skipped.
"""

import importlib.util
import json
import sys
import tempfile
import time
import unittest
from pathlib import Path

import browser as chromium
from markdown_test import Markdown
from page_case import IS_IDLE, Case
from scripted_server import ScriptedServer

ANSWERS = "document.querySelectorAll('.message.assistant').length"
LAST_ANSWER = "[...document.querySelectorAll('.message.assistant .text')].at(-1)"
NOTICE = "document.querySelector('#notices .problem')?.textContent ?? ''"


class Chatting(Case):
    def test_reasoning_is_shown_while_it_comes_and_folded_after(self):
        browser = self.browser
        server = self.serve([{"reasoning": f"step {n} "} for n in range(30)] + [{"content": f"word {n} "} for n in range(30)], pace=0.05)
        browser.type_into("prompt", "Why?")
        browser.press_enter()
        browser.wait("document.querySelector('details.reasoning[open] .thoughts')?.textContent.includes('step 3')")
        self.assertEqual(browser.evaluate("document.querySelector('.reasoning summary').textContent"), "Thinking …")
        self.assertTrue(browser.evaluate("document.querySelector('.message.assistant').getAttribute('aria-busy') === 'true'"))
        browser.wait(LAST_ANSWER + ".textContent.includes('word 2 ')")
        self.assertFalse(browser.evaluate("document.querySelector('details.reasoning').open"))
        browser.wait(IS_IDLE)
        self.assertRegex(browser.evaluate("document.querySelector('.reasoning summary').textContent"), r"^Thought for \d+ s$")
        self.assertIn("word 29", browser.evaluate("document.getElementById('announcer').textContent"))
        self.assertEqual(server.strays, [])  # everything that the page loads is under /llm/
        self.assert_no_violations()

    def test_reasoning_after_the_answer_has_begun_is_shown_too(self):
        self.serve([{"content": "A "}, {"reasoning": "late"}, {"content": "B"}])
        self.ask("Why?")
        self.assertEqual(self.browser.evaluate("document.querySelector('.thoughts').textContent"), "late")
        self.assertEqual(self.shown()[1], ["assistant", "A B"])

    def test_an_answer_that_is_only_reasoning_says_so(self):
        self.serve([{"reasoning": "Hm. "}] * 3 + [{"finish_reason": "length"}])
        self.ask("Why?")
        self.assertTrue(self.browser.evaluate("document.querySelector('details.reasoning').open"))
        self.assertIn("still thinking", self.browser.evaluate("document.querySelector('.foot .note').textContent"))

    def test_thoughts_in_the_text_are_shown_as_reasoning(self):
        """As a server without a reasoning parser sends them."""
        server = self.serve([{"content": piece} for piece in ("<th", "ink>Hm", ".</think>", "\n\nYes.")])
        self.ask("Why?")
        self.assertEqual(self.shown(), [["user", "Why?"], ["assistant", "Yes."]])
        self.assertEqual(self.browser.evaluate("document.querySelector('.thoughts').textContent"), "Hm.")
        self.ask("Sure?")
        self.assertEqual(server.requests[1]["messages"][1], {"role": "assistant", "content": "Yes."})
        for text, reasoning, answer in (("<think>Hm <b> </thin\n</think>\n\nYes.", "Hm <b> </thin\n", "Yes."), ("<thi", "", "<thi"),
                                        ("<thinking is hard", "", "<thinking is hard"), ("<think>Hm </thi", "Hm </thi", ""),
                                        ("A <think> b", "", "A <think> b")):
            for size in (1, 3, 100):
                split = self.browser.module("think_tags.js", f"""(() => {{ const tags = new m.ThinkTags(); const text = {json.dumps(text)};
                    const all = []; for (let at = 0; at < text.length; at += {size}) all.push(tags.split(text.slice(at, at + {size})));
                    all.push(tags.end()); return [all.map((x) => x.reasoning).join(''), all.map((x) => x.content).join('')]; }})()""")
                self.assertEqual(split, [reasoning, answer], (text, size))

    def test_the_keys_of_the_help_do_what_it_says(self):
        browser = self.browser
        self.serve([{"content": "```\ncode of it\n```\n"}], [{"content": f"word {n} "} for n in range(600)], pace=0.05)
        self.ask("Q1")
        browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        browser.evaluate("document.querySelector('.code-head button').id = 'copy-code'")
        browser.click("copy-code")
        browser.wait("document.getElementById('copy-code').textContent === 'Copied'")
        self.assertEqual(browser.evaluate("navigator.clipboard.readText()"), "code of it")
        browser.press("Y", "KeyY", 89, control=True, shift=True)
        browser.wait("navigator.clipboard.readText().then((text) => text === '```\\ncode of it\\n```\\n')")
        browser.type_into("prompt", "Q2")
        browser.press_enter()
        browser.wait(LAST_ANSWER + ".textContent.includes('word 3 ')")
        browser.press("Escape", "Escape", 27)
        browser.wait(IS_IDLE)
        self.assertIn("stopped", browser.evaluate("[...document.querySelectorAll('.figures-line')].at(-1).textContent"))
        browser.evaluate("document.getElementById('prompt').focus()")
        browser.press("ArrowUp", "ArrowUp", 38)
        browser.wait("document.activeElement.value === 'Q2' && document.activeElement.closest('.edit') !== null")
        browser.press("Escape", "Escape", 27)
        browser.wait("document.querySelector('.edit') === null")
        browser.press("k", "KeyK", 75, control=True)
        browser.wait("document.activeElement.id === 'search'")
        browser.press("/", "Slash", 191, control=True)
        browser.wait("document.getElementById('help').open")
        browser.press("Escape", "Escape", 27)
        browser.wait("!document.getElementById('help').open")
        browser.press("O", "KeyO", 79, control=True, shift=True)
        browser.wait("document.querySelectorAll('.message').length === 0 && document.activeElement.id === 'prompt'")
        self.assertEqual(browser.evaluate("document.querySelectorAll('#history-list li').length"), 1)

    def test_copying_works_without_the_clipboard_of_secure_pages(self):
        browser = self.browser
        self.serve([{"content": "some text"}])
        self.ask("Q1")
        browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        browser.evaluate("window.kept = navigator.clipboard; Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        browser.evaluate("[...document.querySelectorAll('.assistant .actions button')].find((b) => b.textContent === 'Copy').id = 'copy'")
        browser.click("copy")
        browser.wait("document.getElementById('copy').textContent === 'Copied'")
        self.assertEqual(browser.evaluate("kept.readText()"), "some text")

    def test_the_theme_is_kept(self):
        browser = self.browser
        server = self.serve()
        light = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        browser.evaluate("(() => { const e = document.getElementById('theme'); e.value = 'dark'; e.dispatchEvent(new Event('change')); })()")
        dark = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        self.assertNotEqual(light, dark)
        browser.open(server.url)
        self.assertEqual(browser.evaluate("getComputedStyle(document.body).backgroundColor"), dark)
        self.assertEqual(browser.evaluate("document.getElementById('theme').value"), "dark")

    def test_what_is_sent_is_what_the_branch_shows(self):
        browser = self.browser
        server = self.serve(*([{"reasoning": "r"}, {"content": f"A{n}"}] for n in range(1, 7)))

        def assert_sent_is_shown():
            shown = [[role, text] for role, text in self.shown()]
            sent = [[m["role"], m["content"]] for m in server.requests[-1]["messages"]]
            self.assertEqual(sent, shown[:-1])
            self.assertEqual(shown[-1][0], "assistant")

        self.ask("Q1")
        self.ask("Q2")
        assert_sent_is_shown()
        self.click_action("Regenerate")  # A2 becomes A3
        browser.wait(LAST_ANSWER + "?.textContent === 'A3' && " + IS_IDLE)
        assert_sent_is_shown()
        self.click_action("Edit", 0)  # Q1 becomes Q1b
        browser.wait("document.querySelector('.edit textarea') !== null")
        browser.evaluate("document.querySelector('.edit textarea').value = 'Q1b'; document.querySelector('.edit').requestSubmit()")
        browser.wait(LAST_ANSWER + "?.textContent === 'A4' && " + IS_IDLE)
        self.assertEqual(self.shown(), [["user", "Q1b"], ["assistant", "A4"]])
        assert_sent_is_shown()
        self.click("[aria-label='The version before']", 0)  # back to Q1, with its newest end
        browser.wait("document.querySelectorAll('.message').length === 4")
        self.assertEqual(self.shown(), [["user", "Q1"], ["assistant", "A1"], ["user", "Q2"], ["assistant", "A3"]])
        self.assertEqual(browser.evaluate("[...document.querySelectorAll('.versions')].map((v) => v.innerText.replace(/\\s+/g, ''))"),
                         ["‹1/2›", "‹2/2›"])
        self.ask("Q3")
        assert_sent_is_shown()
        self.assertEqual(len(server.requests), 5)
        self.assert_no_violations()

    def test_an_unanswered_question_can_be_asked_again(self):
        server = self.serve(500)
        self.browser.type_into("prompt", "Q1")
        self.browser.press_enter()
        self.browser.wait("document.querySelector('.messages .problem')?.textContent === 'Refused with 500.'")
        self.click_action("Answer this")
        self.browser.wait(LAST_ANSWER + "?.textContent === 'Yes.' && " + IS_IDLE)
        self.assertEqual([r["messages"] for r in server.requests], [[{"role": "user", "content": "Q1"}]] * 2)
        self.assertIsNone(self.browser.evaluate("document.querySelector('.messages .problem')"))

    def test_a_file_is_sent_as_text_and_a_binary_file_is_refused(self):
        browser = self.browser
        server = self.serve()
        browser.evaluate("""(() => { const files = new DataTransfer();
            files.items.add(new File(['one\\n```\\ntwo\\n'], 'notes.txt'));
            files.items.add(new File([new Uint8Array([137, 80, 78, 71, 255])], 'x.png'));
            document.getElementById('attach-file').files = files.files;
            document.getElementById('attach-file').dispatchEvent(new Event('change')); })()""")
        browser.wait("document.querySelectorAll('#files li').length === 1")
        browser.wait(NOTICE + ".includes('x.png is not text')")
        self.ask("Sum up.")
        self.assertEqual(server.requests[0]["messages"][0]["content"],
                         "File notes.txt:\n````\none\n```\ntwo\n````\n\nSum up.")
        self.assertEqual(browser.evaluate("document.querySelector('.message.user summary').textContent"), "notes.txt")
        self.assertEqual(browser.evaluate("document.querySelectorAll('#files li').length"), 0)

    def test_calls_of_tools_are_shown_and_their_results_are_sent(self):
        browser = self.browser
        call = [{"reasoning": "I need it."}, {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "weather", "arguments": '{"ci'}}]},
                {"tool_calls": [{"index": 0, "function": {"arguments": 'ty": "Oslo"}'}}]}, {"finish_reason": "tool_calls"}]
        server = self.serve(call, [{"content": "It is cold."}])
        browser.evaluate("document.getElementById('tools').value = '[{\"type\": \"function\", \"function\": {\"name\": \"weather\"}}]'")
        self.ask("Weather?")
        self.assertEqual(server.requests[0]["tools"], [{"type": "function", "function": {"name": "weather"}}])
        self.assertEqual(browser.evaluate("document.querySelector('.call').innerText.includes('weather')"), True)
        self.assertEqual(browser.evaluate("document.querySelector('.call pre').innerText"), '{\n  "city": "Oslo"\n}')
        browser.screenshot("tool-call")
        browser.evaluate("document.querySelector('.results textarea').value = '-3 C'; document.querySelector('.results').requestSubmit()")
        browser.wait(ANSWERS + " === 2 && " + IS_IDLE)
        self.assertEqual(server.requests[1]["messages"][1:], [
            {"role": "assistant", "content": "", "reasoning": "I need it.", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "-3 C"}])
        self.assertEqual(browser.evaluate("document.querySelectorAll('.results').length"), 0)

    def test_settings_of_the_form_of_answers_are_sent_and_their_mistakes_are_said(self):
        browser = self.browser
        server = self.serve([{"content": '{"a": '}, {"content": "1}"}])
        browser.evaluate("document.getElementById('open-settings').click()")
        set_field = "(id, value) => { const e = document.getElementById(id); e.value = value; e.dispatchEvent(new Event('input', {bubbles: true})); }"
        for name, value in (("format", "json_schema"), ("schema", "{broken"), ("thinking", "off"), ("effort", "low"), ("top_k", "5")):
            browser.evaluate(f"({set_field})('{name}', '{value}')")
        self.assertIn("JSON schema in the settings is not JSON", browser.evaluate("document.getElementById('settings-problem').textContent"))
        browser.evaluate(f"({set_field})('schema', '{{\"type\": \"object\"}}')")
        self.assertTrue(browser.evaluate("document.getElementById('settings-problem').hidden"))
        browser.evaluate("document.querySelector('#settings .primary').click()")
        self.ask("A?")
        sent = server.requests[0]
        self.assertEqual(sent["response_format"], {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}})
        self.assertEqual((sent["chat_template_kwargs"], sent["reasoning_effort"], sent["top_k"]), ({"enable_thinking": False}, "low", 5))
        self.assertNotIn("max_tokens", sent)
        self.assertEqual(browser.evaluate(LAST_ANSWER + ".querySelector('pre').textContent"), '{\n  "a": 1\n}')

    def test_the_model_menu_lists_adapters_and_sends_the_choice(self):
        browser = self.browser
        server = self.serve(models=("base", "poems", "sql"))
        browser.wait("!document.getElementById('model-menu').hidden")
        self.assertEqual(browser.evaluate("[...document.querySelectorAll('#model-menu optgroup option')].map((o) => o.value)"), ["poems", "sql"])
        self.ask("A?")
        browser.evaluate("(() => { const e = document.getElementById('model-menu'); e.value = 'sql'; e.dispatchEvent(new Event('change')); })()")
        self.ask("B?")
        self.assertEqual([r["model"] for r in server.requests], ["base", "sql"])

    def test_a_long_answer_is_drawn_in_linear_time(self):
        """20,000 tokens of every kind of block. The seconds that pictures take are measured in the page."""
        browser = self.browser
        block = "Some **words** and `code` here, with a [link](https://a.example).\n\n- one\n- two\n\n```py\nx = 1\n```\n\n"
        text = block * (80000 // len(block))
        pieces = [{"content": text[at:at + 4]} for at in range(0, len(text), 4)]
        self.serve(pieces)
        browser.evaluate("""window.longest = 0; new PerformanceObserver((list) => {
            for (const e of list.getEntries()) window.longest = Math.max(window.longest, e.duration); }).observe({type: 'longtask'})""")
        began = time.monotonic()
        self.ask("Tell me everything.")
        took = time.monotonic() - began
        longest = browser.evaluate("window.longest")
        print(f"  {len(pieces)} tokens took {took:.1f} s; the longest task {longest:.0f} ms", flush=True)
        self.assertEqual(browser.evaluate("document.querySelectorAll('.message .code').length"), 80000 // len(block))
        costs = {}
        for size in (5000, 20000):
            costs[size] = browser.module("markdown.js", f"""(() => {{ const box = document.createElement('div'); const s = new m.StreamedText(box);
                const text = {json.dumps(text)}.slice(0, 4 * {size}); const began = performance.now();
                for (let at = 0; at < text.length; at += 4) {{ s.append(text.slice(at, at + 4)); s.render(); }}
                return performance.now() - began; }})()""")
        print(f"  a picture after each token: {costs[5000]:.0f} ms for 5,000 tokens, {costs[20000]:.0f} ms for 20,000", flush=True)
        self.assertLess(costs[20000], 10 * costs[5000])  # quadratic time would be 16 times


class Keeping(Case):
    def titles(self):
        return self.browser.evaluate("[...document.querySelectorAll('#history-list .title')].map((t) => t.textContent)")

    def stored(self):
        return self.browser.module("history.js", "(async () => { const h = new m.History(() => {}, () => {}); await h.open(); return h.all(); })()")

    def reload(self):
        self.browser.evaluate("delete document.documentElement.dataset.started")
        self.browser.call("Page.reload")
        self.browser.wait("document.documentElement?.dataset.started === 'true'")

    def test_a_reload_keeps_the_conversation_and_its_branches(self):
        browser = self.browser
        self.serve([{"reasoning": "r"}, {"content": "A1"}], [{"content": "A2"}])
        self.ask("Q1")
        self.click_action("Regenerate")
        browser.wait(LAST_ANSWER + "?.textContent === 'A2' && " + IS_IDLE)
        before = self.stored()
        self.reload()
        self.assertEqual(self.shown(), [["user", "Q1"], ["assistant", "A2"]])
        self.assertEqual(self.stored(), before)
        self.click("[aria-label='The version before']")
        browser.wait(LAST_ANSWER + "?.textContent === 'A1'")
        self.assertEqual(browser.evaluate("document.querySelector('.thoughts').textContent"), "r")
        self.assertFalse(browser.evaluate("document.querySelector('details.reasoning').open"))

    def test_a_reload_in_the_middle_of_an_answer_keeps_what_was_there(self):
        browser = self.browser
        self.serve([{"content": f"word {n} "} for n in range(200)], pace=0.1)
        browser.type_into("prompt", "Q1")
        browser.press_enter()
        browser.wait(LAST_ANSWER + "?.textContent.includes('word 30 ')")
        self.reload()
        self.assertIn("word 5 ", browser.evaluate(LAST_ANSWER + ".textContent"))
        self.assertIn("not finished", browser.evaluate("document.querySelector('.figures-line').textContent"))

    def test_conversations_are_searched_renamed_deleted_and_opened(self):
        browser = self.browser
        self.serve()
        for question in ("About whales", "About bread", "About trains"):
            self.click("#new-chat")
            browser.wait("document.querySelectorAll('.message').length === 0")
            self.ask(question)
        browser.wait("document.querySelectorAll('#history-list li').length === 3")
        self.assertEqual(self.titles(), ["About trains", "About bread", "About whales"])
        browser.type_into("search", "BREAD yes")
        browser.wait("document.querySelectorAll('#history-list li').length === 1")
        self.click("[aria-label='Rename: About bread']")
        browser.wait("document.activeElement.getAttribute('aria-label') === 'Title'")
        browser.call("Input.insertText", text="Sourdough")
        browser.press_enter()
        browser.wait("document.querySelector('#history-list .title')?.textContent === 'Sourdough'")
        self.click("#history-list .open")
        browser.wait("document.querySelector('.message.user .text')?.textContent === 'About bread'")
        self.click("[aria-label='Delete: Sourdough']")
        browser.wait("document.getElementById('delete-dialog').open")
        self.click("#confirm-delete")
        browser.wait("document.querySelectorAll('.message').length === 0")
        self.assertEqual(len(self.stored()), 2)
        browser.evaluate("history.back()")
        self.assertEqual(sorted(r["title"] for r in self.stored()), ["About trains", "About whales"])

    def test_an_export_that_is_imported_elsewhere_is_the_same(self):
        browser = self.browser
        self.serve([{"reasoning": "r"}, {"content": "A1"}], [{"content": "A2 </script>"}])
        self.ask("Q1")
        self.click_action("Regenerate")
        browser.wait(LAST_ANSWER + "?.textContent.startsWith('A2') && " + IS_IDLE)
        before = self.stored()
        with tempfile.TemporaryDirectory() as folder:
            browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=folder)
            self.click("#export")
            deadline = time.monotonic() + 60
            while not (files := list(Path(folder).glob("reprise-conversations-*.json"))) and time.monotonic() < deadline:
                time.sleep(0.05)
            text = files[0].read_text(encoding="utf-8")
        self.serve()  # another origin, where nothing is stored
        self.assertEqual(self.stored(), [])
        self.import_file(text)
        browser.wait("document.getElementById('history-note').textContent === 'Imported 1 conversation.'")
        self.assertEqual(self.stored(), before)
        self.import_file(text)  # again: nothing doubles
        self.assertEqual(self.stored(), before)
        for bad in ("no json", "{}", text.replace('"role": "user"', '"role": "root"')):
            self.import_file(bad)
            browser.wait(NOTICE + ".includes('backup.json')")
            self.click("#notices button")
        self.assertEqual(self.stored(), before)

    def import_file(self, text):
        self.browser.evaluate(f"""(() => {{ const files = new DataTransfer(); files.items.add(new File([{json.dumps(text)}], 'backup.json'));
            document.getElementById('import-file').files = files.files;
            document.getElementById('import-file').dispatchEvent(new Event('change')); }})()""")
        self.browser.wait("document.getElementById('import-file').value === ''")

    def open_with(self, script, *answers):
        """The page of a server, with a script that runs before those of the page."""
        identifier = self.browser.call("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
        self.addCleanup(lambda: self.browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=identifier))
        return self.serve(*answers)

    def test_without_storage_the_page_says_so_and_goes_on(self):
        self.open_with("for (const name of ['indexedDB', 'localStorage', 'sessionStorage']) Object.defineProperty(window, name, "
                       "{get() { throw new DOMException('denied', 'SecurityError'); }})")
        self.browser.wait(NOTICE + ".includes('keeps no conversations (denied)')")
        self.ask("Q1")
        self.ask("Q2")
        self.assertEqual([text for _, text in self.shown()], ["Q1", "Yes.", "Q2", "Yes."])
        self.assertEqual(self.titles(), ["Q1"])
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('#notices .problem').length"), 1)
        self.assert_no_violations()

    def test_full_storage_is_said_once_and_the_page_goes_on(self):
        self.open_with("IDBObjectStore.prototype.put = () => { throw new DOMException('full', 'QuotaExceededError'); }")
        self.ask("Q1")
        self.ask("Q2")
        self.browser.wait(NOTICE + ".includes('storage for this page is full')")
        self.assertEqual([text for _, text in self.shown()], ["Q1", "Yes.", "Q2", "Yes."])
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('#notices .problem').length"), 1)

    def test_a_stored_record_that_is_no_conversation_is_left_out(self):
        browser = self.browser
        self.serve()
        self.ask("Q1")
        browser.evaluate("""new Promise((resolve) => { indexedDB.open('reprise').onsuccess = ({target}) => {
            const store = target.result.transaction('conversations', 'readwrite').objectStore('conversations');
            store.put({id: 'bad', messages: [{role: 'user', content: 7}]});
            store.transaction.oncomplete = () => { target.result.close(); resolve(true); }; }; })""")
        self.reload()
        browser.wait(NOTICE + ".includes('1 stored conversation cannot be read')")
        self.assertEqual(self.titles(), ["Q1"])
        self.ask("Q2")

    def test_two_tabs_lose_nothing_of_one_conversation(self):
        self.serve()
        self.ask("Q1")
        merged = self.browser.module("history.js", """(async () => {
            const other = new m.History(() => {}, () => {}); await other.open();
            const [record] = await other.all();
            const add = (id) => ({...record, leaf: id, updated: record.updated + 1, messages: [...record.messages,
                {id, parent: record.leaf, role: 'user', content: id, created: Date.now()}]});
            await other.save(add('one')); await other.save(add('two'));
            return (await other.get(record.id)).messages.map((x) => x.content); })()""")
        self.assertEqual(merged, ["Q1", "Yes.", "one", "two"])


class Looks(Case):
    RICH = ("## A plan\n\nThree steps, with **care** and `code`:\n\n1. Read the [page](https://a.example)\n2. Write it\n   - a list\n   - in a list\n\n"
            "> A quote of someone.\n\n| Model | Tokens/s | Note |\n|:--|--:|---|\n| small | 1,204.5 | fast |\n| large | 88.1 | slow |\n\n"
            "```python\ndef area(radius):\n    return 3.14159 * radius ** 2  # a line that is long enough to scroll on a phone\n```\n\n"
            "So $E = mc^2$, and\n\n$$\\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}$$")

    def fill(self):
        self.serve([{"reasoning": "The reader wants a plan. "}, {"content": self.RICH}], [{"content": "Yes, that is right."}], models=("base", "poems"))
        self.ask("Make a plan, please, for the page that we talked about.")
        self.ask("Is that right?")

    def test_nothing_is_cut_or_too_faint_at_any_width_and_theme(self):
        browser = self.browser
        self.fill()
        for theme in ("light", "dark"):
            browser.prefer(theme)
            for width, height in ((1280, 800), (390, 844), (320, 640)):
                browser.resize(width, height, 1, width < 500)
                name = f"rich-{theme}-{width}"
                browser.evaluate("document.getElementById('messages').scrollTop = 0")
                browser.screenshot(name)
                self.judge(name, width)
                if width < 500:
                    self.click("#toggle-live")
                    browser.screenshot(name + "-live")
                    self.judge(name + "-live", width)
                    self.assertLessEqual(browser.evaluate("(() => { const l = document.getElementById('live'); return l.scrollHeight - l.clientHeight; })()"),
                                         0 if height > 700 else 400)
                    self.click("#toggle-live")
                    self.click("#toggle-history")
                    browser.screenshot(name + "-history")
                    self.judge(name + "-history", width)
                    self.click("#toggle-history")
                for dialog in ("settings", "help"):
                    self.click(f"#open-{dialog}")
                    browser.screenshot(f"{name}-{dialog}")
                    self.judge(f"{name}-{dialog}", width)
                    browser.evaluate(f"document.getElementById('{dialog}').close()")
        self.assert_no_violations()

    def judge(self, name, width):
        browser = self.browser
        self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), width, name)
        self.assertEqual(browser.evaluate(FAINT_OR_NAMELESS), [], name)
        if axe := axe_source():
            browser.call("Runtime.evaluate", expression=f"if (!window.axe) {{ {axe} }}")
            found = browser.evaluate("axe.run().then((r) => r.violations.map((v) => [v.id, v.nodes.map((n) => n.html).slice(0, 3)]))")
            self.assertEqual(found, [], name)


def axe_source():
    """The text of axe, or None where the package axe-core-python is not installed."""
    found = importlib.util.find_spec("axe_core_python")
    return found and (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")


# Texts whose contrast is below 4.5 (WCAG 2.2, 1.4.3), and controls without a name.
FAINT_OR_NAMELESS = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
                            return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const luminance = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const back = (e) => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; }
                        return [255, 255, 255, 255]; };
  const bad = [];
  const root = document.querySelector('dialog[open]') ?? document.body;
  for (const e of root.querySelectorAll('*')) {
    if (!e.checkVisibility({visibilityProperty: true}) || e.closest('.hidden, :disabled')) continue;
    const isControl = e.matches('button, input, textarea, select, a, meter');
    const name = e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent;
    if (isControl && !name.trim()) bad.push('no name: ' + e.outerHTML.slice(0, 80));
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [luminance(rgba(getComputedStyle(e).color)), luminance(back(e))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) bad.push(contrast.toFixed(2) + ': ' + e.outerHTML.slice(0, 80));
  }
  return bad; })()"""


class PlantedBugs(unittest.TestCase):
    """Bugs that the tests above must see, as those of tests/mutants for C++."""

    BUGS = [
        ("links of every scheme", "markdown_inline.js", "kSchemes.has(url.protocol) ? url.href : null", "url.href",
         Markdown, "test_only_web_and_mail_addresses_become_links"),
        ("an edited question follows the message that it replaces", "chat.js",
         "this.#conversation.cutBefore(message);\n    this.#append({ role: \"user\", content, ...(message.files",
         "this.#append({ role: \"user\", content, ...(message.files", Chatting, "test_what_is_sent_is_what_the_branch_shows"),
        ("reasoning stays open", "message_view.js", "this.#reasoning.details.open = !this.message.content && !this.message.toolCalls;", "",
         Chatting, "test_reasoning_is_shown_while_it_comes_and_folded_after"),
        ("a stream draws its first blocks again and again", "markdown.js", "if (numFinal > 0) this.#tail =", "if (numFinal < 0) this.#tail =",
         Markdown, "test_text_that_comes_in_pieces_ends_as_the_same_nodes"),
    ]

    def test_each_planted_bug_is_seen(self):
        for what, file, find, replace, suite, name in self.BUGS:
            with self.subTest(what):
                outcome = unittest.TestResult()
                plain = ScriptedServer.__init__

                def planted(server, *arguments, **options):
                    plain(server, *arguments, **{**options, "bug": {"file": file, "find": find, "replace": replace}})

                ScriptedServer.__init__ = planted
                try:
                    unittest.defaultTestLoader.loadTestsFromName(name, suite)
                    unittest.TestSuite([suite(name)]).run(outcome)
                finally:
                    ScriptedServer.__init__ = plain
                self.assertEqual(outcome.testsRun, 1)
                self.assertTrue(outcome.failures or outcome.errors, what)
                self.assertFalse([text for _, text in outcome.errors if "has not exactly one" in text])


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if "--screenshots" in arguments:
        at = arguments.index("--screenshots")
        chromium.SCREENSHOTS = Path(arguments[at + 1])
        chromium.SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        del arguments[at:at + 2]
    if not chromium.CHROMIUM:
        print("Chromium is not installed")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *arguments], verbosity=2)
