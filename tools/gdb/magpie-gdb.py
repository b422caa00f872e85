"""magpie in gdb: goroutines with their stacks, and readable channels, locks, Gs and Ps.

    info goroutines                all of them: id, state, what they wait for, who made them
    info goroutines -state STATE   only those: running, runnable, waiting, syscall
    info goroutines -group         equal ones together, the most frequent first
    goroutine N bt                 any command, as if goroutine N were the current thread
    goroutine all bt               ... for each of them

On a running process and on a core file. gdb loads this by itself from the program, if it may:
add-auto-load-safe-path in ~/.gdbinit. Otherwise: source magpie-gdb.py.

How a stack is shown. A goroutine that has a thread (it runs, is in a blocking call, or was stopped
in the middle of its code) is shown as that thread. The others have left sp, pc and the frame pointer
in their G. Writing them into registers would not work with a core file, so an unwinder claims that
the frame above the innermost one of the selected thread is where the goroutine stands; the innermost
one is then left out of what is printed.
"""

import re
import struct

import gdb
import gdb.printing
from gdb.unwinder import Unwinder

STATES = ["dead", "runnable", "running", "waiting", "syscall"]


class MagpieError(gdb.GdbError):
    """Something the user should read, without a Python traceback."""


# ---- Reading the runtime ------------------------------------------------------------------------


def variable(name):
    """A variable of ours that is private to its file."""
    name = "magpie::rt::(anonymous namespace)::" + name
    symbol = gdb.lookup_static_symbol(name) or gdb.lookup_global_symbol(name)
    if symbol is None:
        raise MagpieError("magpie is not in this program, or it has no debug information.")
    return symbol.value()


def atomic(value):
    """What is in a std::atomic."""
    inner = value.type.strip_typedefs()
    for name in ("_M_i", "_M_b", "_M_p", "_M_base", "__a_", "__a_value"):
        if inner.code == gdb.TYPE_CODE_STRUCT and any(f.name == name for f in all_fields(inner)):
            return atomic(value[name])
    if inner.code == gdb.TYPE_CODE_STRUCT and len(inner.fields()) == 1 and inner.fields()[0].is_base_class:
        return atomic(value.cast(inner.fields()[0].type))
    return value


def all_fields(of):
    for field in of.fields():
        if field.is_base_class or field.name is None:  # or an unnamed union
            yield from all_fields(field.type.strip_typedefs())
        else:
            yield field


def text_of(string):
    """What is in a std::string: of libstdc++, or of libc++, which has std::__1:: in its names."""
    members = {field.name for field in all_fields(string.type.strip_typedefs())}
    if "_M_dataplus" in members:
        data, length = string["_M_dataplus"]["_M_p"], int(string["_M_string_length"])
        return data.string(length=length, errors="replace")
    whole = string["__rep_"] if "__rep_" in members else string["__r_"]["__value_"]
    short, long = whole["__s"], whole["__l"]
    size = int(short["__size_"])
    if any(field.name == "__is_long_" for field in all_fields(short.type.strip_typedefs())):
        is_long = int(short["__is_long_"]) != 0
    else:  # before libc++ 15 one bit of the size said so
        is_long, size = size & 1 != 0, size >> 1
    if is_long:
        return long["__data_"].string(length=int(long["__size_"]), errors="replace")
    return bytes(int(short["__data_"][i]) & 0xFF for i in range(size)).decode(errors="replace")


def schedulers():
    at = variable("g_runtimes")
    while at:
        yield at.dereference()
        at = at["next_runtime_"]


def enum_names(of):
    return {field.enumval: field.name.rsplit("::", 1)[-1] for field in of.strip_typedefs().fields()}


