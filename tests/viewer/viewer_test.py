#!/usr/bin/env python3
"""The viewer in a real browser.

    viewer_test.py MAGPIE REPOSITORY MAKE_TRACE [SCREENSHOT_FOLDER]

With a fourth argument pictures of every view are left there, wide and narrow, light and dark. What comes
after it is unittest's: "" -k keyboard.
"""

import base64
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from browser import Browser, find_browser  # noqa: E402
from handmade import Handmade  # noqa: E402

MAGPIE, REPOSITORY, MAKE_TRACE = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
PICTURES = pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 and sys.argv[4] else None
DATA = REPOSITORY / "tests" / "data"
WIDE, NARROW = (1280, 800, False), (390, 844, True)


class Viewer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.folder = tempfile.TemporaryDirectory(prefix="magpie_viewer_")
        cls.path = pathlib.Path(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.folder.cleanup()

    def page_of(self, trace, size=WIDE, code=0):
        html = self.path / (pathlib.Path(trace).name + ".html")
        end = subprocess.run([MAGPIE, "trace", "html", str(trace), "-o", str(html)], capture_output=True, text=True)
        self.assertEqual(end.returncode, code, end.stderr)
        page = self.browser.page(*size)
        page.open(html.as_uri())
        page.wait_for("app.model !== null || !byId('banner').hidden")
        return page

    def settle(self, page):
        page.wait_for("!app.timeline.moving && !app.timeline.asked")

    def picture(self, page, name):
        if PICTURES:
            PICTURES.mkdir(parents=True, exist_ok=True)
            time.sleep(0.3)
            page.screenshot(PICTURES / f"{name}.png")

    def test_small_functions(self):
        page = self.browser.page(*WIDE)
        page.open((REPOSITORY / "viewer" / "index.html").as_uri())
        for expression, expected in [
                ("duration(0)", "0"), ("duration(0.2)", "<1 ns"), ("duration(1)", "1 ns"), ("duration(64)", "64 ns"),
                ("duration(999)", "999 ns"), ("duration(999.7)", "1.00 µs"), ("duration(1500)", "1.50 µs"),
                ("duration(12345678)", "12.3 ms"), ("duration(2e9)", "2.00 s"), ("duration(999999)", "1.00 ms"),
                ("moment(0)", "0"), ("moment(222556300)", "222.5563 ms"), ("moment(1222556345)", "1.222556 s"),
                ("percent(0.5)", "50.0%"), ("percent(0.00001)", "<0.1%"), ("plural(1, 'P')", "1 P"),
                ("lowerBound([1, 3, 3, 7], 3)", 1), ("lowerBound([1, 3], 9)", 2), ("lowerBound([], 9)", 0),
                ("decodeBase64('AQID').join()", "1,2,3")]:
            self.assertEqual(page.evaluate(expression), expected, expression)
        # nextFrom() is lowerBound(), only faster.
        self.assertTrue(page.evaluate("""(() => {
          for (let round = 0; round < 300; round++) {
            const numbers = Float64Array.from({length: round % 40}, () => Math.floor(Math.random() * 50)).sort();
            for (let value = -1; value < 52; value++) {
              const from = Math.floor(Math.random() * (lowerBound(numbers, value) + 1));
              if (nextFrom(numbers, value, from) !== lowerBound(numbers, value)) return false;
            }
          }
          return true;
        })()"""))

    def test_names_are_short_where_they_are_of_cpp(self):
        page = self.browser.page(*WIDE)
        page.open((REPOSITORY / "viewer" / "index.html").as_uri())
        for name, short in [
                ("(anonymous namespace)::a()::{lambda(int)#1}::operator()(int) const", "a::lambda#1"),
                ("(anonymous namespace)::a(b::c const&, (anonymous namespace)::d&)::{lambda(b::c const&)#2}", "a::lambda#2"),
                ("a::b::read(std::span<std::byte, 18446744073709551615ul>, std::error_code&)", "a::b::read"),
                ("void a::chan<int>::send(int&&)", "a::chan<int>::send"),
                ("std::vector<int, std::allocator<int> >& f<std::vector<int> >(int)", "f<…>"),
                ("a::b::operator<<(std::ostream&, int)", "a::b::operator<<"),
                ("std::function<void ()>::operator()() const", "std::function<void ()>::operator()"),
                ("a::b::~b()", "a::b::~b"), ("f::$_0::operator()() const", "f::$_0"), ("f(int)", "f"),
                ("a" * 300, "a" * 160 + "…"),
                # Go's, and those that programs give.
                *[(name, name) for name in ("main", "main.(*T).method", "main.Map[go.shape.int]", "server",
                                            "worker 3 (retry)", "to [::1]:8080", "to fe80::1", "")]]:
            self.assertEqual(page.evaluate(f"shortName({json.dumps(name)})"), short)

    def test_reads_what_the_tool_reads(self):
        made = self.path / "made.trace"
        subprocess.run([MAKE_TRACE, str(made), "20000", "9", "3", "300", "5"], check=True)
        for trace in [*sorted(DATA.glob("*.trace")), made]:
            page = self.page_of(trace)
            self.assertIsNone(page.evaluate("app.model.error"))
            summary = subprocess.run([MAGPIE, "trace", "summary", str(trace)], check=True, capture_output=True,
                                     text=True).stdout
            for name in ("running", "runnable", "waiting", "syscall"):
                value, unit = re.search(rf"^  {name} +([\d.e+]+)(ns|us|ms|s) ", summary, re.MULTILINE).groups()
                nanos = float(value) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit]
                ours = page.evaluate(f"app.questions.total[STATE_NAMES.indexOf('{name}')]")
                # The tool prints three digits, and puts a nanosecond between events of one moment.
                self.assertAlmostEqual(ours, nanos, delta=nanos * 0.01 + 20000, msg=f"{trace.name} {name}")
            for p, running, calls in re.findall(r"^  P (\d+) +[\d.]+% +([\d.]+)% +([\d.]+)%", summary, re.MULTILINE):
                row = f"app.model.pRows[app.model.ps.indexOf({p})]"
                for said, ours in ((calls, f"{row}.calls.at(-1)"), (running, f"({row}.used.at(-1) - {row}.calls.at(-1))")):
                    self.assertAlmostEqual(100 * page.evaluate(f"{ours} / app.model.end"), float(said), delta=0.3, msg=f"P {p}")
            if trace != made:  # whose direct switches the tool counts as three
                self.assertIn(f" {page.evaluate('app.model.events')} events", summary)
            # A row's sums are the sums of its bars.
            self.assertLess(page.evaluate("""Math.max(...app.model.pRows.map(row => {
              const from = app.model.end * 0.31, to = app.model.end * 0.77;
              let time = 0;
              for (let i = 0; i < row.begin.length; i++) {
                time += Math.max(0, Math.min(row.end[i], to) - Math.max(row.begin[i], from));
              }
              return Math.abs(time - app.timeline.used(row, from, to));
            }))"""), 1)
            self.assertEqual(page.errors(), [])

    def test_a_file_can_be_chosen_in_the_page_as_it_lies_in_the_repository(self):
        page = self.browser.page(*WIDE)
        page.open((REPOSITORY / "viewer" / "index.html").as_uri())
        self.assertTrue(page.evaluate("!byId('welcome').hidden && byId('tabs').hidden"))
        self.picture(page, "welcome")
        document = page.call("DOM.getDocument")["root"]["nodeId"]
        node = page.call("DOM.querySelector", nodeId=document, selector="#choose")["nodeId"]
        page.call("DOM.setFileInputFiles", files=[str(DATA / "go_network.trace")], nodeId=node)
        page.wait_for("app.model !== null")
        self.assertEqual(page.evaluate("app.model.events"), 3346)
        self.assertEqual(page.evaluate("byId('file').textContent"), "go_network.trace")
        self.assertEqual(page.errors(), [])

    def test_a_file_can_be_dropped(self):
        page = self.browser.page(*WIDE)
        page.open((REPOSITORY / "viewer" / "index.html").as_uri())
        numbers = ",".join(map(str, (DATA / "go_exec.trace").read_bytes()))
        page.evaluate(f"""(() => {{
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array([{numbers}])], 'dropped.trace'));
          for (const kind of ['dragenter', 'dragover', 'drop']) {{
            dispatchEvent(Object.assign(new DragEvent(kind, {{dataTransfer: data, cancelable: true}})));
          }}
        }})()""")
        page.wait_for("app.model !== null")
        self.assertEqual(page.evaluate("app.model.events"), 240)
        self.assertFalse(page.evaluate("document.body.classList.contains('dragging')"))

    def test_the_tool_serves_it(self):
        with subprocess.Popen([MAGPIE, "trace", "view", "--no-browser", str(DATA / "go_procs.trace")],
                              stdout=subprocess.PIPE, text=True) as server:
            try:
                address = re.search(r"http://\S+/", server.stdout.readline()).group()
                page = self.browser.page(*WIDE)
                page.open(address)
                page.wait_for("app.model !== null")
                self.assertEqual(page.evaluate("app.model.events"), 1424)
                self.assertEqual(page.errors(), [])
            finally:
                server.terminate()

    def test_keys_and_mouse(self):
        page = self.page_of(DATA / "go_network.trace")
        self.settle(page)
        goal = lambda: json.loads(page.evaluate("JSON.stringify(app.timeline.goal)"))
        whole = goal()
        page.key("w")
        page.key("w")
        self.settle(page)
        closer = goal()
        self.assertLess(closer["to"] - closer["from"], 0.6 * whole["to"])
        page.key("d")
        self.assertGreater(goal()["from"], closer["from"])
        page.key("a")
        page.key("s")
        page.key("0")
        self.settle(page)
        self.assertEqual(goal(), whole)
        page.mouse("mouseWheel", 600, 300, deltaX=0, deltaY=-200, modifiers=2)
        self.assertLess(goal()["to"] - goal()["from"], whole["to"])

        # A click on a bar selects it; a step goes to what the goroutine did next; f fills the view.
        bar = json.loads(page.evaluate("""(() => {
          const row = app.model.pRows[app.timeline.pOrder[0]];
          let best = 0;
          for (let i = 0; i < row.begin.length; i++) if (row.end[i] - row.begin[i] > row.end[best] - row.begin[best]) best = i;
          app.timeline.look(row.begin[best] - 1000, row.end[best] + 1000, true);
          app.timeline.drawNow();
          const box = byId('timeline').getBoundingClientRect();
          const place = app.timeline.rows[app.timeline.rowOfP.get(app.timeline.pOrder[0])];
          return JSON.stringify({x: box.left + app.timeline.x((row.begin[best] + row.end[best]) / 2),
                                 y: box.top + app.timeline.y(place) + place.height / 2, span: row.index[best]});
        })()"""))
        page.click(bar["x"], bar["y"])
        self.assertEqual(page.evaluate("app.timeline.selected"), bar["span"])
        self.assertIn("main.", page.evaluate("byId('details').textContent"))
        page.mouse("mouseMoved", bar["x"] + 3, bar["y"])
        self.assertFalse(page.evaluate("byId('tip').hidden"))
        self.picture(page, "selected")
        page.key("]")
        self.assertEqual(page.evaluate("app.model.before[app.timeline.selected]"), bar["span"])
        page.key("[")
        page.key("f")
        self.assertEqual(page.evaluate("app.timeline.selected"), bar["span"])
        page.key("Escape")
        self.assertEqual(page.evaluate("app.timeline.selected"), -1)

        # Dragging moves; with shift it measures.
        self.settle(page)
        before = goal()
        page.drag(500, 400, 700, 400)
        self.assertLess(goal()["from"], before["from"])
        page.drag(300, 400, 600, 400, modifiers=8)
        self.assertIn("Ps used", page.evaluate("byId('details').textContent"))
        self.assertEqual(page.errors(), [])

    def test_keys_zoom_where_the_pointer_is(self):
        page = self.page_of(DATA / "go_network.trace")
        self.settle(page)
        page.mouse("mouseMoved", 300, 700)  # below all rows
        under_pointer = "app.timeline.timeAt(300)"
        before = page.evaluate(under_pointer)
        page.key("w")
        self.settle(page)
        self.assertAlmostEqual(page.evaluate(under_pointer), before, delta=before / 100)

    # As somebody without a mouse uses it.
    def test_the_keyboard_is_enough(self):
        page = self.page_of(DATA / "go_network.trace")
        self.settle(page)
        page.key(".")
        first = page.evaluate("app.timeline.selected")
        self.assertEqual(first, page.evaluate("app.timeline.firstInView()"))
        page.key(".")
        second = page.evaluate("app.timeline.selected")
        self.assertNotEqual(first, second)
        self.assertEqual(page.evaluate(f"app.model.span.p[{first}]"), page.evaluate(f"app.model.span.p[{second}]"))
        self.assertGreaterEqual(page.evaluate(f"app.model.span.begin[{second}]"), page.evaluate(f"app.model.span.end[{first}]"))
        page.key(",")
        self.assertEqual(page.evaluate("app.timeline.selected"), first)
        self.assertEqual(page.evaluate("app.timeline.pinned.length"), 0)
        page.key("Escape")

        page.evaluate("byId('tabs').children[0].focus()")
        for expected in ("goroutines", "time"):
            page.key("ArrowRight")
            self.assertEqual(page.evaluate("app.view"), expected)
            self.assertEqual(page.evaluate("document.activeElement.dataset.view"), expected)
        page.key("ArrowLeft")
        head = "document.querySelector('#view-goroutines th button')"
        self.assertEqual(page.evaluate(f"{head}.tabIndex"), 0)
        page.evaluate(f"{head}.click()")
        self.assertEqual(page.evaluate(f"{head}.parentNode.getAttribute('aria-sort')"), "ascending")
        self.assertEqual(page.errors(), [])

    # Two goroutines that take turns: each does everything in stretches too short to be drawn one by one.
    def ping_pong(self, turns):
        trace = Handmade(step=2)
        pong, where, why = trace.stack(["pong"]), trace.stack(["magpie::receive", "play", "ping"]), trace.string("chan receive")
        trace.m(1, 13, 0, 1)            # P 0 runs on thread 1,
        trace.m(1, 25, 1, 1, 2)         # and goroutine 1 there
        trace.m(1, 14, 2, pong, where)
        trace.m(1, 20, why, where)
        numbers = {1: 0, 2: 0}
        for turn in range(turns):
            self_, other = (2, 1) if turn % 2 == 0 else (1, 2)
            numbers[self_] += 1
            trace.m(1, 16, self_, numbers[self_])
            numbers[other] += 1
            trace.m(1, 21, other, numbers[other], where)
            trace.m(1, 20, why, where)
        file = self.path / "ping_pong.trace"
        file.write_bytes(trace.bytes())
        return file

    def test_a_row_of_short_stretches_is_not_empty(self):
        page = self.page_of(self.ping_pong(20000))
        page.evaluate("app.timeline.pin(0)")
        page.evaluate("app.timeline.drawNow()")
        empty = page.evaluate("""(() => {
          const timeline = app.timeline, row = timeline.rows.find(row => row.kind === 'g'), canvas = timeline.canvas;
          const y = Math.round(timeline.y(row) + row.height / 2), left = Math.ceil(timeline.gutter);
          const {data} = canvas.getContext('2d').getImageData(left, y, canvas.width - left, 1);
          let empty = 0;
          for (let x = 0; x < data.length; x += 4) empty += data[x + 3] === 0;
          return empty;
        })()""")
        self.assertLess(empty, 4)
        # Where it waits is said with who called that.
        page.evaluate("byId('tabs').querySelector('[data-view=time]').click()")
        self.assertIn("magpie::receivechan receive · play file.cpp:7", page.evaluate("byId('view-time').textContent"))

    def test_what_comes_after_a_stretch(self):
        page = self.page_of(self.ping_pong(50))
        self.assertTrue(page.evaluate("""[...app.model.g.id.keys()].every(g => {
          const list = [...app.questions.spansOf(g)];
          return list.every((span, i) => app.questions.after(span) === (i + 1 < list.length ? list[i + 1] : -1));
        })"""))

    # Names are texts, however long and whatever is in them.
    def test_names_do_no_harm(self):
        trace = Handmade()
        evil = "<img src=x onerror=hacked=1><script>hacked=1</script>&lt;\u202e\"'"
        endless = "namespace_" * 100
        names = [trace.stack([evil, evil]), trace.stack([endless, endless]), trace.stack([b"\xff\xfe\x00\x1b[2J"])]
        trace.m(1, 13, 0, 1)
        trace.m(1, 25, 1, 1, 2)
        for number, name in enumerate(names, 2):
            trace.m(1, 14, number, name, names[0])
        for text in (evil, endless):
            trace.m(1, 40, 7 + len(text), 0, trace.string(text), names[0])       # a task, a region, a log line
            trace.m(1, 42, 0, trace.string(text), names[0])
            trace.m(1, 44, 0, trace.string(text), trace.string(text), names[0])
        trace.m(1, 20, trace.string(evil), names[1])
        for number in range(2, 5):
            trace.m(1, 16, number, 1)
            trace.m(1, 20, trace.string(endless), names[1])
        file = self.path / "evil.trace"
        file.write_bytes(trace.bytes())
        for size in (WIDE, NARROW):
            page = self.page_of(file, size)
            self.assertEqual(page.evaluate("app.model.g.id.length"), 4)
            for view in ("timeline", "goroutines", "time", "latency", "notes"):
                page.evaluate(f"byId('tabs').querySelector('[data-view={view}]').click()")
                self.assertLessEqual(page.evaluate(f"byId('view-{view}').scrollWidth"), size[0], view)
            for g in range(4):
                page.evaluate(f"app.showGoroutine({g})")
                self.assertLessEqual(page.evaluate("byId('details').scrollWidth"), size[0])
                self.assertLessEqual(page.evaluate("byId('details').scrollWidth"), page.evaluate("byId('details').clientWidth"))
                page.evaluate(f"app.go.goroutine({g})")
                self.assertLessEqual(page.evaluate("byId('view-goroutines').scrollWidth"), size[0])
            page.evaluate("app.showFound('n')")
            self.picture(page, f"evil_{size[0]}")
            page.evaluate("app.showFound('<')")
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), size[0])
            self.assertEqual(page.evaluate("document.querySelectorAll('img, script:not([src]):empty').length"), 0)
            self.assertEqual(page.evaluate("typeof hacked"), "undefined")
            self.assertEqual(page.errors(), [])

    def test_a_trace_without_goroutines_can_be_looked_at(self):
        trace = Handmade()
        trace.m(1, 13, 0, 1)
        trace.m(1, 11)
        file = self.path / "idle.trace"
        file.write_bytes(trace.bytes())
        page = self.page_of(file)
        for view in ("timeline", "goroutines", "time", "latency"):
            page.evaluate(f"byId('tabs').querySelector('[data-view={view}]').click()")
            self.picture(page, f"idle_{view}")
        for key in ("1", "w", "s", "a", "d", "[", "]", ",", ".", "f", "0", "/"):
            page.key(key)
        self.assertIn("no goroutine", page.evaluate("byId('view-goroutines').textContent").lower())
        self.assertEqual(page.errors(), [])

    # A label is not cut by the edge of the picture, and nothing is painted over it.
    def test_labels_of_times_are_whole(self):
        page = self.page_of(DATA / "go_network.trace")
        self.settle(page)
        found = json.loads(page.evaluate("""(() => {
          const timeline = app.timeline, context = timeline.canvas.getContext('2d');
          const found = {measured: 0, cut: []};
          let texts = [];
          context.fillText = (text, x, y) => texts.push({text, x, y, width: context.measureText(text).width});
          context.fillRect = (x, y, width, height) => { texts = texts.filter(each =>
              !(x < each.x && each.x < x + width && y < each.y && each.y < y + height)); };
          timeline.measured = {from: app.model.end * 0.3, to: app.model.end * 0.6};
          const measure = duration(timeline.measured.to - timeline.measured.from);
          for (let i = 0; i < 40; i++) {
            timeline.view = {from: 0, to: app.model.end * (0.7 + i / 200)};
            texts = [];
            timeline.drawNow();
            found.measured += texts.filter(each => each.text === measure).length;
            found.cut.push(...texts.filter(each => each.y < 26 && each.x + each.width > timeline.canvas.clientWidth));
          }
          delete context.fillText;
          delete context.fillRect;
          return JSON.stringify(found);
        })()"""))
        self.assertEqual(found["measured"], 40)
        self.assertEqual(found["cut"], [])

    def test_the_life_of_a_goroutine_fills_its_picture_in_the_colours_of_the_theme(self):
        page = self.page_of(DATA / "go_network.trace")
        page.evaluate("app.theme('light')")
        short = page.evaluate("""(() => {
          const length = g => app.model.g.died[g] - app.model.g.born[g];
          const lives = [...app.model.g.id.keys()].filter(g => app.model.g.born[g] > 0 && app.model.g.died[g] > 0);
          return lives.sort((a, b) => length(a) - length(b))[0];
        })()""")
        page.evaluate(f"app.go.goroutine({short})")
        columns = """(() => {
          const canvas = document.querySelector('canvas.life'), context = canvas.getContext('2d');
          const {data, width} = context.getImageData(0, canvas.height - 1, canvas.width, 1) , back = palette().hover;
          let used = 0;
          for (let x = 0; x < width; x++) used += `#${[0, 1, 2].map(i => data[4 * x + i].toString(16).padStart(2, '0')).join('')}` !== back;
          return used / width;
        })()"""
        page.wait_for(f"{columns} > 0.95")
        corner = "document.querySelector('canvas.life').getContext('2d').getImageData(1, 1, 1, 1).data.join()"
        light = page.evaluate(corner)
        page.evaluate("app.theme('dark')")
        self.assertNotEqual(page.evaluate(corner), light)

    # As WCAG counts it; 4.5 is what it asks for.
    def test_texts_can_be_read(self):
        page = self.page_of(DATA / "go_annotated.trace")
        for theme in ("light", "dark"):
            page.evaluate(f"app.theme('{theme}')")
            pairs = [("ink", "paper"), ("soft", "paper"), ("soft", "back"), ("faint", "paper"), ("accent", "paper"),
                     ("bad", "bad-back"), *((f"on-{state}", state) for state in ("running", "runnable", "syscall"))]
            for text, back in pairs:
                contrast = page.evaluate(f"""(() => {{
                  const style = getComputedStyle(document.documentElement);
                  const light = name => {{
                    const hex = style.getPropertyValue('--' + name).trim();
                    const part = i => parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16) / 255;
                    const [r, g, b] = [0, 1, 2].map(part).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
                    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
                  }};
                  const [low, high] = [light('{text}'), light('{back}')].sort((a, b) => a - b);
                  return (high + 0.05) / (low + 0.05);
                }})()""")
                self.assertGreaterEqual(contrast, 4.5, f"{text} on {back}, {theme}")

    # Regions have a line of their own below the goroutine, with their names.
    def test_places_that_read_the_same_are_one(self):
        trace = Handmade()
        stacks = [trace.stack(["magpie::net::stream::read", library, "serve(int)"])
                  for library in ("magpie::net::once", "magpie::net::again")]
        trace.m(1, 13, 0, 1)
        trace.m(1, 25, 1, 1, 2)
        for number in (2, 3):
            trace.m(1, 14, number, stacks[0], stacks[0])
        trace.m(1, 20, trace.string("network"), stacks[0])
        for number, stack in zip((2, 3), stacks):
            trace.m(1, 16, number, 1)
            trace.m(1, 20, trace.string("network"), stack)
        file = self.path / "places.trace"
        file.write_bytes(trace.bytes())
        page = self.page_of(file)
        page.evaluate("byId('tabs').querySelector('[data-view=time]').click()")
        rows = json.loads(page.evaluate("""JSON.stringify([...document.querySelectorAll('#view-time td.mono')].map(
            cell => cell.textContent + ' ' + cell.nextSibling.textContent))"""))
        self.assertEqual(rows, ["magpie::net::stream::readnetwork · serve file.cpp:7 3"])
        self.assertEqual(page.errors(), [])

    def test_regions_are_named(self):
        page = self.page_of(DATA / "go_annotated.trace")
        texts = json.loads(page.evaluate("""(() => {
          const timeline = app.timeline, context = timeline.canvas.getContext('2d'), texts = [];
          const region = app.model.regions.reduce((a, b) => b.end - b.begin > a.end - a.begin ? b : a);
          timeline.pin(region.g);
          timeline.look(region.begin, region.end, true);
          context.fillText = text => texts.push(text);
          timeline.drawNow();
          delete context.fillText;
          return JSON.stringify([app.model.strings[region.name], ...texts]);
        })()"""))
        self.assertIn(texts[0], texts[1:])

    def test_what_is_found_is_seen_on_a_phone(self):
        page = self.page_of(DATA / "go_annotated.trace", NARROW)
        self.assertLessEqual(page.evaluate("byId('tabs').scrollWidth"), page.evaluate("byId('tabs').clientWidth"))
        page.key("/")
        page.key("a")
        page.wait_for("!byId('found').hidden")
        for side, sign in (("left", 1), ("right", -1)):
            self.assertGreaterEqual(sign * page.evaluate(f"byId('found').getBoundingClientRect().{side}"),
                                    0 if side == "left" else -390)

    def test_names_that_differ_in_their_ends_can_be_told_apart_in_what_is_found(self):
        trace = Handmade()
        lambdas = "a_server::serve_connections()::{lambda()#1}::operator()() const::{lambda()#1}::operator()() const"
        names = [trace.stack([f"{lambdas}::{{lambda()#{number}}}"]) for number in (1, 2)]
        trace.m(1, 13, 0, 1)
        trace.m(1, 25, 1, 1, 2)
        for number, name in enumerate(names, 2):
            trace.m(1, 14, number, name, names[0])
        file = self.path / "lambdas.trace"
        file.write_bytes(trace.bytes())
        for size in (WIDE, NARROW):
            page = self.page_of(file, size)
            page.evaluate("app.showFound('lambda')")
            cut = "[...document.querySelectorAll('#found .text')].filter(e => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight)"
            self.assertEqual(page.evaluate("document.querySelectorAll('#found .text').length"), 2)
            self.assertEqual(page.evaluate(f"{cut}.length"), 0)
            self.assertEqual(page.errors(), [])

    def test_search(self):
        page = self.page_of(DATA / "go_annotated.trace")
        found = lambda text: json.loads(page.evaluate(f"JSON.stringify(app.find({json.dumps(text)}).map(each => each.kind))"))
        self.assertEqual(found("g1")[0], "goroutine")
        self.assertIn("function", found("main.annotated"))
        self.assertIn("wait", found("sleep"))
        self.assertIn("log", found("number 7"))
        self.assertIn("task", found("request batch"))
        self.assertEqual(found("no such thing"), [])
        page.key("/")
        for letter in "annotated.f":
            page.key(letter)
        page.wait_for("!byId('found').hidden")
        self.picture(page, "search")
        page.key("Enter")
        page.wait_for("!byId('view-goroutines').hidden")
        self.assertIn("main.annotated.func1", page.evaluate("byId('view-goroutines').textContent"))
        self.assertEqual(page.errors(), [])

    def test_every_view_fits_wide_and_narrow_light_and_dark(self):
        for size, wide in ((WIDE, "wide"), (NARROW, "narrow")):
            page = self.page_of(DATA / "go_annotated.trace", size)
            for theme in ("light", "dark"):
                page.evaluate(f"app.theme('{theme}')")
                for view in ("timeline", "goroutines", "time", "latency", "notes"):
                    page.evaluate(f"byId('tabs').querySelector('[data-view={view}]').click()")
                    self.assertEqual(page.evaluate("app.view"), view)
                    self.assertGreater(page.evaluate(f"byId('view-{view}').textContent.length"), 40)
                    self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), size[0], view)
                    self.assertLessEqual(page.evaluate(f"byId('view-{view}').scrollWidth"), size[0], view)
                    self.picture(page, f"{view}_{wide}_{theme}")
                page.evaluate("app.go.goroutine(0)")
                self.assertLessEqual(page.evaluate("byId('view-goroutines').scrollWidth"), size[0])
                self.picture(page, f"goroutine_{wide}_{theme}")
            self.assertEqual(page.errors(), [])

    def test_broken_files_are_explained(self):
        whole = (DATA / "go_spin.trace").read_bytes()
        for name, content, said, shown in [
                ("empty", b"", "cannot be shown. The file is empty.", False),
                ("text", b"hello, world, this is not a trace", "cannot be shown. This is not a trace: it does", False),
                ("few_letters", b"go to", "This is not a trace", False),
                ("cut_header", whole[:11], "cut at byte 11, as when a process is killed while it writes (the file ends "
                 "in its header). Nothing whole", False),
                ("only_header", whole[:16], "has nothing in it", False),
                ("future", b"go 1.99 trace\0\0\0", "version go 1.99", False),
                ("cut", whole[:-50], "The end of this trace is missing", True),
                ("cut_early", whole[:300], "Nothing whole comes before that", False),
                ("wrong", whole[:16] + b"w" + whole[17:], "here should be a batch", False)]:
            trace = self.path / f"{name}.trace"
            trace.write_bytes(content)
            page = self.page_of(trace, code=0 if shown else 1)
            self.assertFalse(page.evaluate("byId('banner').hidden"), name)
            self.assertIn(said, page.evaluate("byId('banner').textContent"))
            self.assertEqual(page.evaluate("app.model !== null"), shown, name)
            self.assertEqual(page.evaluate("byId('welcome').hidden"), shown, name)
            self.picture(page, f"broken_{name}")
            self.assertEqual(page.errors(), [])

    # And in the same words.
    def test_knows_cut_files_as_the_tool_does(self):
        page = self.browser.page(*WIDE)
        page.open((REPOSITORY / "viewer" / "index.html").as_uri())
        made, cut = self.path / "made23.trace", self.path / "some.trace"
        subprocess.run([MAKE_TRACE, str(made), "3000", "5", "3", "100", "3"], check=True)
        for trace in (DATA / "go_procs.trace", made):
            whole = trace.read_bytes()
            page.evaluate(f"whole = Uint8Array.from(atob('{base64.b64encode(whole).decode()}'), c => c.charCodeAt(0))")
            for size in [*range(1, 80, 3), *range(80, len(whole), len(whole) // 40)]:
                cut.write_bytes(whole[:size])
                end = subprocess.run([MAGPIE, "trace", "check", str(cut)], capture_output=True, text=True)
                ours = json.loads(page.evaluate(f"""(() => {{
                  const steps = traceReader().readTrace(whole.subarray(0, {size}));
                  for (;;) {{ const {{value, done}} = steps.next(); if (done) return JSON.stringify(value.error); }}
                }})()"""))
                if ours is None:
                    self.assertTrue(end.returncode == 0 or "nothing in it" in end.stderr, end.stderr)
                    continue
                self.assertEqual(end.returncode, 1, f"{trace.name} {size}: {ours}")
                self.assertEqual(ours["cut"], "the end is missing" in end.stderr, end.stderr)
                if ours["cut"]:
                    self.assertIn(f"cut at byte {ours['offset']},", end.stderr)
                    self.assertIn(f" writes ({ours['what']}); before", end.stderr)

    # Bytes changed at random: an explanation or a picture, never an exception.
    def test_survives_damage(self):
        page = self.browser.page(*WIDE)
        page.open((REPOSITORY / "viewer" / "index.html").as_uri())
        for name in ("go_procs", "go_gc", "go_annotated"):
            numbers = ",".join(map(str, (DATA / f"{name}.trace").read_bytes()))
            self.assertEqual(page.evaluate(f"""(() => {{
              const whole = new Uint8Array([{numbers}]);
              let seed = 1;
              const random = below => (seed = (seed * 48271) % 2147483647) % below;
              for (let round = 0; round < 400; round++) {{
                const bytes = whole.slice(0, round % 7 === 0 ? random(whole.length) : whole.length);
                for (let i = random(4); i >= 0; i--) bytes[random(bytes.length)] = random(256);
                try {{
                  const steps = traceReader().readTrace(bytes);
                  while (!steps.next().done) {{}}
                }} catch (error) {{
                  return `round ${{round}}: ${{error.stack}}`;
                }}
              }}
              return 'fine';
            }})()"""), "fine")

    def test_large_traces_stay_smooth(self):
        large = self.path / "large.trace"
        subprocess.run([MAKE_TRACE, str(large), "300000", "16", "8", "2000"], check=True)
        page = self.page_of(large)
        frames = json.loads(page.evaluate("""(async () => {
          const timeline = app.timeline, result = [];
          for (const share of [1, 0.1, 0.01, 0.001]) {
            timeline.frames = [];
            for (let i = 0; i < 10; i++) {
              const from = app.model.end * (0.3 + i * share / 100);
              timeline.look(from, from + app.model.end * share, true);
              await new Promise(requestAnimationFrame);
              await new Promise(requestAnimationFrame);
            }
            result.push(timeline.frames.sort((a, b) => a - b)[timeline.frames.length >> 1]);
          }
          return JSON.stringify(result);
        })()"""))
        print(f"read {page.evaluate('app.model.events')} events in {page.evaluate('app.readTime'):.0f} ms; "
              f"a frame of all, 1/10, 1/100, 1/1000: {', '.join(f'{each:.1f}' for each in frames)} ms")
        # A guard against work that grows with the trace; a busy machine has room.
        self.assertLess(max(frames), 500)
        self.assertEqual(page.errors(), [])


if __name__ == "__main__":
    if not find_browser():
        print("skipped: Chromium is not installed")
        sys.exit(0)
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
