#!/usr/bin/env python3
"""tools/check_orders must find memory orders that nobody explains, and nothing else."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CheckOrders(unittest.TestCase):
    def check(self, *lines):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "src/sched/queue.cpp"
            file.parent.mkdir(parents=True)
            file.write_text("\n".join(lines) + "\n")
            return subprocess.run([sys.executable, ROOT / "tools/check_orders", folder],
                                  capture_output=True, text=True)

    def assert_clean(self, *lines):
        result = self.check(*lines)
        self.assertEqual((result.stdout + result.stderr, result.returncode), ("", 0))

    def assert_found_at(self, line, *lines):
        result = self.check(*lines)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 1, result.stdout)
        self.assertTrue(result.stdout.startswith(f"src/sched/queue.cpp:{line}: "), result.stdout)

    def test_a_bare_order_is_found_in_every_spelling(self):
        for order in ("relaxed", "acquire", "std::memory_order_release", "std::memory_order::acq_rel", "seq_cst"):
            with self.subTest(order):
                self.assert_found_at(2, "void f() {", f"  x.store(1, {order});", "}")

    def test_a_bare_fence_is_found(self):
        self.assert_found_at(1, "std::atomic_thread_fence(seq_cst);")

    def test_an_order_on_a_line_of_its_own_is_found(self):
        self.assert_found_at(2, "x.store(value,", "        release);")

    def test_a_comment_on_the_line_is_enough(self):
        self.assert_clean("x.store(1, release);  // pairs with the acquire in pop()")

    def test_a_comment_up_to_three_lines_above_is_enough(self):
        self.assert_clean("// relaxed: only a counter", "a;", "b;", "x.store(1, relaxed);")
        self.assert_found_at(5, "// relaxed: only a counter", "a;", "b;", "c;", "x.store(1, relaxed);")

    def test_a_block_comment_is_a_comment(self):
        self.assert_clean("/* publishes", "   the slot */", "a;", "x.store(1, release);")

    def test_a_note_to_a_tool_explains_nothing(self):
        self.assert_found_at(1, "x.store(1, relaxed);  // NOLINT(bugprone-foo)")

    def test_a_string_is_no_comment(self):
        self.assert_found_at(1, 'log("// why not"); x.store(1, relaxed);')

    def test_a_digit_separator_starts_no_character(self):
        self.assert_clean("x.store(1'000, relaxed);  // it's only a counter")

    def test_words_that_are_no_order_do_not_count(self):
        self.assert_clean("lock.release();", "void release(stack* s);", "release(s);",
                          "inline constexpr std::memory_order relaxed = std::memory_order_relaxed;",
                          "bool acquire = false;", 'print("release");')

    def test_atomics_without_an_order_do_not_count(self):
        self.assert_clean("x.store(1);", "x.load();")


if __name__ == "__main__":
    unittest.main()
