#!/usr/bin/env python3
"""tools/check_docs must find claims that are not true of the tree, by document and line."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CheckDocs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        self.write("src/sched/park.cpp", "// gone() was here", "void park(G& g) {}", "void G::ready() {}")
        self.write("src/base/check.h")
        self.write("src/base/check.cpp")
        self.write("examples/hello.cpp", "int main() {}")

    def write(self, path, *lines):
        file = self.tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n")

    def check(self):
        return subprocess.run([sys.executable, ROOT / "tools/check_docs", self.tree],
                              capture_output=True, text=True)

    def assert_clean(self, *lines, document="ARCHITECTURE.md"):
        self.write(document, *lines)
        result = self.check()
        self.assertEqual((result.stdout + result.stderr, result.returncode), ("", 0))

    def assert_found(self, place, word, *lines):
        self.write(place.split(":")[0], *lines)
        result = self.check()
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 1, result.stdout)
        self.assertTrue(result.stdout.startswith(place + ": "), result.stdout)
        self.assertIn(word, result.stdout)

    def test_files_that_exist_pass(self):
        self.assert_clean("`sched/park.cpp`, `src/sched/park.cpp`, `base/check.{h,cpp}`, `src/sched/`, `examples/`")

    def test_a_missing_file_is_found(self):
        self.assert_found("ARCHITECTURE.md:2", "sched/gone.cpp", "# Trip", "See `sched/gone.cpp`.")

    def test_a_missing_half_of_a_pair_is_found(self):
        self.assert_found("HACKING.md:1", "sched/park.h", "See `sched/park.{h,cpp}`.")

    def test_a_missing_folder_is_found(self):
        self.assert_found("README.md:1", "src/helpers/", "See `src/helpers/`.")

    def test_functions_that_exist_pass(self):
        self.assert_clean("`sched/park.cpp: park`, `sched/park.cpp: park, G::ready`")

    def test_a_missing_function_is_found(self):
        self.assert_found("ARCHITECTURE.md:1", "steal", "See `sched/park.cpp: park, steal`.")

    def test_a_function_only_in_a_comment_is_missing(self):
        self.assert_found("ARCHITECTURE.md:1", "gone", "See `sched/park.cpp: gone`.")

    def test_part_of_a_name_is_not_the_name(self):
        self.assert_found("ARCHITECTURE.md:1", "par", "See `sched/park.cpp: par`.")

    def test_what_is_planned_may_be_missing(self):
        self.assert_clean("| steal | `sched/steal.cpp: steal` | planned |")

    def test_what_is_planned_may_not_exist_already(self):
        self.assert_found("ARCHITECTURE.md:1", "park", "| park | `sched/park.cpp: park` | planned |")

    def test_spans_that_name_no_file_are_left_alone(self):
        self.assert_clean("`make test`, `std::atomic`, `a/b`, `magpie.h`, `and/or`, `#include <magpie/x.h>`, `build/dev/`")

    def test_code_blocks_are_left_alone(self):
        self.assert_clean("```", "`sched/gone.cpp` [x](gone.md)", "```")

    def test_links_that_lead_somewhere_pass(self):
        self.write("docs/guide.md", "# The guide", "## Ten: minutes!", "[up](../README.md) [web](https://example.org/x)")
        self.assert_clean("# Top", "[a](docs/guide.md) [b](docs/guide.md#ten-minutes) [c](#top)", document="README.md")

    def test_a_link_that_leads_nowhere_is_found(self):
        self.assert_found("docs/guide.md:1", "gone.md", "[x](gone.md)")

    def test_a_link_to_a_missing_heading_is_found(self):
        self.assert_found("README.md:2", "#bottom", "# Top", "[x](#bottom)")

    def test_a_block_that_equals_its_file_passes(self):
        self.assert_clean("<!-- same as examples/hello.cpp -->", "```cpp", "int main() {}", "```", document="README.md")

    def test_a_block_that_differs_from_its_file_is_found(self):
        self.assert_found("README.md:2", "examples/hello.cpp",
                          "<!-- same as examples/hello.cpp -->", "```cpp", "int main() { }", "```")

    def test_a_block_of_a_missing_file_is_found(self):
        self.assert_found("README.md:1", "examples/gone.cpp",
                          "<!-- same as examples/gone.cpp -->", "```cpp", "```")

    def test_a_lost_block_is_found(self):
        self.assert_found("README.md:1", "no code block", "<!-- same as examples/hello.cpp -->", "text")

    def test_the_readme_shows_a_program_that_is_compiled(self):
        readme = (ROOT / "README.md").read_text()
        self.assertIn("<!-- same as examples/hello.cpp -->", readme)


if __name__ == "__main__":
    unittest.main()
