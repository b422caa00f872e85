"""A browser without a window, for tests: Chromium, spoken to through two pipes.

    with Browser() as browser:
        page = browser.page(1280, 800)
        page.open("file:///...")
        page.evaluate("document.title")

Needs nothing but Chromium and the standard library.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]


def find_browser():
    """The program's path, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class BrowserError(Exception):
    pass


class Browser:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="magpie_browser_")
        from_us, self.out = os.pipe()
        self.inp, to_us = os.pipe()

        def plug():
            # Chromium reads commands from 3 and writes answers to 4.
            os.dup2(from_us, 10)
            os.dup2(to_us, 11)
            os.dup2(10, 3)
            os.dup2(11, 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        arguments = [find_browser(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
                     "--hide-scrollbars", "--no-first-run", "--disable-dev-shm-usage", "--force-color-profile=srgb",
                     "--disable-background-networking", "--allow-file-access-from-files=0",
                     f"--user-data-dir={self.folder.name}", "about:blank"]
        self.process = subprocess.Popen(arguments, preexec_fn=plug, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(from_us)
        os.close(to_us)
        self.buffer = b""
        self.number = 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
        except (BrowserError, OSError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.inp)
        self.folder.cleanup()

    def read(self):
        while b"\0" not in self.buffer:
            part = os.read(self.inp, 1 << 20)
            if not part:
                raise BrowserError("the browser is gone")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def page(self, width, height, mobile=False):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, width, height, mobile)


class Page:
    def __init__(self, browser, session, width, height, mobile):
        self.browser = browser
        self.session = session
        for domain in ("Page", "Runtime"):
            self.call(f"{domain}.enable")
        self.size(width, height, mobile)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def size(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if mobile else 1, mobile=mobile)

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete'")

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait_for(self, expression, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.evaluate(expression):
                return
            time.sleep(0.02)
        raise BrowserError(f"waited in vain for {expression}")

    def key(self, key):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def drag(self, x1, y1, x2, y2, modifiers=0):
        self.mouse("mouseMoved", x1, y1)
        self.mouse("mousePressed", x1, y1, button="left", clickCount=1, modifiers=modifiers)
        for i in range(1, 6):
            self.mouse("mouseMoved", x1 + (x2 - x1) * i / 5, y1 + (y2 - y1) * i / 5, button="left", buttons=1,
                       modifiers=modifiers)
        self.mouse("mouseReleased", x2, y2, button="left", clickCount=1, modifiers=modifiers)

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def errors(self):
        """What went wrong in the page since the last call."""
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            if event.get("method") == "Runtime.exceptionThrown":
                details = event["params"]["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            if event.get("method") == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "assert"):
                found.append(" ".join(str(part.get("value", part.get("description")))
                                      for part in event["params"]["args"]))
        self.browser.events.clear()
        return found
