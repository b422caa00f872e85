#!/usr/bin/env python3
"""The debug server's page, in a browser.

    live_test.py PROGRAM [SCREENSHOT_FOLDER]      (tests/programs/debug_subject.cpp)
"""

import base64
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from browser import Browser, find_browser  # noqa: E402

PROGRAM = sys.argv[1]
SHOTS = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None

ROWS = "[...document.querySelectorAll('#sites tr')].slice(1).map((r) => [...r.cells].map((c) => c.textContent.trim()))"


class LivePage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.program = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.address = cls.program.stdout.readline().strip()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        if cls.program.poll() is None:
            cls.program.stdin.close()
        cls.program.stdout.close()
        cls.program.wait(60)

    def open(self, width, height, mobile=False):
        page = self.browser.page(width, height, mobile)
        page.open(f"http://{self.address}/")
        page.wait_for("document.querySelectorAll('#sites tr').length > 3")
        page.wait_for("!document.getElementById('rates').textContent.includes('–')")
        return page

    def keep(self, page, name):
        if SHOTS:
            shot = page.call("Page.captureScreenshot", format="png")
            (SHOTS / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))

    def test_shows_what_the_program_does(self):
        page = self.open(1280, 900)
        self.assertEqual(page.evaluate("document.getElementById('program').textContent"), "debug_subject")
        rows = page.evaluate(ROWS)
        self.assertEqual(rows[0][:2], ["50", "chan receive"])
        self.assertRegex(rows[0][3], r"^receiver debug_subject\.cpp:\d+ main")
        self.assertNotIn("threads", page.evaluate("document.getElementById('rates').textContent"))
        self.assertRegex(page.evaluate("document.getElementById('levels').textContent"), r"^\d+ threads, \d+ idle")
        self.assertRegex(page.evaluate("document.getElementById('most').textContent"), r"^at most \d+$")
        self.assertIn(["7", "sync.Mutex.Lock"], [row[:2] for row in rows])
        self.assertEqual(len(page.evaluate("[...document.querySelectorAll('#procs tr')].map((r) => 1)")), 3)
        self.assertTrue(page.evaluate("document.getElementById('problem').hidden"))
        self.assertRegex(page.evaluate("document.getElementById('latency').textContent"), "median .* within")
        self.keep(page, "live_wide")

    def test_goes_on_by_itself(self):
        page = self.open(1280, 900)
        page.evaluate("window.seen = document.getElementById('since').textContent")
        page.wait_for("document.getElementById('since').textContent !== window.seen")

    def test_one_goroutine_on_a_click(self):
        page = self.open(1280, 900)
        page.evaluate("document.querySelector('#sites a').click()")
        page.wait_for("document.getElementById('one-text').textContent.includes('[chan receive]')")

    def test_fits_a_telephone(self):
        page = self.open(390, 844, mobile=True)
        self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), 390)
        self.keep(page, "live_narrow")

    def test_dark_and_light(self):
        page = self.open(1280, 900)
        back = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(back)
        page.evaluate("document.getElementById('theme').click()")
        self.assertNotEqual(page.evaluate(back), light)
        self.keep(page, "live_dark")

    def test_z_says_when_nobody_answers(self):
        page = self.open(1280, 900)
        self.program.stdin.close()
        self.program.wait(60)
        page.wait_for("document.getElementById('problem').textContent.includes('No answer')")


if __name__ == "__main__":
    if not find_browser():
        print("skipped: Chromium is not installed")
        sys.exit(0)
    unittest.main(argv=sys.argv[:1])