class Layout:
    """Where the fields of a G are, so that many can be read with one access each."""

    def __init__(self):
        self.type = gdb.lookup_type("magpie::rt::G")
        self.arena = gdb.lookup_type("magpie::rt::g_arena")
        self.size = self.type.sizeof
        offset = self.offset_of
        self.id = offset(self.type, "id")
        self.state = offset(self.type, "state")
        self.reason = offset(self.type, "waits_for")
        self.locked = offset(self.type, "locked")
        self.task = offset(self.type, "task")
        self.spawn_site = offset(self.type, "spawn_site")
        self.extra = offset(self.type, "extra")
        fiber_type = gdb.lookup_type("magpie::rt::fiber")
        self.fiber = offset(self.type, "fiber")
        self.stack = self.fiber + offset(fiber_type, "stack")
        self.registers = self.fiber + offset(fiber_type, "registers")

    @staticmethod
    def offset_of(of, name):
        for field in of.fields():
            if field.name == name:
                return field.bitpos // 8
            if field.name is None and field.type.code == gdb.TYPE_CODE_UNION:
                if any(inner.name == name for inner in field.type.fields()):
                    return field.bitpos // 8
        raise MagpieError("this script does not belong to this version of magpie (no %s)" % name)


def memory(address, size):
    return gdb.selected_inferior().read_memory(address, size).tobytes()


def word(raw, offset):
    return struct.unpack_from("<Q", raw, offset)[0]


class Goroutine:
    def __init__(self, layout, address, raw):
        self.address = address
        self.id = word(raw, layout.id)
        self.state = STATES[raw[layout.state]]
        self.reason = raw[layout.reason] if self.state == "waiting" else 0
        self.locked = raw[layout.locked] != 0
        self.started = word(raw, layout.task) == 0
        self.spawn_site = word(raw, layout.spawn_site)
        self.extra = word(raw, layout.extra)
        self.fiber = address + layout.fiber
        self.stack = word(raw, layout.stack)
        self.sp, self.pc, self.fp = struct.unpack_from("<QQQ", raw, layout.registers)
        self.low = self.high = self.occupant = 0
        if self.stack:
            record = memory(self.stack, 32)
            self.low, self.high, _, self.occupant = struct.unpack("<QQQQ", record)
        self.thread = None

    def name(self):
        if not self.extra:
            return ""
        kind = gdb.lookup_type("magpie::rt::goroutine_extra").pointer()
        return text_of(gdb.Value(self.extra).cast(kind)["name"])

    def what(self):
        """The state, or what it waits for: the words of a dump."""
        words = wait_reason_text(self.reason) if self.state == "waiting" else self.state
        return words + (", locked to thread" if self.locked else "")

    def title(self):
        name = self.name()
        return "goroutine %d [%s]%s:" % (self.id, self.what(), ' "%s"' % name if name else "")


def wait_reason_text(number):
    symbol = gdb.lookup_global_symbol("magpie::rt::k_wait_reason_texts")
    if symbol is not None:
        return symbol.value()[number].string()
    names = enum_names(gdb.lookup_type("magpie::rt::wait_reason"))
    return names.get(number, "waiting").replace("_", " ")


def goroutines():
    """All that are alive, in the order of their ids, with their threads."""
    layout = Layout()
    found = []
    for scheduler in schedulers():
        arena = scheduler["arenas_"]
        while arena:
            count = int(arena["used"])
            base = int(arena) + layout.size  # the arena's head takes the place of the first
            raw = memory(base, count * layout.size)
            for i in range(count):
                one = raw[i * layout.size : (i + 1) * layout.size]
                if one[layout.state] != 0:
                    found.append(Goroutine(layout, base + i * layout.size, one))
            arena = arena["next"]
    find_threads(found)
    return sorted(found, key=lambda g: g.id)


def find_threads(found):
    """Which thread is on whose stack. One that was stopped is on its signal stack, further up its
    goroutine's."""
    owners = sorted((g.low, g.high, g) for g in found if g.stack and g.occupant in (0, g.fiber))
    if not owners:
        return
    for thread, places in stacks_of_threads():
        for sp in places:
            for low, high, g in owners:
                if low <= sp < high:
                    g.thread = g.thread or thread


