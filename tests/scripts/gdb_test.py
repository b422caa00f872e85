#!/usr/bin/env python3
"""gdb's script: on a running process, and on the core file it leaves.

    gdb_test.py PROGRAM      (tests/programs/gdb_subject.cpp)
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv[1])
GDB = shutil.which("gdb")
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "gdb", "magpie-gdb.py")


def gdb(*commands, core=None, trusted=True):
    words = [GDB, "-batch", "-nx", "-iex", "set width 0", "-iex", "set debuginfod enabled off"]
    words += ["-iex", "set language c++"]  # the innermost frame may be of libc, in C
    if trusted:
        words += ["-iex", "add-auto-load-safe-path " + os.path.dirname(PROGRAM)]
    for command in commands:
        words += ["-ex", command]
    words += [PROGRAM] + ([core] if core else [])
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
    return done.stdout + done.stderr


def goroutines_in(text):
    """By the words of their state: the blocks of `goroutine all bt`."""
    blocks = re.split(r"^(?=goroutine \d+ \[)", text, flags=re.M)[1:]
    return {re.match(r"goroutine \d+ \[(.*?)\]", block).group(1): block for block in blocks}


def numbers_of(block):
    return [int(number) for number in re.findall(r"^#(\d+)", block, re.M)]


def frames_of(block):
    return re.findall(r"^#(\d+) +(?:0x[0-9a-f]+ in )?([\w:~<>(), &*]*?) ?\(", block, re.M)


class Subject:
    """What gdb says, asked once: starting it takes a second."""

    ASK = [
        "info goroutines",
        "echo == groups\\n",
        "info goroutines -group",
        "echo == waiting\\n",
        "info goroutines -state waiting",
        "echo == stacks\\n",
        "goroutine all bt",
        "echo == after\\n",
        "bt",
        "echo == printers\\n",
        "print '(anonymous namespace)::g_full'",
        "print '(anonymous namespace)::g_nil'",
        "print '(anonymous namespace)::g_mutex'",
        "print '(anonymous namespace)::g_free_mutex'",
        "print *'magpie::rt::(anonymous namespace)::g_runtimes'->ps_[0]",
        "print *'magpie::rt::(anonymous namespace)::g_runtimes'->arenas_",
        "print *((magpie::rt::G*)'magpie::rt::(anonymous namespace)::g_runtimes'->arenas_ + 2)",
        "echo == threads\\n",
        "thread apply all bt",
        "echo == end\\n",
    ]

    def __init__(self, text):
        self.text = text
        self.list, rest = text.split("== groups\n")
        self.groups, rest = rest.split("== waiting\n")
        self.waiting, rest = rest.split("== stacks\n")
        self.stacks, rest = rest.split("== after\n")
        self.after, rest = rest.split("== printers\n")
        self.printers, rest = rest.split("== threads\n")
        self.threads = rest.split("== end")[0]


class OfGoroutines:
    """The same for a process and for a core file."""

    subject = None

    def test_all_goroutines_are_listed_with_what_they_wait_for(self):
        for words in ("chan receive", "sleep", "sync.Mutex.Lock", "syscall", "runnable"):
            self.assertRegex(self.subject.list, r"(?m)^[* ] \d+ +%s " % re.escape(words))
        # Of the two that spin one runs, unless the P was just on its way to the other.
        self.assertEqual(len(re.findall(r"(?m)^[* ] \d+ +run(?:ning|nable) ", self.subject.list)), 2)
        self.assertRegex(self.subject.list, r'chan receive +"the receiver"  created by ')
        for place in re.findall(r"created by (.*?)(?:  \(thread \d+\))?$", self.subject.list, re.M):
            self.assertRegex(place, r"( at \S+:[1-9]\d*| in \S+, from line [1-9]\d* on)$")

    def test_lambdas_go_under_their_whole_names(self):
        self.assertRegex(self.subject.list, r'"the receiver"  created by main::')

    def test_listed_by_state(self):
        self.assertEqual(len(self.subject.waiting.splitlines()), 3, self.subject.waiting)

    def test_equal_ones_are_grouped(self):
        self.assertRegex(self.subject.groups, r"(?m)^ +1  chan receive ")
        self.assertEqual(len(self.subject.groups.splitlines()), len(set(self.subject.groups.splitlines())))

    def test_a_parked_one_is_unwound_from_its_registers(self):
        names = [name for _, name in frames_of(goroutines_in(self.subject.stacks)["chan receive"])]
        at = names.index("wait_in_inner")
        self.assertEqual(names[at + 1], "wait_in_outer")
        self.assertEqual(names[-1], "magpie_fiber_entry")

    def test_arguments_and_lines_are_known(self):
        block = goroutines_in(self.subject.stacks)["chan receive"]
        self.assertRegex(block, r"wait_in_inner \(answer=(answer@entry=)?41\) at .*gdb_subject\.cpp:\d+")

    def test_frames_are_counted_from_0(self):
        for block in goroutines_in(self.subject.stacks).values():
            self.assertEqual(numbers_of(block), list(range(len(numbers_of(block)))), block)

    def test_the_one_in_a_blocking_call_is_its_thread(self):
        names = [name for _, name in frames_of(goroutines_in(self.subject.stacks)["syscall"])]
        self.assertIn("read_from_pipe", names)
        self.assertTrue(any("read" in name for name in names[:2]), names)

    def test_a_preempted_one_is_a_thread_with_its_whole_stack(self):
        block = goroutines_in(self.subject.stacks)["runnable"]
        self.assertIn("<signal handler called>", block)
        after = block.split("<signal handler called>")[1]
        names = [name for _, name in frames_of(after)]
        at = names.index("spin_innermost")  # it may be inside an inlined load
        self.assertEqual(names[at + 1], "spin_outermost")
        self.assertEqual(names[-1], "magpie_fiber_entry")

    def test_without_any_script_preempted_ones_are_threads_as_well(self):
        stopped = [t for t in re.split(r"(?m)^Thread ", self.subject.threads) if "<signal handler called>" in t]
        self.assertTrue(stopped)
        for thread in stopped:
            self.assertIn("spin_innermost", thread)
            self.assertIn("spin_outermost", thread)
            self.assertIn("magpie_fiber_entry", thread)

    def test_the_selected_thread_is_as_before(self):
        self.assertRegex(self.subject.after, r"(?m)^#\d+ +(0x[0-9a-f]+ in )?all_is_set_up")
        self.assertRegex(self.subject.after, r"(?m)^#\d+ +(0x[0-9a-f]+ in )?main")

    def test_values_are_readable(self):
        self.assertIn("channel with 2 of 3 = {7, 8}", self.subject.printers)
        self.assertIn("= nil channel", self.subject.printers)
        self.assertRegex(self.subject.printers, r"locked mutex, held by goroutine \d+, 1 goroutine waiting")
        self.assertIn("= unlocked mutex", self.subject.printers)
        self.assertRegex(self.subject.printers, r"P0.*, 0 in the queue, \d stopped, \d+ turns")
        self.assertRegex(self.subject.printers, r"= goroutine \d+ \[[\w. ]+\].*, created by ")
        self.assertNotIn("Python Exception", self.subject.printers)


class OnAProcess(OfGoroutines, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.subject = Subject(gdb("break all_is_set_up", "run", "echo == begin\\n", *Subject.ASK).split("== begin\n")[1])


class OnACoreFile(OfGoroutines, unittest.TestCase):
    """The kernel's. gdb's own generate-core-file gives up on a mapping that has guard pages in it."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            unlimited = resource.RLIM_INFINITY
            subprocess.run([PROGRAM, "abort"], cwd=folder, timeout=100, stderr=subprocess.DEVNULL,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (unlimited, unlimited)))
            cores = os.listdir(folder)
            if not cores:
                raise unittest.SkipTest("the kernel puts core files elsewhere (core_pattern)")
            core = os.path.join(folder, cores[0])
            cls.subject = Subject(gdb("echo == begin\\n", *Subject.ASK, core=core).split("== begin\n")[1])


