#!/usr/bin/env python3
"""The command line tool, as its users meet it.

    tool_test.py MAGPIE DATA_FOLDER DUMP_PROGRAM MAKE_TRACE
"""

import base64
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

MAGPIE, DATA, DUMP, MAKE_TRACE = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]


def magpie(*words):
    return subprocess.run([MAGPIE, *map(str, words)], capture_output=True, text=True, timeout=100)


def fields(message):
    """The fields of a protobuf message: (number, value), values of length-delimited ones as bytes."""
    at, result = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            result.append((tag >> 3, varint()))
        elif kind == 1:
            result.append((tag >> 3, int.from_bytes(message[at:at + 8], "little")))
            at += 8
        else:
            assert kind == 2, f"wire type {kind}"
            size = varint()
            result.append((tag >> 3, message[at:at + size]))
            at += size
    assert at == len(message)
    return result


def chrome_bars(text):
    """Of each row ("P 0", "Thread 7"): (begin, end, state, goroutine) in nanoseconds, in order; and the arrows,
    as pairs of (row, time)."""
    events = json.loads(text)["traceEvents"]
    kinds = {0: "P", 1: "Thread"}
    nanos = lambda micros: round(micros * 1000)
    rows, ends = {}, {}
    for event in events:
        if event["ph"] in "be":
            continue  # of chrome_notes
        row = f"{kinds[event['pid']]} {event.get('tid')}"
        if event["ph"] == "X":
            begin = nanos(event["ts"])
            rows.setdefault(row, []).append((begin, begin + nanos(event["dur"]), event["args"]["state"], event["args"]["g"]))
        elif event["ph"] in "sf":
            ends.setdefault(event["id"], {})[event["ph"]] = (row, nanos(event["ts"]))
        else:
            assert event["ph"] in "Mi", event
    return {row: sorted(bars) for row, bars in rows.items()}, [(each["s"], each["f"]) for each in ends.values() if "f" in each]


def chrome_notes(text):
    """Tasks and regions: (kind, id, name, begin, end)."""
    found, open_ = [], {}
    for event in json.loads(text)["traceEvents"]:
        key, time = event.get("id"), round(event.get("ts", 0) * 1000)
        if event["ph"] == "b":
            open_.setdefault(key, []).append((event["name"], time))
        if event["ph"] == "e":
            name, begin = open_[key].pop()
            assert name == event["name"], "they lie within one another"
            found.append((*key.split(), name, begin, time))
    assert not any(open_.values())
    return sorted(found)


def perfetto_bars(data):
    """The same, with the rows of goroutines ("G7 main.work")."""
    tracks, packets, flows = {}, [], {}
    for number, packet in fields(data):
        assert number == 1
        packet = dict(fields(packet))
        assert packet[10] == 1  # one sequence
        if 60 in packet:
            descriptor = dict(fields(packet[60]))
            assert descriptor[1] not in tracks, "a track is described once"
            assert 5 not in descriptor or descriptor[5] in tracks, "parents come first"
            tracks[descriptor[1]] = descriptor[2].decode()
        if 11 in packet:
            event = dict(fields(packet[11]))
            notes = {dict(fields(value))[10].decode(): dict(fields(value)) for number, value in fields(packet[11]) if number == 4}
            assert packet[58] == 6 and event[11] in tracks
            packets.append((packet[8], len(packets), tracks[event[11]], event, notes))
    rows, open_ = {}, {}
    for time, _, row, event, notes in sorted(packets, key=lambda each: each[:2]):
        if event[9] == 1:
            assert not open_.get(row) or row.startswith("regions"), f"{row}: bars overlap at {time}"
            open_.setdefault(row, []).append((time, event[23].decode(), notes.get("g", {3: 0})[3]))
        if event[9] == 2:
            begin, name, g = open_[row].pop()
            rows.setdefault(row, []).append((begin, time, name, g))
        for field, end in ((47, "s"), (48, "f")):
            if field in event:
                flows.setdefault(event[field], {})[end] = (row, time)
    assert not any(open_.values()), open_
    return rows, [(each["s"], each["f"]) for each in flows.values() if "f" in each]


