"""Chromium, driven through its DevTools pipe. Standard library only."""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCREENSHOTS = None  # folder, or None: none are taken
TIMEOUT = 300  # for things that usually take a moment; on a machine with thirty other programs they take long


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
        deadline = time.monotonic() + TIMEOUT
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < deadline, "\n".join(
                ["never true: " + expression, self.evaluate("document.body.innerText"), *self.violations])
            time.sleep(0.03)
        return value

    def open(self, url):
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        self.wait(f"document.documentElement?.dataset.started && location.href.startsWith({json.dumps(url)})")

    def module(self, name, expression):
        """The value of an expression in which `m` is a module of the page."""
        return self.evaluate(f"import(new URL('page/{name}', document.baseURI)).then(async (m) => ({expression}))")

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

    def press(self, key, code, number, control=False, shift=False):
        """A key that types no text; `number` is its virtual key code."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code, windowsVirtualKeyCode=number,
                      modifiers=2 * control + 8 * shift)

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