def stacks_of_threads():
    selected = gdb.selected_thread()
    frame = gdb.selected_frame() if selected is not None else None
    try:
        for thread in gdb.selected_inferior().threads():
            thread.switch()
            at, places = gdb.newest_frame(), []
            for _ in range(16):
                if at is None:
                    break
                if not places or at.type() == gdb.SIGTRAMP_FRAME:
                    places.append(int(at.read_register("sp")))
                    outer = at.older() if at.type() == gdb.SIGTRAMP_FRAME else None
                    if outer is not None:
                        places.append(int(outer.read_register("sp")))
                at = at.older()
            yield thread, places
    finally:
        if selected is not None and selected.is_valid():
            selected.switch()
            if frame is not None and frame.is_valid():
                frame.select()


# ---- Stacks of those that have no thread --------------------------------------------------------


class FrameId:
    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


class GoroutineUnwinder(Unwinder):
    """While `goroutine` is set: it stands above the innermost frame of the selected thread."""

    def __init__(self):
        super().__init__("magpie")
        self.goroutine = None
        self.innermost = None

    def __call__(self, pending):
        if self.goroutine is None:
            return None
        sp = pending.read_register("sp")
        pc = pending.read_register("pc")
        if (int(sp), int(pc)) != self.innermost:
            return None
        info = pending.create_unwind_info(FrameId(sp, pc))
        arm = "aarch64" in pending.architecture().name()
        for register, number in (
            ("pc" if arm else "rip", self.goroutine.pc),
            ("sp" if arm else "rsp", self.goroutine.sp),
            ("x29" if arm else "rbp", self.goroutine.fp),
        ):
            info.add_saved_register(register, gdb.Value(number).cast(gdb.lookup_type("long")))
        return info


unwinder = GoroutineUnwinder()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)


def run_on_thread(g, command):
    selected, frame = gdb.selected_thread(), gdb.selected_frame()
    try:
        g.thread.switch()
        gdb.newest_frame().select()
        print(gdb.execute(command, to_string=True), end="")
    finally:
        selected.switch()
        if frame.is_valid():
            frame.select()


def run_on_saved(g, command):
    level = gdb.selected_frame().level() if hasattr(gdb.Frame, "level") else 0
    innermost = gdb.newest_frame()
    unwinder.innermost = (int(innermost.read_register("sp")), int(innermost.read_register("pc")))
    unwinder.goroutine = g
    gdb.invalidate_cached_frames()
    try:
        stands = gdb.newest_frame().older()
        if stands is None:
            raise MagpieError("the stack of goroutine %d cannot be read" % g.id)
        stands.select()
        print(without_innermost(gdb.execute(command, to_string=True)), end="")
    finally:
        unwinder.goroutine = None
        gdb.invalidate_cached_frames()
        gdb.execute("frame %d" % level, to_string=True)


def without_innermost(text):
    """A backtrace without its first frame, which is the selected thread's."""
    if not re.match(r"#0\s", text):
        return text
    following = re.search(r"^#1\s", text, re.M)
    if following is None:
        return text
    return re.sub(
        r"^#(\d+)( *)",
        lambda m: "#%-*d" % (len(m.group(0)) - 1, int(m.group(1)) - 1),
        text[following.start() :],
        flags=re.M,
    )


def apply(g, command, everybody):
    if g.thread is not None:
        return run_on_thread(g, command)
    if not g.stack:
        print("it has not started\n" if everybody else "goroutine %d has not started" % g.id)
        return None
    if g.occupant != g.fiber:
        for other in everybody or goroutines():
            if other.fiber == g.occupant:
                print("its stack is lent to goroutine %d, for which it waits:" % other.id)
                return apply(other, command, everybody)
    return run_on_saved(g, command)


# ---- Commands -----------------------------------------------------------------------------------


def place(address):
    """function at file:line of a return address."""
    if not address:
        return "a thread"
    try:
        line = gdb.find_pc_line(address - 1)
        block = gdb.block_for_pc(address - 1)
    except RuntimeError:
        return hex(address)
    named = []  # blocks of functions, from inside out: of ours, inlined into the user's
    while block is not None and not block.is_global:
        if block.function is not None:
            named.append(block)
        block = block.superblock
    if not named:
        return hex(address)
    for block in named:
        if not block.function.print_name.startswith("magpie::"):
            break
    name = full_name(block.function, address)
    if block is not named[0]:
        # gdb's scripts cannot see where in it; its first line tells one lambda from another.
        return "%s in %s, from line %d on" % (name, block.function.symtab.filename, first_line(block))
    if line.symtab is None:
        return name
    return "%s at %s:%d" % (name, line.symtab.filename, line.line)