class Tool(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="magpie_tool_")
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def test_check_accepts_whole_traces(self):
        for trace in sorted(DATA.glob("*.trace")):
            end = magpie("trace", "check", trace)
            self.assertEqual(end.returncode, 0, end.stderr)
            self.assertRegex(end.stdout, r": ok: \d+ events in \d generations?, version go 1\.26")

    def test_check_says_where_a_trace_is_broken(self):
        whole = (DATA / "go_syscalls.trace").read_bytes()
        cut = self.path / "cut.trace"
        cut.write_bytes(whole[:len(whole) // 2])
        end = magpie("trace", "check", cut)
        self.assertEqual(end.returncode, 1)
        self.assertRegex(end.stderr, r"cut\.trace: the end is missing: the file is cut at byte \d+, as when a process is killed")
        (self.path / "text").write_text("hello, world\n" * 10)
        end = magpie("trace", "check", self.path / "text")
        self.assertEqual(end.returncode, 1)
        self.assertIn("this is not a trace", end.stderr)

    def test_what_is_wrong_with_a_file_is_one_line(self):
        file = self.path / "some.trace"
        whole = (DATA / "go_spin.trace").read_bytes()
        for content, said in [
                (b"", "the file is empty"),
                (b"hello", 'this is not a trace: it does not begin with "go 1.NN trace"'),
                (whole[:11], "the end is missing: the file is cut at byte 11, as when a process is killed while it "
                 "writes (the file ends in its header); before that, no good events"),
                (whole[:16] + b"w" + whole[17:],
                 "broken at byte 16: here should be a batch, but there is byte 119; before that, no good events")]:
            file.write_bytes(content)
            for command in (["check"], ["summary"], ["view"], ["html"], ["convert", "--to", "chrome"]):
                end = magpie("trace", *command, file)
                self.assertEqual((end.returncode, end.stderr), (1, f"{file}: {said}\n"))

    def test_a_trace_with_nothing_in_it_is_said_to_be_one(self):
        empty = self.path / "empty.trace"
        empty.write_bytes(b"go 1.23 trace\0\0\0")
        for command in ["check", "summary"]:
            end = magpie("trace", command, empty)
            self.assertEqual(end.returncode, 1)
            self.assertIn("nothing in it", end.stderr)

    def test_commands_that_make_no_sense_are_refused_with_a_word(self):
        trace = DATA / "go_exec.trace"
        for words, said in [
                ([], None), (["nonsense"], "no command"), (["trace"], "check, summary"),
                (["trace", "nonsense"], "no command"), (["trace", "check"], "which file"),
                (["trace", "check", trace, trace], "one file"), (["trace", "check", "--loud", trace], "unknown option"),
                (["trace", "convert", trace], "--to"), (["trace", "convert", "--to", "svg", trace], "no --to svg"),
                (["trace", "check", "-o", "x", trace], "unknown option -o"), (["trace", "summary", "--port", "1", trace], "--port"),
                (["trace", "view", "--to", "html", trace], "unknown option --to"), (["dump"], "one PID"),
                (["dump", "init"], "not the number"), (["dump", "-1"], "not the number"), (["dump", "1", "2"], "one PID"),
                (["top"], "which address"), (["top", "nowhere"], "neither"), (["top", "--loud", "a:1"], "unknown option"),
                (["trace", "convert", trace, "-o"], "needs a value"),
                (["trace", "view", "--port", "70000", trace], "not a port")]:
            end = magpie(*words)
            self.assertEqual(end.returncode, 2, words)
            self.assertEqual(end.stdout, "")
            if said:
                self.assertIn(said, end.stderr)
                self.assertEqual(end.stderr.count("\n"), 1)

    def test_every_command_has_help(self):
        everything = magpie("--help")
        self.assertEqual((everything.returncode, everything.stderr), (0, ""))
        for words, has, has_not in [
                (["trace", "check", "--help"], "magpie trace check", "summary"),
                (["trace", "view", "some.trace", "-h"], "--no-browser", "magpie top"),
                (["help", "trace"], "magpie trace convert", "magpie dump"), (["trace", "--help"], "magpie trace html", "PID"),
                (["dump", "--help"], "magpie dump PID", "trace"), (["top", "--help"], "--interval", "trace"),
                (["help"], "magpie top", "nothing"), (["help", "nonsense"], "magpie top", "nothing")]:
            end = magpie(*words)
            self.assertEqual((end.returncode, end.stderr), (0, ""), words)
            self.assertIn(has, end.stdout)
            self.assertNotIn(has_not, end.stdout)
            for line in end.stdout.splitlines():
                self.assertIn(line, everything.stdout)

    def test_files_that_cannot_be_read_or_written_are_named_with_the_reason(self):
        trace, missing = DATA / "go_exec.trace", self.path / "nothing"
        copy = self.path / "copy.trace"
        copy.write_bytes(trace.read_bytes())
        convert = ["convert", "--to", "chrome"]
        said = {}
        for command in (["check"], ["summary"], ["view"], ["html"], convert):
            for file in (missing, self.path):
                said[(*command, file)] = magpie("trace", *command, file)
        for out in (self.path / "no" / "folder", self.path, "/dev/full"):
            said["html", out] = magpie("trace", "html", trace, "-o", out)
            said["convert", out] = magpie("trace", *convert, trace, "-o", out)
        said["over itself"] = magpie("trace", *convert, copy, "-o", copy)
        for words, end in said.items():
            self.assertEqual((end.returncode, end.stdout), (1, ""), words)
            self.assertRegex(end.stderr, r"^magpie: [^\n]*\n$", words)
        self.assertEqual(said["check", missing].stderr, f"magpie: cannot open {missing}: No such file or directory\n")
        self.assertEqual(said["check", self.path].stderr, f"magpie: {self.path} is a directory\n")
        self.assertIn("is the trace itself", said["over itself"].stderr)
        self.assertEqual(copy.read_bytes(), trace.read_bytes())

    def test_says_its_version(self):
        self.assertRegex(magpie("--version").stdout, r"^magpie \d+\.\d+\.\d+\n$")

    def test_summary_has_the_numbers(self):
        end = magpie("trace", "summary", DATA / "go_network.trace")
        self.assertEqual(end.returncode, 0, end.stderr)
        for part in ["Where goroutines spend their time", "Waiting for", "network", "From runnable to running",
                     "Ps", "P 0", "main.network.func2"]:
            self.assertIn(part, end.stdout)

    def test_chrome_json_can_be_read_and_its_rows_do_not_overlap(self):
        for trace in sorted(DATA.glob("*.trace")):
            out = self.path / "trace.json"
            end = magpie("trace", "convert", "--to", "chrome", trace, "-o", out)
            self.assertEqual(end.returncode, 0, end.stderr)
            self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o600)
            events = json.loads(out.read_text())["traceEvents"]
            rows, arrows = {}, {}
            for event in events:
                if event["ph"] == "X":
                    rows.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
                if event["ph"] in "sf":
                    arrows.setdefault(event["id"], []).append(event["ph"])
            self.assertTrue(rows)
            for bars in rows.values():
                bars.sort()
                for before, after in zip(bars, bars[1:]):
                    self.assertLessEqual(before[1], after[0] + 0.0015)
            # In the order of the file the two ends may come either way; each arrow has one begin.
            for ends in arrows.values():
                self.assertEqual(ends.count("s"), 1)
                self.assertLessEqual(ends.count("f"), 1)

    def test_texts_that_are_not_utf8_do_no_harm(self):
        odd = self.path / "odd.trace"
        whole = (DATA / "go_locks.trace").read_bytes()
        self.assertIn(b"main.locks.func1", whole)
        odd.write_bytes(whole.replace(b"main.locks.func1", b'm\xff.\n"\xc3s\\.\xed\xa0\x80unc1'))
        end = magpie("trace", "convert", "--to", "chrome", odd, "-o", "-")
        self.assertEqual(end.returncode, 0, end.stderr)
        names = {event["name"] for event in json.loads(end.stdout)["traceEvents"]}
        self.assertTrue(any('m\ufffd.\n"\ufffds\\.' in name for name in names), names)

    def test_texts_cannot_steer_the_terminal(self):
        odd = self.path / "odd.trace"
        escape = b"\x1b]0;\xc2\x9b\xff\x07"
        whole = (DATA / "go_locks.trace").read_bytes()
        odd.write_bytes(whole.replace(b"main.locks.func1", b"main." + escape + b"nc1"))
        end = magpie("trace", "summary", odd)
        self.assertEqual(end.returncode, 0, end.stderr)
        self.assertIn("main.?]0;???nc1", end.stdout)

        # A region that ends with the name of another one is said to, with both names.
        whole = (DATA / "go_annotated.trace").read_bytes()
        inner, outer = (whole[whole.index(b"\x05" + name) - 1] for name in (b"inner", b"parse"))
        for at in range(len(whole) - 4):
            if whole[at] == 43 and whole[at + 3] == inner:
                broken = whole[:at + 3] + bytes([outer]) + whole[at + 4:]
                odd.write_bytes(broken.replace(b"\x05inner", b"\x05\x1b[\xc2\x9bm"))
                end = magpie("trace", "check", odd)
                if "ends inside" in end.stderr:
                    break
        self.assertIn('ends inside "?[?m"', end.stderr)

    def test_perfetto_has_tracks_and_paired_slices(self):
        out = self.path / "trace.pf"
        end = magpie("trace", "convert", "--to", "perfetto", DATA / "go_syscalls.trace", "-o", out)
        self.assertEqual(end.returncode, 0, end.stderr)
        tracks, depth, names = {}, {}, set()
        for number, packet in fields(out.read_bytes()):
            self.assertEqual(number, 1)
            packet = dict(fields(packet))
            if 60 in packet:
                descriptor = dict(fields(packet[60]))
                tracks[descriptor[1]] = descriptor[2].decode()
            if 11 in packet:
                event = dict(fields(packet[11]))
                self.assertIn(event[11], tracks, "a track is described before it is used")
                depth[event[11]] = depth.get(event[11], 0) + {1: 1, 2: -1, 3: 0}[event[9]]
                if event[9] == 1:
                    names.add(event[23].decode())
        self.assertTrue({"Ps", "Threads", "Goroutines", "P 0"} <= set(tracks.values()))
        self.assertEqual(set(depth.values()), {0})
        self.assertTrue(any("main.syscalls.func1" in name for name in names), names)

    # Three programs count the same.
    def test_sums_of_both_formats_are_those_of_the_summary(self):
        for trace in sorted(DATA.glob("*.trace")):
            with self.subTest(trace.name):
                self.check_sums(trace)
        made = self.path / "made.trace"
        for seed in range(1, 9):
            subprocess.run([MAKE_TRACE, str(made), "10000", str(2 + seed), str(1 + seed % 4), "100", str(seed)], check=True)
            with self.subTest(seed=seed):
                self.check_sums(made)

    def check_sums(self, trace):
        chrome, arrows = chrome_bars(magpie("trace", "convert", "--to", "chrome", trace, "-o", "-").stdout)
        data = subprocess.run([MAGPIE, "trace", "convert", "--to", "perfetto", str(trace), "-o", "-"],
                              capture_output=True, timeout=100).stdout
        perfetto, flows = perfetto_bars(data)
        summary = magpie("trace", "summary", trace).stdout

        # Bars of one row follow one another, and are the same in both but for where time begins.
        self.assertEqual(chrome.keys(), {row for row in perfetto if row.startswith(("P ", "Thread "))})
        zero = {perfetto[row][0][0] - chrome[row][0][0] for row in chrome}
        self.assertEqual(len(zero), 1)
        zero = zero.pop()
        for row, bars in chrome.items():
            for before, after in zip(bars, bars[1:]):
                self.assertLessEqual(before[1], after[0], row)
            self.assertEqual([(begin + zero, end + zero, g) for begin, end, _, g in bars],
                             [(begin, end, g) for begin, end, _, g in perfetto[row]])

        # What a P ran, and what all goroutines did.
        whole = self.nanos(re.match(r"([\d.e+]+)(\w+) of time", summary))
        for p, running, calls in re.findall(r"^  (P \d+) +[\d.]+% +([\d.]+)% +([\d.]+)%", summary, re.MULTILINE):
            for state, share in (("running", running), ("syscall", calls)):
                time = sum(end - begin for begin, end, what, _ in chrome.get(p, []) if what == state)
                self.assertAlmostEqual(100 * time / whole, float(share), delta=0.06 + 0.6 * float(share) / 100, msg=f"{p} {state}")
        goroutines = [bar for row, bars in perfetto.items() if row.startswith("G") for bar in bars]
        for state in ("running", "runnable", "waiting", "syscall"):
            time = sum(end - begin for begin, end, what, _ in goroutines if what.startswith(state))
            said = self.nanos(re.search(rf"^  {state} +([\d.e+]+)(ns|us|ms|s) ", summary, re.MULTILINE))
            self.assertAlmostEqual(time, said, delta=said * 0.006, msg=state)

        # Arrows go forward in time, to where a turn begins; they are the same ones.
        self.assertEqual(sorted(((a, t + zero), (b, u + zero)) for (a, t), (b, u) in arrows), sorted(flows))
        turns = {(row, begin) for row, bars in chrome.items() for begin, _, what, _ in bars if what == "running"}
        for (_, woken), end in arrows:
            self.assertLess(woken, end[1])
            self.assertIn(end, turns)

        # So are tasks and regions.
        notes = chrome_notes(magpie("trace", "convert", "--to", "chrome", trace, "-o", "-").stdout)
        theirs = [(row.split()[0].replace("regions", "region"), row.split()[-1].lstrip("G"), name, begin - zero, end - zero)
                  for row, bars in perfetto.items() if row.startswith(("task ", "regions of ")) for begin, end, name, _ in bars]
        self.assertEqual(notes, sorted(theirs))

    def test_tasks_and_regions_are_converted(self):
        text = magpie("trace", "convert", "--to", "chrome", DATA / "go_annotated.trace", "-o", "-").stdout
        notes = chrome_notes(text)
        self.assertTrue({("task", "request batch"), ("region", "parse"), ("region", "inner")} <=
                        {(kind, name) for kind, _, name, _, _ in notes}, notes)
        for kind, id_, name, begin, end in notes:
            if name == "inner":  # lies in a "parse" of the same goroutine
                self.assertTrue(any(each[:3] == (kind, id_, "parse") and each[3] < begin and end < each[4] for each in notes))

    @staticmethod
    def nanos(match):
        return float(match.group(1)) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[match.group(2)]

    def test_a_page_carries_its_trace(self):
        trace = DATA / "go_locks.trace"
        for words in (["html", trace], ["convert", "--to", "html", trace]):
            out = self.path / "page.html"
            self.assertEqual(magpie("trace", *words, "-o", out).returncode, 0)
            page = out.read_text()
            self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o600)
            carried = re.search(r'<script type="text/plain" id="trace" data-name="go_locks.trace">(.*?)</script>',
                                page, re.DOTALL)
            self.assertEqual(base64.b64decode(carried.group(1)), trace.read_bytes())
            self.assertNotRegex(page, r'(src|href)="(?!data:)', "everything is inside")
            out.unlink()

    def test_only_files_become_their_owners_own(self):
        trace = DATA / "go_exec.trace"
        device = os.stat("/dev/null").st_mode
        if os.geteuid() == 0:
            self.addCleanup(os.chmod, "/dev/null", stat.S_IMODE(device))
        pipe = self.path / "pipe"
        os.mkfifo(pipe)
        os.chmod(pipe, 0o640)
        reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.DEVNULL)
        self.addCleanup(reader.wait)
        self.addCleanup(reader.kill)
        for out, mode in (("/dev/null", device), (pipe, stat.S_IFIFO | 0o640)):
            end = magpie("trace", "html", trace, "-o", out)
            self.assertEqual(end.returncode, 0, end.stderr)
            self.assertEqual(os.stat(out).st_mode, mode, out)

    def test_names_of_files_cannot_break_the_page(self):
        odd = self.path / 'a"><script>b&.trace'
        odd.write_bytes((DATA / "go_exec.trace").read_bytes())
        out = self.path / "page.html"
        self.assertEqual(magpie("trace", "html", odd, "-o", out).returncode, 0)
        self.assertIn('data-name="a&quot;>&lt;script>b&amp;.trace"', out.read_text())

    def test_broken_files_are_converted_as_far_as_they_go(self):
        trace = DATA / "go_spin.trace"  # two generations
        cut = self.path / "cut.trace"
        cut.write_bytes(trace.read_bytes()[:-40])
        for to in ("chrome", "perfetto"):
            out = self.path / "out"
            end = magpie("trace", "convert", "--to", to, cut, "-o", out)
            self.assertEqual(end.returncode, 1)
            self.assertIn("good events", end.stderr)
            self.assertGreater(out.stat().st_size, 1000)

    def test_a_page_of_a_broken_file_comes_with_a_word_about_it(self):
        whole = (DATA / "go_spin.trace").read_bytes()
        file, out = self.path / "some.trace", self.path / "page.html"
        for content, code, said in [
                (whole[:-40], 0, "the end is missing"),
                (whole[:300], 1, "no good events"),
                (whole[:16] + b"w" + whole[17:], 1, "broken at byte 16"),
                (b"hello, world\n" * 10, 1, "this is not a trace"),
                (b"", 1, "the file is empty"),
                (b"go 1.23 trace\0\0\0", 1, "nothing in it")]:
            file.write_bytes(content)
            end = magpie("trace", "html", file, "-o", out)
            self.assertEqual(end.returncode, code, end.stderr)
            self.assertIn(said, end.stderr)
            self.assertIn('id="trace"', out.read_text())
            out.unlink()
            if code:  # and there is nothing to serve
                end = magpie("trace", "view", "--no-browser", file)
                self.assertEqual(end.returncode, 1)
                self.assertIn(said, end.stderr)
        self.assertEqual(magpie("trace", "html", DATA / "go_spin.trace", "-o", out).stderr, "")

    def test_view_serves_on_loopback_who_knows_the_address(self):
        trace = DATA / "go_exec.trace"
        with subprocess.Popen([MAGPIE, "trace", "view", "--no-browser", str(trace)], stdout=subprocess.PIPE,
                              text=True) as server:
            try:
                address = re.search(r"http://127\.0\.0\.1:\d+/[0-9a-f]{32}/", server.stdout.readline()).group()
                page = urllib.request.urlopen(address, timeout=20).read().decode()
                self.assertIn('data-path="trace"', page)
                self.assertEqual(urllib.request.urlopen(address + "trace", timeout=20).read(), trace.read_bytes())
                root = re.match(r"http://[^/]*/", address).group()
                for wrong in (root, root + "trace", root + "0" * 32 + "/", address + "../trace"):
                    with self.assertRaises(urllib.error.HTTPError) as refused:
                        urllib.request.urlopen(wrong, timeout=20)
                    self.assertEqual(refused.exception.code, 404)
                    refused.exception.close()
            finally:
                server.terminate()

    def test_view_out_of_descriptors_waits_for_some(self):
        if b"__ubsan_" in pathlib.Path(MAGPIE).read_bytes():
            self.skipTest("the sanitizer opens pipes for its checks")
        few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
        with subprocess.Popen([MAGPIE, "trace", "view", "--no-browser", str(DATA / "go_exec.trace")],
                              stdout=subprocess.PIPE, text=True, preexec_fn=few) as server:
            try:
                address = re.search(r"http://127\.0\.0\.1:(\d+)/\S+", server.stdout.readline())
                silent = [socket.create_connection(("127.0.0.1", int(address.group(1)))) for _ in range(12)]
                used = lambda: sum(map(int, pathlib.Path(f"/proc/{server.pid}/stat").read_text().split(")")[1].split()[11:13]))
                before = used()
                time.sleep(0.5)
                self.assertIsNone(server.poll())
                self.assertLess(used() - before, 25)  # of 50 hundredths
                for each in silent:
                    each.close()
                self.assertIn(b'data-path="trace"', urllib.request.urlopen(address.group(), timeout=60).read())
            finally:
                server.terminate()


