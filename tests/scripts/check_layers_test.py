#!/usr/bin/env python3
"""tools/check_layers must find each kind of bad include, by file and line, in a copy of the tree."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CheckLayers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        for part in ("src", "include"):
            shutil.copytree(ROOT / part, self.tree / part)
        (self.tree / "tools").mkdir()
        shutil.copy(ROOT / "tools/layers.toml", self.tree / "tools")

    def write(self, path, *lines):
        file = self.tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n")

    def edit_table(self, old, new):
        table = self.tree / "tools/layers.toml"
        text = table.read_text()
        self.assertIn(old, text)
        table.write_text(text.replace(old, new))

    def check(self):
        return subprocess.run([sys.executable, ROOT / "tools/check_layers", self.tree],
                              capture_output=True, text=True)

    def assert_clean(self):
        result = self.check()
        self.assertEqual(result.stdout + result.stderr, "")
        self.assertEqual(result.returncode, 0)

    def assert_found(self, place, *words):
        result = self.check()
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        offences = result.stdout.splitlines()
        self.assertEqual(len(offences), 1, offences)
        self.assertTrue(offences[0].startswith(place + ": "), offences[0])
        for word in words:
            self.assertIn(word, offences[0])

    def test_the_tree_as_it_is_passes(self):
        self.assert_clean()

    def test_an_include_upwards_is_found(self):
        self.write("src/fiber/fiber_probe.h")
        self.write("src/base/bad.h", "#pragma once", "", '#include "fiber/fiber_probe.h"')
        self.assert_found("src/base/bad.h:3", "base must not include", "fiber/fiber_probe.h")

    def test_an_include_sideways_is_found(self):
        self.write("src/trace/event.h")
        self.write("src/fiber/bad.cpp", "// Fiber and trace are neighbours.", '#include "trace/event.h"')
        self.assert_found("src/fiber/bad.cpp:2", "fiber must not include", "base, os")

    def test_an_include_downwards_passes(self):
        self.write("src/goroutine/good.h", '#include "base/check.h"', '#  include "os/error.h"', "#include <vector>")
        self.assert_clean()

    def test_a_kernel_header_above_os_is_found(self):
        for header in ("sys/mman.h", "unistd.h", "linux/futex.h", "pthread.h", "csignal", "thread"):
            with self.subTest(header):
                self.write("src/sched/bad.cpp", "#include <vector>", f"#include <{header}>")
                self.assert_found("src/sched/bad.cpp:2", f"<{header}>", "only os")

    def test_a_kernel_header_below_os_is_found(self):
        self.write("src/base/bad.cpp", "#include <unistd.h>")
        self.assert_found("src/base/bad.cpp:1", "only os")

    def test_os_and_the_folder_inside_it_may_include_kernel_headers(self):
        self.write("src/os/linux/good.cpp", "#include <sys/mman.h>", '#include "os/error.h"')
        self.assert_clean()

    def test_a_folder_inside_a_folder_is_private(self):
        self.write("src/os/linux/private.h")
        self.write("src/os/good.cpp", '#include "os/linux/private.h"')
        self.write("src/fiber/bad.cpp", '#include "os/linux/private.h"')
        self.assert_found("src/fiber/bad.cpp:1", "private to os")

    def test_an_exception_counts_for_its_folder_only(self):
        self.write("src/fiber/good.cpp", "#include <cxxabi.h>", "#include <sanitizer/asan_interface.h>")
        self.assert_clean()
        self.write("src/sched/bad.cpp", "#include <cxxabi.h>")
        self.assert_found("src/sched/bad.cpp:1", "<cxxabi.h>", "with a reason")

    def test_an_exception_needs_a_reason(self):
        table = self.tree / "tools/layers.toml"
        table.write_text(table.read_text() + '\n[[allowed]]\nheader = "x.h"\nfolders = ["base"]\nreason = ""\n')
        self.assert_found("tools/layers.toml:1", "no reason", "x.h")

    def test_a_public_header_that_includes_internals_is_found(self):
        self.write("include/magpie/bad.h", "#pragma once", '#include "base/check.h"')
        self.assert_found("include/magpie/bad.h:2", "base/check.h")

    def test_a_public_header_that_includes_the_kernel_is_found(self):
        self.write("include/magpie/net/bad.h", "#include <vector>", "#include <sys/socket.h>")
        self.assert_found("include/magpie/net/bad.h:2", "sys/socket.h")

    def test_a_public_header_that_includes_a_missing_one_is_found(self):
        self.write("include/magpie/bad.h", "#include <magpie/not_there.h>")
        self.assert_found("include/magpie/bad.h:1", "does not exist")

    def test_one_header_of_a_folder_can_be_allowed(self):
        self.write("src/sched/snapshot.h")
        self.write("src/sched/scheduler.h")
        self.write("src/observe/dump.cpp", '#include "sched/snapshot.h"')
        self.assert_clean()
        self.write("src/observe/dump.cpp", '#include "sched/scheduler.h"')
        self.assert_found("src/observe/dump.cpp:1", "sched/scheduler.h")

    def test_an_unknown_folder_is_found(self):
        self.write("src/helpers/strings.h")
        self.assert_found("src/helpers/strings.h:1", "src/helpers", "no layer")

    def test_a_file_in_no_folder_is_found(self):
        self.write("src/stray.cpp")
        self.assert_found("src/stray.cpp:1", "no layer")

    def test_a_missing_file_is_found(self):
        self.write("src/os/bad.h", '#include "base/not_there.h"')
        self.assert_found("src/os/bad.h:1", "base/not_there.h", "does not exist")

    def test_a_path_that_does_not_start_in_src_is_found(self):
        for name in ("check.h", "../base/check.h", "src/base/check.h"):
            with self.subTest(name):
                self.write("src/base/bad.cpp", f'#include "{name}"')
                self.assert_found("src/base/bad.cpp:1", name)

    def test_an_include_by_macro_is_found(self):
        self.write("src/base/bad.cpp", "#include MAGPIE_HEADER")
        self.assert_found("src/base/bad.cpp:1", "cannot be checked")

    def test_includes_in_comments_do_not_count(self):
        self.write("src/base/good.cpp", "// #include <unistd.h>", "/*", "#include <unistd.h>", "*/")
        self.assert_clean()

    def test_lines_are_counted_behind_a_comment(self):
        self.write("src/base/bad.cpp", "/* one", "   two */", "#include <unistd.h>")
        self.assert_found("src/base/bad.cpp:3", "unistd.h")

    def test_a_cycle_in_the_table_is_found(self):
        self.edit_table("base      = []", 'base      = ["fiber"]')
        result = self.check()
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"tools/layers\.toml:\d+: the layers form a cycle: .*base")

    def test_an_unknown_name_in_the_table_is_found(self):
        self.edit_table('os        = ["base"]', 'os        = ["base", "bsae"]')
        result = self.check()
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"tools/layers\.toml:\d+: os names bsae")


if __name__ == "__main__":
    unittest.main()
