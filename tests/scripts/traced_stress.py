#!/usr/bin/env python3
"""Runs the stress tests while they are traced, and lets two readers judge each trace.

    traced_stress.py STRESS_TEST MAGPIE [--short] [-k TEXT]

STRESS_TEST and MAGPIE are the programs of a build. Every test runs in a process of its own with
MAGPIE_TRACE; its trace must pass `magpie trace check` and, where Go is installed and the trace is not
too large for it, `go tool trace -d=parsed`. --short: one test of each suite, with 2 Ps where that can be chosen. -k: only
those whose name has TEXT in it. A trace that is not good is kept.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TIMEOUT = 300  # seconds for one test, and for one reader
HEADER = 16  # bytes
LARGE = 5_000_000  # bytes; what the short form does not read
LARGE_FOR_GO = 12_000_000  # bytes; Go's reader takes minutes for 100 MB, and some have a gigabyte
# Here threads are refused on purpose, that which writes the trace among them.
WITHOUT_THREADS = "Faults.Thread", "Faults.AThread"


def tests_of(program):
    listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True,
                            check=True).stdout
    suite = ""
    for line in listed.splitlines():
        if line.startswith("  "):
            yield suite + line.split("#")[0].strip()
        elif line.endswith(".") or ".  #" in line:
            suite = line.split("#")[0].strip()


def shortened(tests):
    chosen = {}
    for test in tests:
        suite, _, name = test.partition(".")
        is_better = name.endswith("/2") and not chosen.get(suite, "").endswith("/2")
        if suite not in chosen or is_better:
            chosen[suite] = test
    return list(chosen.values())


def fails(what, command, environment=None):
    """Says so and returns True when the command fails."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=environment, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        print(f"{what}: not done after {TIMEOUT} s")
        return True
    if done.returncode == 0:
        return False
    print(f"{what}: exit status {done.returncode}")
    sys.stdout.write(done.stdout.decode(errors="replace")[-4000:])
    return True


def judge(test, chosen, go, folder):
    """Whether the test passes while it is traced, and its trace is good."""
    for old in folder.iterdir():
        old.unlink()
    environment = dict(os.environ, MAGPIE_TRACE=str(folder / "%p"))  # some start others
    if fails(test, [chosen.stress_test, "--gtest_brief=1", f"--gtest_filter={test}"], environment):
        return False
    # One who died before the end of the first generation has written the header only.
    traces = [t for t in folder.iterdir() if t.stat().st_size > HEADER]
    return all([is_good(test, trace, chosen, go) for trace in traces])


def is_good(test, trace, chosen, go):
    if chosen.short and trace.stat().st_size > LARGE:
        print(f"{test}: a large trace, which only the long form reads")
        return True
    good = not fails(f"{test}: magpie trace check", [chosen.magpie, "trace", "check", trace])
    if go and trace.stat().st_size > LARGE_FOR_GO:
        print(f"{test}: {trace.stat().st_size >> 20} MiB, which only magpie reads", flush=True)
    elif go:
        command = f"'{go}' tool trace -d=parsed '{trace}' 2>&1 >/dev/null"
        good &= not fails(f"{test}: go tool trace", ["sh", "-c", command])
    if not good:
        kept = pathlib.Path(tempfile.gettempdir()) / f"{test.replace('/', '_')}.trace"
        shutil.move(trace, kept)
        print(f"  kept: {kept}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stress_test")
    parser.add_argument("magpie")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("-k", default="")
    chosen = parser.parse_args()
    tests = [test for test in tests_of(chosen.stress_test) if chosen.k in test
             and not test.startswith(WITHOUT_THREADS)]
    if chosen.short:
        tests = shortened(tests)
    go = shutil.which("go")
    if not go:
        print("go is not installed: only magpie's own reader looks at the traces")
    with tempfile.TemporaryDirectory() as folder:
        bad = [test for test in tests if not judge(test, chosen, go, pathlib.Path(folder))]
    print(f"{len(tests) - len(bad)} of {len(tests)} are good")
    return 1 if bad or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
