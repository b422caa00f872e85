#!/usr/bin/env python3
"""`magpie top`, on a program that has a debug server.

    top_test.py MAGPIE PROGRAM      (tests/programs/debug_subject.cpp)
"""

import fcntl
import http.server
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

MAGPIE, PROGRAM = sys.argv[1], sys.argv[2]


def magpie(*words, **how):
    return subprocess.run([MAGPIE, *words], capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL, **how)


class Subject:
    """The program, until the end of the block."""

    def __init__(self, address="127.0.0.1:0", *words):
        self.process = subprocess.Popen([PROGRAM, address, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(60)


class Once(unittest.TestCase):
    def test_shows_goroutines_by_state_and_place(self):
        with Subject() as subject:
            done = magpie("top", subject.address, "--once", "--interval", "0.1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^debug_subject  magpie \d+\.\d+\.\d+  up ")
        self.assertRegex(done.stdout, r"(?m)^goroutines \d+: \d+ running, \d+ runnable, \d+ waiting, \d+ in calls$")
        self.assertRegex(done.stdout, r'(?m)^ +50  chan receive .*  "receiver" debug_subject\.cpp:\d+  main')
        self.assertRegex(done.stdout, r"(?m)^ +7  sync.Mutex.Lock ")
        self.assertRegex(done.stdout, r"(?m)^0 +(idle|busy|syscall) +\d+ +\d+ +\d+ +[\d.]+[kM]? +\d+$")
        self.assertRegex(done.stdout, r"runnable to running: half within [\d.]+ \w+, 99 % within [\d.]+ \w+")
        self.assertRegex(done.stdout, r"per second: [\d.]+k? turns")
        self.assertNotIn("\x1b", done.stdout)

    def test_takes_addresses_as_people_write_them(self):
        with Subject() as subject:
            for address in (subject.address, f"http://{subject.address}", f"http://{subject.address}/"):
                self.assertEqual(magpie("top", address, "--once", "--interval", "0.05").returncode, 0, address)

    def test_a_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "debug")
            with Subject("unix:" + path) as subject:
                self.assertEqual(subject.address, "unix:" + path)
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
                for address in (path, "unix:" + path):
                    self.assertEqual(magpie("top", address, "--once", "--interval", "0.05").returncode, 0)
                here = magpie("top", "debug", "--once", "--interval", "0.05", cwd=folder)
                self.assertEqual(here.returncode, 0, here.stderr)
            self.assertFalse(os.path.exists(path))

    def test_one_goroutine(self):
        with Subject() as subject:
            text = magpie("top", subject.address, "--once", "--interval", "0.05").stdout
            number = re.search(r"chan receive +[\d.]+ \w+ +(\d+)", text).group(1)
            one = magpie("top", subject.address, "--goroutine", number)
            self.assertTrue(one.stdout.startswith(f"goroutine {number} [chan receive] \"receiver\":"), one.stdout)
            gone = magpie("top", subject.address, "--goroutine", "99999999")
            self.assertEqual(gone.returncode, 1)
            self.assertIn("There is no goroutine 99999999", gone.stderr)


class Many(unittest.TestCase):
    def test_a_hundred_thousand_goroutines(self):
        with Subject("127.0.0.1:0", "100000") as subject:
            done = magpie("top", subject.address, "--once", "--interval", "0.05")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r'(?m)^ +100k  chan receive .*  "receiver" ')
        self.assertRegex(done.stdout, r"(?m)^goroutines 100k: ")


class Mistakes(unittest.TestCase):
    def test_nobody_listens(self):
        done = magpie("top", "127.0.0.1:1", "--once")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nobody listens at 127.0.0.1:1", done.stderr)
        done = magpie("top", "/nowhere/debug", "--once")
        self.assertIn("nobody listens at unix:/nowhere/debug", done.stderr)

    def test_somebody_else_listens(self):
        class Other(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"<html>")

            def log_message(self, *_):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Other) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            done = magpie("top", f"127.0.0.1:{server.server_port}", "--once")
            server.shutdown()
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no magpie::debug::server", done.stderr)

    def test_usage(self):
        for words in ([], ["a:1", "b:2"], ["a:1", "--what"], ["a:1", "--interval", "x"], ["a:1", "--interval"], ["word"]):
            self.assertEqual(magpie("top", *words).returncode, 2, words)

    def test_no_terminal(self):
        with Subject() as subject:
            done = magpie("top", subject.address)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--once", done.stderr)