class Dump(unittest.TestCase):
    def test_shows_the_goroutines_of_a_process_that_goes_on(self):
        with subprocess.Popen([DUMP, "wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as program:
            try:
                self.assertEqual(program.stdout.readline(), "ready\n")
                for _ in range(3):  # several within a second: not a reason to end
                    done = magpie("dump", program.pid)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn("[sync.Mutex.Lock] \"locker\":\n", done.stdout)
                    self.assertIn("\nhog()\n", done.stdout)
                    self.assertIsNone(program.poll())
            finally:
                program.kill()
                said = program.stderr.read()
            self.assertNotIn("SIGQUIT", said)

    def test_several_may_ask_at_the_same_time(self):
        with subprocess.Popen([DUMP, "wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as program:
            try:
                self.assertEqual(program.stdout.readline(), "ready\n")
                with concurrent.futures.ThreadPoolExecutor(8) as pool:
                    answers = list(pool.map(lambda _: magpie("dump", program.pid), range(8)))
                for done in answers:
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stdout.count("\nhog()\n"), 1)
                    self.assertIn("[sync.Mutex.Lock] \"locker\":\n", done.stdout)
                self.assertIsNone(program.poll())
            finally:
                program.kill()
                said = program.stderr.read()
            self.assertNotIn("SIGQUIT", said)

    def test_spares_processes_without_magpie(self):
        with subprocess.Popen(["sleep", "100"]) as other:
            try:
                done = magpie("dump", other.pid)
                self.assertEqual(done.returncode, 1)
                self.assertIn("no magpie runtime", done.stderr)
                self.assertIsNone(other.poll())
            finally:
                other.kill()

    def test_says_who_cannot_be_asked(self):
        ignored = lambda: signal.signal(signal.SIGQUIT, signal.SIG_IGN)
        said = {"ignores SIGQUIT": {"preexec_fn": ignored}}
        if os.geteuid() == 0:
            said["is of another user"] = {"user": 65534, "group": 65534, "extra_groups": []}
        for text, how in said.items():
            with subprocess.Popen([DUMP, "wait"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                  **how) as program:
                try:
                    self.assertEqual(program.stdout.readline(), "ready\n")
                    done = magpie("dump", program.pid)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(text, done.stderr)
                    self.assertIsNone(program.poll())
                finally:
                    program.kill()

    def test_wants_a_process(self):
        self.assertIn("no process", magpie("dump", "999999999").stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