def first_line(block):
    """Of a function. Of lambdas g++ does not always say it: then the first line that has code."""
    if block.function.line > 0:
        return block.function.line
    lines = (entry.line for entry in block.function.symtab.linetable() if block.start <= entry.pc < block.end)
    return min((line for line in lines if line > 0), default=0)


def full_name(function, address):
    """For lambdas, whose debug information says only operator()(): by the symbol they are in."""
    if not function.print_name.startswith("operator()"):
        return function.print_name
    symbol = re.split(r" \+ \d+ in section | in section ", gdb.execute("info symbol %d" % address, to_string=True))[0]
    inside = re.match(r"void magpie::detail::call_(?:inline|on_heap)<(.*)>\(void\*\)", symbol)
    return inside.group(1) if inside else symbol if "operator()" in symbol else function.print_name


class InfoGoroutines(gdb.Command):
    """Lists the goroutines: info goroutines [-state STATE] [-group]"""

    def __init__(self):
        super().__init__("info goroutines", gdb.COMMAND_STATUS)

    def invoke(self, argument, _from_tty):
        words = gdb.string_to_argv(argument)
        group, state = False, None
        while words:
            option = words.pop(0)
            if option == "-group":
                group = True
            elif option == "-state" and words and words[0] in STATES[1:]:
                state = words.pop(0)
            else:
                raise MagpieError("usage: info goroutines [-state running|runnable|waiting|syscall] [-group]")
        found = [g for g in goroutines() if state in (None, g.state)]
        if not found:
            print("No goroutines.")
        elif group:
            self.print_groups(found)
        else:
            self.print_list(found)

    @staticmethod
    def print_list(found):
        current = gdb.selected_thread()
        for g in found:
            mark = "*" if current is not None and g.thread is not None and g.thread.num == current.num else " "
            thread = "  (thread %d)" % g.thread.num if g.thread is not None else ""
            name = '  "%s"' % g.name() if g.name() else ""
            print("%s %-6d %-24s%s  created by %s%s" % (mark, g.id, g.what(), name, place(g.spawn_site), thread))

    @staticmethod
    def print_groups(found):
        groups = {}
        for g in found:
            groups.setdefault((g.what(), g.spawn_site), []).append(g.id)
        for (what, site), ids in sorted(groups.items(), key=lambda item: -len(item[1])):
            some = ", ".join(str(number) for number in ids[:4]) + (", ..." if len(ids) > 4 else "")
            print("%6d  %-24s  created by %s  (%s)" % (len(ids), what, place(site), some))


class GoroutineCommand(gdb.Command):
    """Runs a command with the stack of a goroutine: goroutine N COMMAND, goroutine all COMMAND"""

    def __init__(self):
        super().__init__("goroutine", gdb.COMMAND_STACK)

    def invoke(self, argument, _from_tty):
        words = argument.split(None, 1)
        if not words or not (words[0] == "all" or words[0].isdigit()):
            raise MagpieError("usage: goroutine N|all [COMMAND]   (COMMAND: bt, info locals, ...)")
        command = words[1] if len(words) > 1 else "bt"
        if gdb.selected_thread() is None:
            raise MagpieError("there is neither a process nor a core file.")
        everybody = goroutines()
        if words[0] == "all":
            for g in everybody:
                print(g.title())
                apply(g, command, everybody)
                print()
            return
        for g in everybody:
            if g.id == int(words[0]):
                return apply(g, command, None)
        raise MagpieError("there is no goroutine %s" % words[0])


InfoGoroutines()
GoroutineCommand()


# ---- Pretty printers ----------------------------------------------------------------------------


def list_length(waiters):
    if any(f.is_base_class for f in waiters.type.strip_typedefs().fields()):
        waiters = waiters.cast(waiters.type.strip_typedefs().fields()[0].type)
    at, count = waiters["first"], 0
    while at and count < 100000:
        count += 1
        at = at["next"]
    return count