class Libraries(unittest.TestCase):
    """Strings and atomics look different in each standard library."""

    SOURCE = """
        #include <atomic>
        #include <string>
        std::string g_empty, g_short = "reader", g_long = "a name that does not fit into the object itself";
        std::string g_odd = "gr\\303\\274n\\377";
        std::atomic<int> g_number{7};
        std::atomic<bool> g_flag{true};
        std::atomic<int*> g_pointer{(int*)16};
        int main() { return g_number.load() - 7 + (g_flag ? 0 : 1) + (g_pointer ? 0 : 1) + (int)g_empty.size(); }
    """

    def check(self, *compiler):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program")
            if not shutil.which(compiler[0]):
                self.skipTest(compiler[0] + " is not installed")
            made = subprocess.run([*compiler, "-g", "-O0", "-fstandalone-debug" if compiler[0] == "clang++" else "-g",
                                   "-x", "c++", "-", "-o", program], input=self.SOURCE, capture_output=True, text=True)
            if made.returncode != 0:
                self.skipTest("nothing can be built with " + " ".join(compiler))
            asked = ["text_of", "text_of", "text_of", "text_of", "atomic", "atomic", "atomic"]
            names = ["g_empty", "g_short", "g_long", "g_odd", "g_number", "g_flag", "g_pointer"]
            words = [GDB, "-batch", "-nx", "-iex", "set debuginfod enabled off", "-ex", "source " + SCRIPT, "-ex", "break main",
                     "-ex", "run"]
            for function, name in zip(asked, names):
                words += ["-ex", f"python print('{name} is', ascii(str({function}(gdb.parse_and_eval('{name}')))))"]
            done = subprocess.run([*words, program], capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
        said = dict(re.findall(r"^(g_\w+) is '(.*)'$", done.stdout, re.M))
        self.assertEqual(said, {"g_empty": "", "g_short": "reader", "g_long": "a name that does not fit into the object itself",
                                "g_odd": r"gr\xfcn\ufffd", "g_number": "7", "g_flag": "true", "g_pointer": "0x10"},
                         done.stdout + done.stderr)

    def test_libstdcxx(self):
        self.check("g++")

    def test_libcxx(self):
        self.check("clang++", "-stdlib=libc++")


class Mistakes(unittest.TestCase):
    def test_are_explained(self):
        text = gdb("break all_is_set_up", "run", "goroutine 12345 bt", "goroutine x", "info goroutines -nonsense")
        self.assertIn("there is no goroutine 12345", text)
        self.assertIn("usage: goroutine N|all", text)
        self.assertIn("usage: info goroutines", text)
        self.assertNotIn("Traceback", text)

    def test_without_a_process(self):
        text = gdb("goroutine 1 bt", "info goroutines")
        self.assertIn("there is neither a process nor a core file", text)
        self.assertIn("No goroutines.", text)

    def test_gdb_says_what_to_do_when_it_may_not_load_the_script(self):
        self.assertIn("add-auto-load-safe-path", gdb("info goroutines", trusted=False))


if __name__ == "__main__":
    if GDB is None:
        print("skipped: gdb is not installed")
        sys.exit(0)
    probe = subprocess.run([GDB, "-batch", "-nx", "-ex", "python print(6 * 7)"], capture_output=True, text=True)
    if "42" not in probe.stdout:
        print("skipped: this gdb has no Python")
        sys.exit(0)
    if "Breakpoint 1, all" not in gdb("break all_is_set_up", "run"):
        print("skipped: no process can be debugged here")
        sys.exit(0)
    unittest.main(argv=sys.argv[:1])
