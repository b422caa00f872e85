// Reads a trace file: from bytes to columns of numbers that the page can draw.
//
// traceReader() needs nothing from the page, so that its text can be sent to a worker as it is.
// It returns { readTrace }, a generator that yields how far it is and returns the model, or a model
// with `error` and whatever was good before the break.
//
// A trace is what several threads wrote, each in its own order. Which event comes first of several
// threads' follows from sequence numbers of goroutines and Ps: an event whose number is not the
// next waits for the others (src/observe/trace_reader.h says it at length; this is the same model).
'use strict';

function traceReader() {
  const NOBODY = 2 ** 64;  // what 2^64-1 becomes as a number
  const RUNNING = 0, RUNNABLE = 1, WAITING = 2, SYSCALL = 3;
  const P_RUNNING = 1, P_IDLE = 2, P_SYSCALL = 3, P_ABANDONED = 4;

  // kind: [name, numbers after the time, which are strings, which are stacks]
  const EVENTS = [];
  for (const [kind, name, count, strings, stacks] of [
    [9, 'ProcsChange', 2, [], [1]], [10, 'ProcStart', 2], [11, 'ProcStop', 0], [12, 'ProcSteal', 3],
    [13, 'ProcStatus', 2], [14, 'GoCreate', 3, [], [1, 2]], [15, 'GoCreateSyscall', 1],
    [16, 'GoStart', 2], [17, 'GoDestroy', 0], [18, 'GoDestroySyscall', 0], [19, 'GoStop', 2, [0], [1]],
    [20, 'GoBlock', 2, [0], [1]], [21, 'GoUnblock', 3, [], [2]], [22, 'GoSyscallBegin', 2, [], [1]],
    [23, 'GoSyscallEnd', 0], [24, 'GoSyscallEndBlocked', 0], [25, 'GoStatus', 3],
    [26, 'STWBegin', 2, [0], [1]], [27, 'STWEnd', 0], [28, 'GCActive', 1], [29, 'GCBegin', 2, [], [1]],
    [30, 'GCEnd', 1], [31, 'GCSweepActive', 1], [32, 'GCSweepBegin', 1, [], [0]], [33, 'GCSweepEnd', 2],
    [34, 'GCMarkAssistActive', 1], [35, 'GCMarkAssistBegin', 1, [], [0]], [36, 'GCMarkAssistEnd', 0],
    [37, 'HeapAlloc', 1], [38, 'HeapGoal', 1], [39, 'GoLabel', 1, [0]],
    [40, 'UserTaskBegin', 4, [2], [3]], [41, 'UserTaskEnd', 2, [], [1]],
    [42, 'UserRegionBegin', 3, [1], [2]], [43, 'UserRegionEnd', 3, [1], [2]],
    [44, 'UserLog', 4, [1, 2], [3]], [45, 'GoSwitch', 2], [46, 'GoSwitchDestroy', 2],
    [47, 'GoCreateBlocked', 3, [], [1, 2]], [48, 'GoStatusStack', 4, [], [3]],
    [128, 'Span', 3], [129, 'SpanAlloc', 3], [130, 'SpanFree', 1], [131, 'HeapObject', 2],
    [132, 'HeapObjectAlloc', 2], [133, 'HeapObjectFree', 1], [134, 'GoroutineStack', 2],
    [135, 'GoroutineStackAlloc', 2], [136, 'GoroutineStackFree', 1],
  ]) EVENTS[kind] = {name, count, strings: strings || [], stacks: stacks || []};

  class TraceError extends Error {
    // cut: the file is good as far as it goes, but its last generation is not all there.
    constructor(offset, what, cut = false) {
      super(what);
      this.offset = offset;
      this.cut = cut;
    }
    get facts() { return {offset: this.offset, what: this.message, cut: this.cut}; }
  }

  // A growing array of numbers of one type.
  class Column {
    constructor(Type, capacity = 1024) {
      this.Type = Type;
      this.data = new Type(capacity);
      this.length = 0;
    }
    push(value) {
      if (this.length === this.data.length) {
        const larger = new this.Type(this.data.length * 2);
        larger.set(this.data);
        this.data = larger;
      }
      this.data[this.length++] = value;
    }
    done() { return this.data.slice(0, this.length); }
  }

  // Numbers out of a range of bytes.
  class Bytes {
    constructor(bytes, at, end) {
      this.bytes = bytes;
      this.at = at;
      this.end = end;
    }
    number() {
      const bytes = this.bytes;
      let byte = bytes[this.at++];
      let value = byte & 127;
      for (let scale = 128; byte >= 128; scale *= 128) {
        if (scale > 2 ** 63) throw new TraceError(this.at, 'a number of more than 64 bits');
        byte = bytes[this.at++];
        value += (byte & 127) * scale;
      }
      if (this.at > this.end) throw new TraceError(this.end, 'the data ends in the middle of a number');
      return value;
    }
  }

  // The file: header, generations, tables.

  // What is wrong with a file is said in the words of src/observe/trace_file.cpp.
  function readVersion(bytes) {
    const pattern = 'go 1.NN trace\0\0\0', text = String.fromCharCode(...bytes.subarray(0, pattern.length));
    if (text === '') throw new TraceError(0, 'the file is empty');
    for (let i = 0; i < text.length; i++) {
      if (pattern[i] === 'N' ? text[i] < '0' || text[i] > '9' : text[i] !== pattern[i]) {
        throw new TraceError(0, 'this is not a trace: it does not begin with "go 1.NN trace"');
      }
    }
    if (text.length < pattern.length) throw new TraceError(text.length, 'the file ends in its header', true);
    const version = Number(text.slice(5, 7));
    if (![22, 23, 25, 26].includes(version)) {
      throw new TraceError(5, `the header says version go 1.${text.slice(5, 7)}; known are go 1.22, 1.23, 1.25 and 1.26`);
    }
    return version;
  }

  class File {
    constructor(bytes) {
      this.bytes = bytes;
      this.version = readVersion(bytes);
      this.at = 16;
      this.number = 0;
    }

    // Whether something may be missing because the file ends too early, and not because it is wrong:
    // before go 1.26 nothing marks the end of a generation, and its tables come last.
    get mayBeCut() { return this.at >= this.bytes.length && this.version < 26; }

    batchHead() {
      const began = this.at;
      const from = new Bytes(this.bytes, this.at, this.bytes.length);
      const kind = this.bytes[from.at++];
      if (kind === 52 && this.version >= 26) {
        this.at = from.at;
        return null;
      }
      if (kind === 49 && this.version >= 23) {
        if (from.at === this.bytes.length) throw new TraceError(began, 'the file ends in the head of a batch', true);
        const experiment = this.bytes[from.at++];
        if (experiment !== 1) throw new TraceError(began + 1, `unknown experiment ${experiment}`);
      } else if (kind !== 1) {
        throw new TraceError(began, `here should be a batch, but there is byte ${kind}`);
      }
      let batch, size;
      try {
        batch = {generation: from.number(), m: from.number(), time: from.number()};
        size = from.number();
      } catch (error) {
        if (from.at > this.bytes.length) throw new TraceError(began, 'the file ends in the head of a batch', true);
        throw new TraceError(began, 'the head of a batch holds a number of more than 64 bits');
      }
      if (size > 65536) throw new TraceError(began, `a batch of ${size} bytes; the most is 65536`);
      if (from.at + size > this.bytes.length) {
        throw new TraceError(began, `a batch of ${size} bytes, of which ` +
                                    `${this.bytes.length - from.at} are there`, true);
      }
      if (batch.generation === 0) throw new TraceError(began, 'a batch of generation 0; they count from 1');
      batch.at = from.at;
      batch.end = from.at + size;
      batch.experimental = kind === 49;
      this.at = batch.end;
      return batch;
    }

    // The next generation, or null.
    next() {
      if (this.at >= this.bytes.length) return null;
      const began = this.at;
      const generation = {number: 0, batches: new Map(), strings: new Map(), stacks: new Map(),
                          frequency: 0, clock: null, firstTime: Infinity};
      let ended = false;
      while (this.at < this.bytes.length) {
        const here = this.at;
        const batch = this.batchHead();
        if (batch === null) {
          ended = true;
          break;
        }
        if (generation.number === 0) {
          if (this.version < 26 && this.number !== 0 && batch.generation !== this.number + 1) {
            throw new TraceError(began, `generation ${batch.generation} follows generation ${this.number}`);
          }
          if (batch.generation === this.number) {
            throw new TraceError(began, `two generations with the number ${this.number}`);
          }
          generation.number = batch.generation;
        } else if (batch.generation !== generation.number) {
          if (this.version < 26 && batch.generation === generation.number + 1) {
            this.at = here;
            break;
          }
          throw new TraceError(here, `a batch of generation ${batch.generation} among those of ` +
                                     `generation ${generation.number}`);
        }
        if (batch.time < generation.firstTime) generation.firstTime = batch.time;
        if (!batch.experimental && batch.end > batch.at) this.take(generation, batch);
      }
      if (!ended && this.version >= 26) {
        throw new TraceError(this.bytes.length, `generation ${generation.number} has no end`, true);
      }
      if (!generation.frequency) {
        throw new TraceError(began, `generation ${generation.number} has no frequency`, this.mayBeCut);
      }
      this.number = generation.number;
      return generation;
    }

    take(generation, batch) {
      const kind = this.bytes[batch.at];
      const from = new Bytes(this.bytes, batch.at + 1, batch.end);
      if (kind === 4) return this.takeStrings(generation, from);
      if (kind === 2) return this.takeStacks(generation, from);
      if (kind === 6) return undefined;  // CPU samples are not shown
      if (kind === 8 && this.version < 25) {
        generation.frequency = from.number();
        return undefined;
      }
      if (kind === 50 && this.version >= 25) return this.takeSync(generation, from, batch);
      const list = generation.batches.get(batch.m);
      if (list) list.push(batch); else generation.batches.set(batch.m, [batch]);
      return undefined;
    }

    takeStrings(generation, from) {
      const decoder = new TextDecoder();
      while (from.at < from.end) {
        if (this.bytes[from.at++] !== 5) throw new TraceError(from.at - 1, 'something else than a string in a table of strings');
        const id = from.number(), size = from.number();
        if (size > 1024 || from.at + size > from.end) throw new TraceError(from.at, `a string of ${size} bytes`);
        generation.strings.set(id, decoder.decode(this.bytes.subarray(from.at, from.at + size)));
        from.at += size;
      }
    }

    takeStacks(generation, from) {
      while (from.at < from.end) {
        if (this.bytes[from.at++] !== 3) throw new TraceError(from.at - 1, 'something else than a stack in a table of stacks');
        const id = from.number(), count = from.number();
        if (count > 128) throw new TraceError(from.at, `a stack of ${count} frames; the most is 128`);
        const frames = [];
        for (let i = 0; i < count; i++) frames.push([from.number(), from.number(), from.number(), from.number()]);
        generation.stacks.set(id, frames);
      }
    }

    takeSync(generation, from, batch) {
      while (from.at < from.end) {
        const kind = this.bytes[from.at++];
        if (kind === 8) {
          generation.frequency = from.number();
        } else if (kind === 51) {
          const time = batch.time + from.number();
          from.number();
          generation.clock = {time, wall: from.number() * 1e3 + from.number() / 1e6};
        } else {
          throw new TraceError(from.at - 1, `byte ${kind} in a sync batch`);
        }
      }
    }
  }

  // The model: everything the page knows, in columns.

  class Model {
    constructor(version) {
      this.version = version;
      this.generations = 0;
      this.events = 0;
      this.began = 0;       // absolute nanoseconds of time 0
      this.wall = 0;        // the same as the time of day, in milliseconds; 0: not known
      this.end = 0;         // nanoseconds since
      this.error = null;
      this.strings = [''];
      this.stringIds = new Map([['', 0]]);
      this.stacks = [[]];   // of indexes into frames, innermost first
      this.stackIds = new Map([['', 0]]);
      this.frames = [];     // {function, file, line}
      this.frameIds = new Map();
      this.g = {id: new Column(Float64Array), name: new Column(Uint32Array), parent: new Column(Int32Array),
                born: new Column(Float64Array), died: new Column(Float64Array), stack: new Column(Uint32Array)};
      this.ms = [];         // thread ids
      this.ps = [];         // P ids
      this.span = {g: new Column(Uint32Array), what: new Column(Uint8Array), begin: new Column(Float64Array),
                   end: new Column(Float64Array), p: new Column(Int32Array), pEnd: new Column(Float64Array),
                   m: new Column(Int32Array), reason: new Column(Uint32Array), stack: new Column(Uint32Array),
                   by: new Column(Int32Array), byP: new Column(Int32Array), byM: new Column(Int32Array)};
      this.held = {p: new Column(Uint32Array), m: new Column(Int32Array), begin: new Column(Float64Array),
                   end: new Column(Float64Array)};
      this.tasks = [];
      this.regions = [];
      this.logs = [];
      this.counts = {};
    }
    string(text) {
      let id = this.stringIds.get(text);
      if (id === undefined) {
        id = this.strings.length;
        this.strings.push(text);
        this.stringIds.set(text, id);
      }
      return id;
    }
  }

  class G {
    constructor(id, index) {
      this.id = id;
      this.index = index;
      this.status = -1;
      this.sequence = 0;
      this.generation = 0;
      // The stretch of time that is under way.
      this.begin = 0;
      this.p = -1;
      this.pEnd = -1;
      this.m = -1;
      this.reason = 0;
      this.stack = 0;
      this.by = -1;
      this.byP = -1;
      this.byM = -1;
      this.regions = null;
    }
  }
  class P {
    constructor(index) {
      this.index = index;
      this.status = 0;
      this.sequence = 0;
      this.generation = 0;
      this.m = null;
      this.since = 0;
    }
  }
  class M {
    constructor(id, index) {
      this.id = id;
      this.index = index;
      this.g = null;
      this.p = null;
      this.pId = -1;
    }
  }
  // The next event of one thread.
  class Cursor {
    constructor(m, batches) {
      this.m = m;
      this.batches = batches;
      this.next = 0;
      this.from = null;
      this.units = 0;
      this.time = 0;
      this.kind = 0;
      this.offset = 0;
      this.a = [0, 0, 0, 0, 0];
    }
  }

  const STATUS = [-1, RUNNABLE, RUNNING, SYSCALL, WAITING];
  const STATES = ['running', 'runnable', 'waiting', 'in a system call'];

  class Builder {
    constructor(bytes) {
      this.file = new File(bytes);
      this.bytes = bytes;
      this.model = new Model(this.file.version);
      this.gs = new Map();
      this.ps = new Map();
      this.ms = new Map();
      this.nobody = new M(NOBODY, -1);
      this.tasks = new Map();
      this.heap = [];
      this.last = 0;
      this.first = 0;
      this.stackOf = new Map();   // of this generation: id -> stack of the model
      this.stringOf = new Map();
      this.failedTries = 0;
    }

    fail(cursor, what, cut) {
      const where = cursor.m.id === NOBODY ? '' : ` of thread ${cursor.m.id}`;
      throw new TraceError(cursor.offset, `${EVENTS[cursor.kind].name}${where}: ${what}`, cut);
    }

    *run() {
      const model = this.model;
      for (;;) {
        const generation = this.file.next();
        if (generation === null) break;
        model.generations++;
        this.generation = generation;
        this.number = generation.number;
        this.scale = 1e9 / generation.frequency;
        this.stackOf = new Map([[0, 0]]);
        this.stringOf = new Map([[0, 0]]);
        if (model.generations === 1) {
          this.first = generation.firstTime * this.scale;
          model.began = this.first;
          this.firstNumber = generation.number;
        }
        if (generation.clock && !model.wall) {
          model.wall = generation.clock.wall + (this.first - generation.clock.time * this.scale) / 1e6;
        }
        this.heap = [];
        for (const [id, batches] of generation.batches) {
          const cursor = new Cursor(id === NOBODY ? this.nobody : this.machine(id), batches);
          if (this.load(cursor)) this.push(cursor);
        }
        let steps = 0;
        while (this.heap.length > 0) {
          this.step();
          if ((++steps & 0xffff) === 0) yield this.file.at / this.bytes.length;
        }
        yield this.file.at / this.bytes.length;
      }
    }

    // The heap of threads' next events, by time.

    push(cursor) {
      const heap = this.heap;
      let i = heap.length;
      heap.push(cursor);
      while (i > 0) {
        const parent = (i - 1) >> 1;
        if (heap[parent].time <= cursor.time) break;
        heap[i] = heap[parent];
        i = parent;
      }
      heap[i] = cursor;
    }
    sink() {
      const heap = this.heap, cursor = heap[0], length = heap.length;
      let i = 0;
      for (;;) {
        let child = 2 * i + 1;
        if (child >= length) break;
        if (child + 1 < length && heap[child + 1].time < heap[child].time) child++;
        if (heap[child].time >= cursor.time) break;
        heap[i] = heap[child];
        i = child;
      }
      heap[i] = cursor;
    }
    dropFirst() {
      const last = this.heap.pop();
      if (this.heap.length > 0) {
        this.heap[0] = last;
        this.sink();
      }
    }

    step() {
      const first = this.heap[0];
      if (this.advance(first)) {
        this.model.events++;
        if (this.load(first)) this.sink(); else this.dropFirst();
        return;
      }
      const waiting = [];
      for (;;) {
        waiting.push(this.heap[0]);
        this.dropFirst();
        if (this.heap.length === 0) this.nobodyCanGoOn(waiting);
        if (this.advance(this.heap[0])) break;
        if (++this.failedTries > 2000 * (this.model.events + 100000)) {
          throw new TraceError(first.offset, 'the events are too far out of order');
        }
      }
      this.model.events++;
      if (this.load(this.heap[0])) this.sink(); else this.dropFirst();
      for (const cursor of waiting) this.push(cursor);
    }

    nobodyCanGoOn(waiting) {
      const stuck = waiting.slice(0, 4).map(cursor => {
        const a = cursor.a;
        let about = '';
        if (cursor.kind === 16 || cursor.kind === 21 || cursor.kind === 45 || cursor.kind === 46) {
          const g = this.gs.get(a[0]);
          about = ` of goroutine ${a[0]} as number ${a[1]}, which ` +
              (g ? `is ${STATES[g.status]}` +
                   (g.generation === this.number ? ` after number ${g.sequence}` : ' and not listed in this generation')
                 : 'does not exist');
        } else if (cursor.kind === 10 || cursor.kind === 12) {
          const p = this.ps.get(a[0]);
          about = ` of P ${a[0]} as number ${a[1]}, which ` +
              (p ? `is ${['?', 'running', 'idle', 'in a system call', 'abandoned'][p.status]} after number ${p.sequence}`
                 : 'is not listed');
        }
        return `thread ${cursor.m.id === NOBODY ? -1 : cursor.m.id}: ${EVENTS[cursor.kind].name}${about}`;
      });
      throw new TraceError(waiting[0].offset,
                           `no thread can go on in generation ${this.number}. ${stuck.join('; ')}`,
                           this.file.mayBeCut && this.generation.strings.size === 0);
    }

    // Makes the thread's next event the cursor's. False: there is none.
    load(cursor) {
      while (cursor.from === null || cursor.from.at >= cursor.from.end) {
        if (cursor.next === cursor.batches.length) return false;
        const batch = cursor.batches[cursor.next++];
        cursor.from = new Bytes(this.bytes, batch.at, batch.end);
        cursor.units = batch.time;
      }
      const from = cursor.from;
      cursor.offset = from.at;
      cursor.kind = this.bytes[from.at++];
      const facts = EVENTS[cursor.kind];
      if (facts === undefined) throw new TraceError(cursor.offset, `byte ${cursor.kind} is not an event that can be here`);
      cursor.units += from.number();
      for (let i = 0; i < facts.count; i++) cursor.a[i] = from.number();
      cursor.time = cursor.units * this.scale;
      return true;
    }

    // Texts and stacks of the generation become those of the model.

    text(cursor, id) {
      let index = this.stringOf.get(id);
      if (index === undefined) {
        const text = this.generation.strings.get(id);
        if (text === undefined) this.fail(cursor, `unknown string ${id}`, this.file.mayBeCut);
        index = this.model.string(text);
        this.stringOf.set(id, index);
      }
      return index;
    }
    stack(cursor, id) {
      let index = this.stackOf.get(id);
      if (index === undefined) {
        index = this.addStack(cursor, id);
        this.stackOf.set(id, index);
      }
      return index;
    }
    addStack(cursor, id) {
      const frames = this.generation.stacks.get(id);
      if (frames === undefined) this.fail(cursor, `unknown stack ${id}`, this.file.mayBeCut);
      const model = this.model;
      const list = frames.map(([pc, functionId, fileId, line]) => {
        const name = this.text(cursor, functionId), file = this.text(cursor, fileId);
        const key = `${pc} ${name} ${file} ${line}`;
        let frame = model.frameIds.get(key);
        if (frame === undefined) {
          frame = model.frames.length;
          model.frames.push({function: name, file, line});
          model.frameIds.set(key, frame);
        }
        return frame;
      });
      const key = list.join(' ');
      let index = model.stackIds.get(key);
      if (index === undefined) {
        index = model.stacks.length;
        model.stacks.push(list);
        model.stackIds.set(key, index);
      }
      return index;
    }

    machine(id) {
      let m = this.ms.get(id);
      if (m === undefined) {
        m = new M(id, this.model.ms.length);
        this.model.ms.push(id);
        this.ms.set(id, m);
      }
      return m;
    }
    newG(id) {
      const columns = this.model.g;
      const g = new G(id, columns.id.length);
      columns.id.push(id);
      columns.name.push(0);
      columns.parent.push(-1);
      columns.born.push(-1);
      columns.died.push(-1);
      columns.stack.push(0);
      g.generation = this.number;
      this.gs.set(id, g);
      return g;
    }
    nameG(g, stack) {
      const names = this.model.g.name.data;
      if (names[g.index] !== 0 || stack === 0) return;
      const frames = this.model.stacks[stack];
      if (frames.length > 0) names[g.index] = this.model.frames[frames[frames.length - 1]].function;
    }

    // Stretches of time.

    endSpan(g, time) {
      if (g.status < 0) return;
      const span = this.model.span;
      const placed = g.status === RUNNING || g.status === SYSCALL;
      span.g.push(g.index);
      span.what.push(g.status);
      span.begin.push(g.begin);
      span.end.push(time);
      span.p.push(placed ? g.p : -1);
      span.pEnd.push(g.pEnd >= 0 ? g.pEnd : time);
      span.m.push(placed ? g.m : -1);
      span.reason.push(g.reason);
      span.stack.push(g.stack);
      span.by.push(g.by);
      span.byP.push(g.byP);
      span.byM.push(g.byM);
    }
    change(g, status, time, m, reason, stack) {
      this.endSpan(g, time);
      g.status = status;
      g.begin = time;
      g.p = m.p !== null ? m.p.index : -1;
      g.pEnd = -1;
      g.m = m.index;
      g.reason = reason;
      g.stack = stack;
      g.by = g.byP = g.byM = -1;
    }
    wokenBy(g, m) {
      g.by = m.g !== null ? m.g.index : -1;
      g.byP = m.p !== null ? m.p.index : -1;
      g.byM = m.index;
    }
    gone(g, time) {
      this.endSpan(g, time);
      this.model.g.died.data[g.index] = time;
      if (g.regions) for (const region of g.regions) region.end = time;
      this.gs.delete(g.id);
    }
    takeP(m, p, time) {
      m.p = p;
      p.m = m;
      p.since = time;
    }
    loseP(p, time) {
      const m = p.m, held = this.model.held;
      held.p.push(p.index);
      held.m.push(m.index);
      held.begin.push(p.since);
      held.end.push(time);
      if (m.g !== null && m.g.status === SYSCALL && m.g.p === p.index && m.g.pEnd < 0) m.g.pEnd = time;
      m.p = null;
      p.m = null;
    }

    // One event of one thread. False: it must wait for others.
    advance(cursor) {
      const a = cursor.a, m = cursor.m;
      // Clocks of threads disagree a little; the order does not.
      const time = Math.max(cursor.time - this.first, this.last);
      switch (cursor.kind) {
        case 10: {  // ProcStart
          const p = this.ps.get(a[0]);
          if (!p || p.status !== P_IDLE || !this.follows(p, a[1]) || m.p !== null) return false;
          p.status = P_RUNNING;
          p.sequence = a[1];
          this.takeP(m, p, time);
          break;
        }
        case 11:  // ProcStop
          if (m.p === null) this.fail(cursor, 'it needs a P, and the thread has none');
          m.p.status = P_IDLE;
          this.loseP(m.p, time);
          break;
        case 12: {  // ProcSteal
          const p = this.ps.get(a[0]);
          if (!p || (p.status !== P_SYSCALL && p.status !== P_ABANDONED) || !this.follows(p, a[1])) return false;
          if (p.status === P_SYSCALL && (p.m === null || p.m.id !== a[2])) {
            this.fail(cursor, `P ${a[0]} is taken from thread ${a[2]}, which does not have it`);
          }
          p.status = P_IDLE;
          p.sequence = a[1];
          if (p.m !== null) this.loseP(p, time);
          break;
        }
        case 13: this.procStatus(cursor, time); break;
        case 14: case 47: {  // GoCreate, GoCreateBlocked
          if (m.p === null) this.fail(cursor, 'it needs a P, and the thread has none');
          if (this.gs.has(a[0])) this.fail(cursor, `goroutine ${a[0]} exists already`);
          const entry = this.stack(cursor, a[1]), creator = this.stack(cursor, a[2]);
          const g = this.newG(a[0]);
          this.nameG(g, entry);
          const columns = this.model.g;
          columns.born.data[g.index] = time;
          columns.stack.data[g.index] = creator;
          columns.parent.data[g.index] = m.g !== null ? m.g.index : -1;
          this.change(g, cursor.kind === 14 ? RUNNABLE : WAITING, time, m, 0, creator);
          this.wokenBy(g, m);
          break;
        }
        case 15: {  // GoCreateSyscall
          if (m.g !== null) this.fail(cursor, `the thread runs goroutine ${m.g.id}`);
          if (this.gs.has(a[0])) this.fail(cursor, `goroutine ${a[0]} exists already`);
          const g = this.newG(a[0]);
          this.model.g.born.data[g.index] = time;
          m.g = g;
          this.change(g, SYSCALL, time, m, 0, 0);
          break;
        }
        case 16: {  // GoStart
          const g = this.gs.get(a[0]);
          if (!g || g.status !== RUNNABLE || !this.follows(g, a[1])) return false;
          if (m.p === null) this.fail(cursor, 'it needs a P, and the thread has none');
          if (m.g !== null) this.fail(cursor, `goroutine ${a[0]} starts where goroutine ${m.g.id} runs`);
          g.sequence = a[1];
          this.change(g, RUNNING, time, m, 0, 0);
          m.g = g;
          break;
        }
        case 17: {  // GoDestroy
          const g = this.current(cursor, RUNNING, true);
          this.gone(g, time);
          m.g = null;
          break;
        }
        case 18: {  // GoDestroySyscall
          const g = this.current(cursor, SYSCALL, false);
          if (m.p !== null) {
            m.p.status = P_ABANDONED;
            this.loseP(m.p, time);
          }
          this.gone(g, time);
          m.g = null;
          break;
        }
        case 19: case 20: {  // GoStop, GoBlock
          const g = this.current(cursor, RUNNING, true);
          const stack = this.stack(cursor, a[1]);
          this.nameG(g, stack);
          this.change(g, cursor.kind === 19 ? RUNNABLE : WAITING, time, m, this.text(cursor, a[0]), stack);
          m.g = null;
          break;
        }
        case 21: {  // GoUnblock
          const g = this.gs.get(a[0]);
          if (!g || g.status !== WAITING || !this.follows(g, a[1])) return false;
          g.sequence = a[1];
          this.change(g, RUNNABLE, time, m, 0, this.stack(cursor, a[2]));
          this.wokenBy(g, m);
          break;
        }
        case 22: {  // GoSyscallBegin
          const g = this.current(cursor, RUNNING, true);
          if (!this.follows(m.p, a[0])) this.fail(cursor, `the P comes with number ${a[0]} after ${m.p.sequence}`);
          const stack = this.stack(cursor, a[1]);
          m.p.status = P_SYSCALL;
          m.p.sequence = a[0];
          this.nameG(g, stack);
          this.change(g, SYSCALL, time, m, 0, stack);
          break;
        }
        case 23: {  // GoSyscallEnd
          const g = this.current(cursor, SYSCALL, true);
          if (m.p.status !== P_SYSCALL) this.fail(cursor, 'the P is not in a system call');
          m.p.status = P_RUNNING;
          this.change(g, RUNNING, time, m, 0, 0);
          break;
        }
        case 24: {  // GoSyscallEndBlocked
          if (m.p !== null && m.p.status === P_SYSCALL) return false;
          const g = this.current(cursor, SYSCALL, false);
          this.change(g, RUNNABLE, time, m, 0, 0);
          m.g = null;
          break;
        }
        case 25: case 48: this.goStatus(cursor, time); break;
        case 45: case 46: {  // GoSwitch, GoSwitchDestroy
          const from = this.current(cursor, RUNNING, true);
          const to = this.gs.get(a[0]);
          if (!to || to.status !== WAITING || !this.follows(to, a[1])) return false;
          to.sequence = a[1];
          this.change(to, RUNNABLE, time, m, 0, 0);
          this.wokenBy(to, m);
          if (cursor.kind === 45) this.change(from, WAITING, time, m, 0, 0); else this.gone(from, time);
          this.change(to, RUNNING, time, m, 0, 0);
          m.g = to;
          break;
        }
        case 39:  // GoLabel: its name from now on
          if (m.g === null) this.fail(cursor, 'it needs a goroutine, and the thread runs none');
          this.model.g.name.data[m.g.index] = this.text(cursor, a[0]);
          break;
        case 40: case 41: case 42: case 43: case 44: this.annotation(cursor, time); break;
        default: break;  // the collector's and the like are not drawn
      }
      this.last = time;
      return true;
    }

    follows(of, number) { return of.generation === this.number && number === of.sequence + 1; }

    current(cursor, status, needsP) {
      const m = cursor.m;
      if (needsP && m.p === null) this.fail(cursor, 'it needs a P, and the thread has none');
      if (m.g === null) this.fail(cursor, 'it needs a goroutine, and the thread runs none');
      if (m.g.status !== status) this.fail(cursor, `goroutine ${m.g.id} is ${STATES[m.g.status]}, not ${STATES[status]}`);
      return m.g;
    }

    procStatus(cursor, time) {
      const [id, status] = cursor.a;
      if (status < 1 || status > 4) this.fail(cursor, `unknown status ${status} of P ${id}`);
      let p = this.ps.get(id);
      if (p === undefined) {
        p = new P(this.model.ps.length);
        this.model.ps.push(id);
        this.ps.set(id, p);
        p.status = status;
      } else if (p.status !== status && !(status === P_ABANDONED && p.status === P_SYSCALL)) {
        this.fail(cursor, `P ${id} is said to be in state ${status}, but it is in ${p.status}`);
      }
      p.sequence = 0;
      p.generation = this.number;
      if ((status === P_RUNNING || status === P_SYSCALL) && cursor.m !== this.nobody && p.m === null) {
        this.takeP(cursor.m, p, time);
      }
    }

    goStatus(cursor, time) {
      const [id, thread, status, stack] = cursor.a;
      const what = STATUS[status];
      if (what === undefined || what < 0) this.fail(cursor, `unknown status ${status} of goroutine ${id}`);
      let g = this.gs.get(id);
      if (g === undefined) {
        if (this.number !== this.firstNumber) {
          this.fail(cursor, `goroutine ${id} was neither created nor listed in the first generation`);
        }
        g = this.newG(id);
      } else if (g.status !== what) {
        this.fail(cursor, `goroutine ${id} is said to be ${STATES[what]}, but it is ${STATES[g.status]}`);
      }
      g.sequence = 0;
      g.generation = this.number;
      let m = cursor.m;
      if (what === SYSCALL && thread !== m.id) m = this.machine(thread);
      if ((what === RUNNING || what === SYSCALL) && m !== this.nobody) m.g = g;
      if (cursor.kind === 48) this.nameG(g, this.stack(cursor, stack));
      if (g.status < 0) {
        this.change(g, what, 0, m, 0, cursor.kind === 48 ? this.stack(cursor, stack) : 0);
      }
    }

    annotation(cursor, time) {
      const a = cursor.a, m = cursor.m, model = this.model;
      if (m.g === null) this.fail(cursor, 'it needs a goroutine, and the thread runs none');
      const g = m.g;
      switch (cursor.kind) {
        case 40: {
          const task = {id: a[0], parent: a[1], name: this.text(cursor, a[2]), begin: time, end: -1, g: g.index};
          model.tasks.push(task);
          this.tasks.set(a[0], task);
          break;
        }
        case 41: {
          const task = this.tasks.get(a[0]);
          if (task) task.end = time;
          this.tasks.delete(a[0]);
          break;
        }
        case 42: {
          if (!g.regions) g.regions = [];
          const region = {g: g.index, task: a[0], name: this.text(cursor, a[1]), begin: time, end: -1,
                          depth: g.regions.length};
          g.regions.push(region);
          model.regions.push(region);
          break;
        }
        case 43:
          if (g.regions && g.regions.length > 0) {
            const top = g.regions[g.regions.length - 1], name = this.text(cursor, a[1]);
            if (top.name !== name || top.task !== a[0]) {
              this.fail(cursor, `the region "${model.strings[name]}" ends inside "${model.strings[top.name]}"`);
            }
            g.regions.pop();
            top.end = time;
          }
          break;
        case 44:
          model.logs.push({time, g: g.index, p: m.p !== null ? m.p.index : -1, task: a[0],
                           key: this.text(cursor, a[1]), value: this.text(cursor, a[2])});
          break;
      }
    }

    // Ends what is under way, and sorts.
    finish(error) {
      const model = this.model;
      model.end = Math.max(this.last, 1);
      for (const g of this.gs.values()) this.endSpan(g, model.end);
      for (const p of this.ps.values()) if (p.m !== null) this.loseP(p, model.end);
      for (const task of model.tasks) if (task.end < 0) task.end = model.end;
      for (const region of model.regions) if (region.end < 0) region.end = model.end;
      model.error = error;
      const out = {version: model.version, generations: model.generations, events: model.events,
                   began: model.began, wall: model.wall, end: model.end, error, strings: model.strings,
                   stacks: model.stacks, frames: model.frames, ms: model.ms, ps: model.ps,
                   tasks: model.tasks, regions: model.regions, logs: model.logs, g: {}, span: {}, held: {}};
      for (const part of ['g', 'span', 'held']) {
        for (const [name, column] of Object.entries(model[part])) out[part][name] = column.done();
      }
      sortRows(out);
      out.overview = overview(out, 1024);
      return out;
    }
  }

  // Rows as lists of spans in the order of their beginnings: of row i the places
  // index[first[i]] ... index[first[i+1]-1]. A column says to which row a span belongs.
  function rowsOf(column, begins, count, wanted) {
    const first = new Uint32Array(count + 1);
    for (let i = 0; i < column.length; i++) if (column[i] >= 0 && wanted(i)) first[column[i] + 1]++;
    for (let i = 0; i < count; i++) first[i + 1] += first[i];
    const fill = first.slice(0, count), index = new Uint32Array(first[count]);
    for (let i = 0; i < column.length; i++) if (column[i] >= 0 && wanted(i)) index[fill[column[i]]++] = i;
    for (let row = 0; row < count; row++) {
      const part = index.subarray(first[row], first[row + 1]);
      let sorted = true;
      for (let i = 1; i < part.length && sorted; i++) sorted = begins[part[i - 1]] <= begins[part[i]];
      if (!sorted) part.sort((x, y) => begins[x] - begins[y]);
    }
    return {first, index};
  }

  // Spans of a row in columns of their own, with the time used, and used in system calls, before
  // each: what a row shows
  // between two moments can then be said without looking at every span in between.
  function busyRow(model, index, ends) {
    const count = index.length, span = model.span;
    const row = {index, begin: new Float64Array(count), end: new Float64Array(count),
                 used: new Float64Array(count + 1), calls: new Float64Array(count + 1)};
    for (let i = 0; i < count; i++) {
      row.begin[i] = span.begin[index[i]];
      row.end[i] = ends[index[i]];
      const time = row.end[i] - row.begin[i];
      row.used[i + 1] = row.used[i] + time;
      row.calls[i + 1] = row.calls[i] + (span.what[index[i]] === SYSCALL ? time : 0);
    }
    return row;
  }

  function sortRows(model) {
    const span = model.span, always = () => true;
    const split = (column, count, ends) => {
      const {first, index} = rowsOf(column, span.begin, count, i => ends[i] > span.begin[i]);
      return Array.from({length: count}, (_, i) => busyRow(model, index.subarray(first[i], first[i + 1]), ends));
    };
    model.pRows = split(span.p, model.ps.length, span.pEnd);
    model.mRows = split(span.m, model.ms.length, span.end);
    model.gRows = rowsOf(span.g, span.begin, model.g.id.length, always);
    model.heldRows = rowsOf(model.held.p, model.held.begin, model.ps.length, always);
    // Whom a goroutine woke or made, and what each goroutine did just before.
    model.wakeRows = rowsOf(span.by, span.begin, model.g.id.length, always);
    model.before = new Int32Array(span.g.length).fill(-1);
    const {first, index} = model.gRows;
    for (let g = 0; g + 1 < first.length; g++) {
      for (let i = first[g] + 1; i < first[g + 1]; i++) model.before[index[i]] = index[i - 1];
    }
  }

  // How many goroutines are in each state, over time: `count` steps of 4 averages.
  function overview(model, count) {
    const result = new Float32Array(4 * count), span = model.span, step = model.end / count;
    const edges = Array.from({length: 4}, () => new Float64Array(count + 2));
    for (let i = 0; i < span.g.length; i++) {
      const edge = edges[span.what[i]];
      const from = Math.min(span.begin[i] / step, count), to = Math.min(span.end[i] / step, count);
      const a = Math.floor(from), b = Math.floor(to);
      // The step where it begins counts the rest of the step, those after it count whole.
      edge[a] += 1 - (from - a);
      edge[a + 1] += from - a;
      edge[b] -= 1 - (to - b);
      edge[b + 1] -= to - b;
    }
    for (let what = 0; what < 4; what++) {
      let level = 0;
      for (let i = 0; i < count; i++) {
        level += edges[what][i];
        result[4 * i + what] = Math.max(level, 0);
      }
    }
    return result;
  }

  function* readTrace(bytes) {
    let builder;
    try {
      builder = new Builder(bytes);
    } catch (error) {
      if (!(error instanceof TraceError)) throw error;
      return {error: error.facts, events: 0};
    }
    let failed = null;
    try {
      yield* builder.run();
    } catch (error) {
      if (!(error instanceof TraceError)) throw error;
      failed = error.facts;
    }
    return builder.finish(failed);
  }

  // The buffers of a model, to be handed over without a copy.
  function buffersOf(model) {
    const buffers = new Set();
    const visit = value => {
      if (ArrayBuffer.isView(value)) buffers.add(value.buffer);
      else if (value && typeof value === 'object') for (const part of Object.values(value)) {
        if (part && typeof part === 'object') visit(part);
      }
    };
    for (const name of ['g', 'span', 'held', 'pRows', 'mRows', 'gRows', 'heldRows',
                        'wakeRows', 'before', 'overview']) visit(model[name]);
    return [...buffers];
  }

  return {readTrace, buffersOf, TraceError};
}