def waiting_text(count, what):
    return ", %d %s waiting" % (count, what + ("" if count == 1 else "s")) if count else ""


class ChannelPrinter:
    """magpie::channel<T>, its halves."""

    def __init__(self, value):
        self.element = value.type.strip_typedefs().template_argument(0)
        handle = value
        while handle.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
            fields = handle.type.strip_typedefs().fields()
            handle = handle.cast(fields[0].type) if fields[0].is_base_class else handle[fields[0]]
        self.core = None
        if handle:
            self.core = handle.cast(gdb.lookup_type("magpie::detail::channel_core").pointer()).dereference()

    def to_string(self):
        if self.core is None:
            return "nil channel"
        core = self.core
        return "channel with %d of %d%s%s%s" % (
            int(atomic(core["count"])),
            int(core["capacity"]),
            ", closed" if atomic(core["closed"]) else "",
            waiting_text(list_length(core["receivers"]), "receiver"),
            waiting_text(list_length(core["senders"]), "sender"),
        )

    def children(self):
        if self.core is None:
            return
        count, capacity = int(atomic(self.core["count"])), int(self.core["capacity"])
        size = int(self.core["element_size"])
        ring = int(self.core.address) + self.core.type.sizeof
        for i in range(count if size else 0):
            at = ring + (int(self.core["head"]) + i) % capacity * size
            yield "[%d]" % i, gdb.Value(at).cast(self.element.pointer()).dereference()

    def display_hint(self):
        return "array"


class MutexPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        waiting = waiting_text(list_length(self.value["waiting_"]), "goroutine")
        if int(atomic(self.value["state_"])) & 1 == 0:
            return "unlocked mutex" + waiting
        return "locked mutex, %s%s" % (self.holder(), waiting)

    def holder(self):
        at = int(atomic(self.value["holder_"]))
        for g in goroutines() if at else []:
            if g.low <= at < g.high and g.occupant in (0, g.fiber):
                return "held by goroutine %d" % g.id
        return "held by a thread" if at else "holder not known"


class GPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        if self.value.address is None:
            return "G"
        layout = Layout()
        address = int(self.value.address)
        g = Goroutine(layout, address, memory(address, layout.size))
        if g.state == "dead":
            return "no goroutine (free G)"
        return g.title()[:-1] + ", created by " + place(g.spawn_site)


class PPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        p = self.value
        queue = p["queue"]
        head = int(atomic(queue["head_"])) & 0xFFFFFFFF
        length = (int(atomic(queue["tail_"])) - head) & 0xFFFFFFFF
        m = atomic(p["m"])
        next_one = atomic(queue["run_next_"])
        return "P%d %s, %d in the queue%s, %d stopped, %d turns" % (
            int(p["id"]),
            "with M%d" % int(m["id"]) if m else "without M",
            length,
            ", next goroutine %d" % int(next_one["id"]) if next_one else "",
            int(atomic(p["stopped"]["count"])),
            int(atomic(p["turns"]["value_"])),
        )


def unless_gone(printer):
    """The compiler may have optimized a value away: then gdb says so itself."""

    def make(value):
        if value.is_optimized_out or value.is_lazy and value.address is None:
            return None
        try:
            made = printer(value)
            made.to_string()
        except (gdb.error, gdb.MemoryError):
            return None
        return made

    return make


def register_printers():
    printers = gdb.printing.RegexpCollectionPrettyPrinter("magpie")
    channels = r"^magpie::(channel|sender|receiver)<.*>$"
    printers.add_printer("channel", channels, unless_gone(ChannelPrinter))
    printers.add_printer("mutex", r"^magpie::mutex$", unless_gone(MutexPrinter))
    printers.add_printer("G", r"^magpie::rt::G$", unless_gone(GPrinter))
    printers.add_printer("P", r"^magpie::rt::P$", unless_gone(PPrinter))
    gdb.printing.register_pretty_printer(None, printers, replace=True)


register_printers()
