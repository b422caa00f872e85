"""Traces written by hand, for tests: each event is named where it is wanted.

    trace = Handmade()
    main = trace.stack(["main"])
    trace.m(1, 13, 0, 1)                  # thread 1: event 13 (ProcStatus) of P 0: running
    trace.m(1, 25, 1, 1, 2)               # GoStatus: goroutine 1 on thread 1, running
    path.write_bytes(trace.bytes())

Every event comes `step` units of 64 ns after the one before. The numbers are those of the format; none
of them is checked.
"""


def varint(number):
    number &= 2**64 - 1
    result = bytearray()
    while number >= 128:
        result.append(number & 127 | 128)
        number >>= 7
    result.append(number)
    return bytes(result)


def batch(thread, time, payload, generation=1):
    return b"\x01" + varint(generation) + varint(thread) + varint(time) + varint(len(payload)) + payload


class Handmade:
    NOBODY = -1

    def __init__(self, step=10):
        self.step = step
        self.time = self.began = 1000000
        self.streams = {}  # of a thread: batches of [time, bytes, time of the last event]
        self.strings = []
        self.stacks = []

    def string(self, text):
        text = text if isinstance(text, bytes) else text.encode()
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text) + 1

    def stack(self, functions):
        """Innermost first; the last one is the goroutine's name."""
        self.stacks.append([(1000 + self.string(name), self.string(name), self.string("file.cpp"), 7)
                            for name in functions])
        return len(self.stacks)

    def m(self, thread, kind, *numbers):
        self.time += self.step
        batches = self.streams.setdefault(thread, [])
        if not batches or len(batches[-1][1]) > 60000:
            batches.append([self.time, bytearray(), self.time])
        start, payload, last = batches[-1]
        payload += bytes([kind]) + b"".join(map(varint, (self.time - last, *numbers)))
        batches[-1][2] = self.time

    def bytes(self):
        result = b"go 1.23 trace\0\0\0" + batch(self.NOBODY, self.began, b"\x08" + varint(15625000))
        for thread, batches in self.streams.items():
            for start, payload, _ in batches:
                result += batch(thread, start, payload)
        for number, frames in enumerate(self.stacks, 1):
            one = b"\x03" + varint(number) + varint(len(frames))
            result += batch(self.NOBODY, self.began, b"\x02" + one + b"".join(varint(part) for frame in frames for part in frame))
        for number, text in enumerate(self.strings, 1):
            result += batch(self.NOBODY, self.began, b"\x04\x05" + varint(number) + varint(len(text)) + text)
        return result