class InATerminal(unittest.TestCase):
    def setUp(self):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.subject = Subject()
        self.top = subprocess.Popen([MAGPIE, "top", self.subject.address, "--interval", "0.1"],
                                    stdin=slave, stdout=slave, stderr=slave)
        self.text = ""

    def tearDown(self):
        if self.top.poll() is None:
            self.top.kill()
        self.top.wait()
        self.subject.__exit__()
        os.close(self.master)
        os.close(self.slave)

    def type(self, keys):
        self.text = ""
        os.write(self.master, keys.encode())

    def expect(self, pattern):
        end = time.monotonic() + 60
        while not re.search(pattern, self.text):
            self.assertLess(time.monotonic(), end, f"waited in vain for {pattern} in {self.text[-3000:]!r}")
            if select.select([self.master], [], [], 1)[0]:
                self.text += os.read(self.master, 65536).decode(errors="replace")

    def expect_end(self):
        end = time.monotonic() + 60
        while self.top.poll() is None and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                self.text += os.read(self.master, 65536).decode(errors="replace")
        self.assertEqual(self.top.poll(), 0)
        while select.select([self.master], [], [], 0.1)[0]:
            self.text += os.read(self.master, 65536).decode(errors="replace")

    def test_keys(self):
        self.expect(r"chan receive +[\d.]+ \w+ +(\d+)")
        number = re.search(r"chan receive +[\d.]+ \w+ +(\d+)", self.text).group(1)
        self.expect("q quit")
        self.type("p")
        self.expect("PAUSED")
        self.type("p")
        self.expect("(?s)goroutines.* q quit")
        self.type("s")
        self.expect("q quit")
        self.type("d")
        self.expect("dump goroutine number: _")
        self.type(number + "\n")
        self.expect(rf"goroutine {number} \[chan receive\]")
        self.expect("q back")
        self.type("q")
        self.expect("q quit")
        self.type("a")
        self.expect(r"goroutine \d+ \[")
        self.type("q")
        self.expect("q quit")
        self.type("q")
        self.expect_end()

    def test_arrows_move_and_do_not_leave(self):
        self.expect("q quit")
        self.type("a")
        self.expect("(?s)goroutine .*q back")
        for keys in ("\x1b[B", "\x1b[6~", "\x1bOA", "\x1b[C"):
            self.type(keys)
            self.expect("q back")
            self.assertNotIn("q quit", self.text)
        self.type("\x1b[1;5C\x1bOP\x1b")  # two keys that mean nothing, and escape, read at once
        self.expect("q quit")

    def test_a_small_screen_shows_all_keys_and_is_full(self):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 17, 80, 0, 0))
        self.expect("q quit")
        self.text = ""
        self.expect("(?s)\x1b\\[H.*a dump all")
        self.text = ""
        self.expect("(?s)\x1b\\[H.*a dump all.*\x1b\\[H")
        frame = self.text.split("\x1b[H")[-2]
        lines = [line.rstrip("\r ") for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", frame).split("\n")]
        self.assertEqual(len(lines), 17)
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertRegex(lines[-2], r"^\.\.\. and \d+ more$")
        self.assertTrue(lines[4].endswith("polls") and lines[5].endswith("timers"), lines)
        self.type("s")
        self.expect(r"s sort \(by wait\)")

    def frame(self, lines, columns):
        """The last whole picture, after the screen has become as large as that."""
        self.text = ""
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.expect("(?s)\x1b\\[H.*\x1b\\[H.*\x1b\\[H.*\x1b\\[J")
        picture = self.text.split("\x1b[J")[-2].split("\x1b[H")[-1]
        return [line.rstrip("\r ") for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", picture).split("\n")]

    def test_every_size_of_screen_is_kept_to(self):
        self.expect("q quit")
        for lines, columns in ((24, 80), (12, 40), (6, 30), (3, 20), (2, 10), (50, 200), (60, 24)):
            shown = self.frame(lines, columns)
            self.assertLessEqual(len(shown), lines, shown)
            self.assertLessEqual(max(map(len, shown)), columns, shown)
            self.assertTrue(shown[-1].startswith(" q quit"), shown)
        # What matters most is there.
        self.assertRegex("\n".join(self.frame(12, 80)), r'(?m)^ +50  chan receive ')
        narrow = "\n".join(self.frame(30, 44))
        self.assertRegex(narrow, r"\d+ waiting, \d+ in calls")
        self.assertRegex(narrow, r'(?m)^ +50  chan receive    "receiver" debu')

    def test_the_screen_is_drawn_anew_when_its_size_changes(self):
        self.top.kill()
        self.top.wait()
        self.top = subprocess.Popen([MAGPIE, "top", self.subject.address, "--interval", "3600"],
                                    stdin=self.slave, stdout=self.slave, stderr=self.slave)
        self.text = ""
        self.expect("a dump all")
        self.text = ""
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 40, 0, 0))
        self.expect("(?s)\x1b\\[H.* q quit")

    def test_long_lines_can_be_moved(self):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 40, 0, 0))
        self.expect("q quit")
        self.type("a")
        self.expect("goroutine \\d+ .*(?s:.*)q back")
        self.type("\x1b[C")
        self.expect("q back")
        self.assertNotRegex(self.text, "(?m)^goroutine ")
        self.type("\x1b[D")
        self.expect("goroutine \\d+ \\[")

    def test_the_terminal_is_as_before(self):
        self.expect("q quit")
        self.assertNotEqual(termios.tcgetattr(self.slave)[3], self.before[3])
        self.type("q")
        self.expect_end()
        self.assertEqual(termios.tcgetattr(self.slave)[3], self.before[3])
        self.assertTrue(self.text.endswith("\x1b[?25h\x1b[?1049l"), self.text[-100:])

    def test_the_terminal_is_as_before_when_it_is_killed(self):
        self.expect("q quit")
        self.top.terminate()
        self.top.wait(60)
        self.assertEqual(termios.tcgetattr(self.slave)[3], self.before[3])

    def test_lines_fit_the_screen(self):
        self.expect("q quit")
        frame = self.text.split("\x1b[H")[-1]
        lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", frame).split("\n")
        self.assertLessEqual(len(lines), 40)
        self.assertLessEqual(max(len(line.rstrip("\r")) for line in lines), 100)

    def test_a_process_that_ends_is_said_to_be_gone(self):
        self.expect("q quit")
        self.subject.__exit__()
        self.text = ""
        self.expect("trying again: nobody listens at ")
        self.type("q")
        self.expect_end()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
