// The page itself: opening traces, switching between views, selecting, searching, keys.
'use strict';

const byId = id => document.getElementById(id);

const VIEWS = [
  {name: 'timeline', text: 'Timeline'},
  {name: 'goroutines', text: 'Goroutines'},
  {name: 'time', text: 'Where time goes', short: 'Totals'},
  {name: 'latency', text: 'Latency'},
  {name: 'notes', text: 'Tasks and logs', short: 'Logs'},
];

class App {
  constructor() {
    this.model = null;
    this.view = 'timeline';
    this.timeline = new Timeline(byId('timeline'), byId('overview'), {
      select: span => this.select(span),
      measure: (from, to) => this.showMeasure(from, to),
      hint: (span, event) => this.hint(span, event),
    });
    this.go = {
      goroutine: g => this.open('goroutines', () => goroutinePage(this.model, this.questions, this.go, g)),
      group: (name, back) => back && this.lonely(name) ? this.go.goroutines()
          : this.open('goroutines', () => groupPage(this.model, this.questions, this.go, name)),
      goroutines: () => this.open('goroutines'),
      span: span => {
        this.switchTo('timeline');
        this.timeline.pin(this.model.span.g[span]);
        this.select(span);
        this.timeline.reveal(span);
      },
      pin: g => this.showGoroutine(g),
      
      moment: (g, time) => {
        const spans = this.questions.spansOf(g);
        const place = spans.findIndex(span => this.model.span.end[span] >= time);
        this.go.span(spans[place < 0 ? spans.length - 1 : place]);
      },
      stretch: (g, from, to) => {
        this.switchTo('timeline');
        this.timeline.pin(g);
        this.timeline.measured = {from, to};
        this.timeline.look(from - (to - from) * 0.3, to + (to - from) * 0.3);
        this.showMeasure(from, to);
      },
    };
    this.listen();
    this.theme(this.remembered());
  }

  // A trace, from wherever it comes.

  async start() {
    const given = byId('trace');
    if (!given) return;
    const name = given.dataset.name || 'trace';
    try {
      if (given.dataset.path) {
        this.wait(`Fetching ${name}`);
        const answer = await fetch(given.dataset.path);
        if (!answer.ok) throw new Error(`the server says ${answer.status}`);
        await this.read(name, new Uint8Array(await answer.arrayBuffer()));
      } else {
        this.wait(`Reading ${name}`);
        const text = given.textContent.replace(/\s+/g, '');
        given.remove();
        await this.read(name, decodeBase64(text));
      }
    } catch (error) {
      this.fail(`${name} cannot be opened: ${error.message}.`);
    }
  }

  async openFile(file) {
    this.wait(`Reading ${file.name}`);
    try {
      await this.read(file.name, new Uint8Array(await file.arrayBuffer()));
    } catch (error) {
      this.fail(`${file.name} cannot be read: ${error.message}.`);
    }
  }

  async read(name, bytes) {
    this.wait(`Reading ${name}`);
    const began = performance.now();
    const model = await parse(bytes, share => { byId('progress').value = share; });
    this.readTime = performance.now() - began;
    if (model.events === 0) {
      this.fail(model.error
          ? `${name} cannot be shown. ${explain(model.error)}${model.error.cut ? ' Nothing whole comes before that.' : ''}`
          : `${name} has nothing in it: the process ended before the first second was written, or one that it ` +
            'started has overwritten the file (%p in MAGPIE_TRACE keeps them apart).');
      return;
    }
    this.show(name, model);
  }

  wait(text) {
    byId('welcome').hidden = true;
    for (const {name} of VIEWS) byId(`view-${name}`).hidden = true;
    byId('banner').hidden = true;
    byId('loading').hidden = false;
    byId('loading-text').textContent = text;
    byId('progress').value = 0;
  }
  fail(text) {
    byId('loading').hidden = true;
    byId('welcome').hidden = false;
    byId('banner').hidden = false;
    fill(byId('banner'), text);
    byId('tabs').hidden = byId('search').hidden = true;
    this.model = null;
  }

  show(name, model) {
    this.model = model;
    this.questions = new Questions(model);
    this.pages = {};
    byId('loading').hidden = true;
    const file = byId('file');
    file.textContent = name;
    file.title = [name, plural(model.events, 'event'), duration(model.end),
                  plural(model.generations, 'generation'), `go 1.${model.version}`].join(' · ');
    document.title = `${name} · magpie trace`;
    byId('banner').hidden = !model.error;
    if (model.error) {
      fill(byId('banner'),
           element('button', {class: 'close', 'aria-label': 'Close', click: () => { byId('banner').hidden = true; }}, '×'),
           element('b', {}, model.error.cut ? 'The end of this trace is missing. ' : 'The file is broken. '),
           `${explain(model.error)} Shown is all that came before: ${plural(model.events, 'event')}.`);
    }
    byId('search').hidden = false;
    const notes = model.tasks.length + model.regions.length + model.logs.length > 0;
    this.views = VIEWS.filter(view => view.name !== 'notes' || notes);
    const tabs = byId('tabs');
    tabs.hidden = false;
    fill(tabs, this.views.map(view => element('button', {
      type: 'button', role: 'tab', 'data-view': view.name,
      click: () => view.name === 'timeline' ? this.switchTo('timeline') : this.open(view.name),
    }, element('span', {class: view.short && 'tab-long'}, view.text),
       view.short && element('span', {class: 'tab-short', 'aria-hidden': true}, view.short))));
    this.legend();
    this.switchTo('timeline');
    this.timeline.show(model, this.questions);
    this.select(-1);
  }

  legend() {
    const item = (colour, text) => element('span', {}, element('i', {style: `background:var(--${colour})`}), text);
    fill(byId('legend'), item('running', 'running'), item('syscall', 'in a system call'), item('runnable', 'runnable'),
         item('waiting', 'waiting'),
         element('span', {}, element('i', {class: 'line', style: 'background:var(--waiting)'}), 'P looks for work'),
         element('span', {}, '↝ wakes'),
         element('span', {class: 'push'}, 'w a s d to move · click a bar · shift-drag to measure'));
  }

  // Views.

  switchTo(name) {
    this.view = name;
    for (const view of VIEWS) byId(`view-${view.name}`).hidden = view.name !== name;
    for (const tab of byId('tabs').children) {
      tab.setAttribute('aria-selected', tab.dataset.view === name);
      if (tab.dataset.view === name) tab.scrollIntoView({inline: 'nearest', block: 'nearest'});
    }
    this.hint(-1, null);
    if (name === 'timeline') this.timeline.draw();
  }
  // Without `make`: the view's first page, made once.
  open(name, make) {
    const first = {goroutines: goroutinesPage, time: timePage, latency: latencyPage, notes: notesPage}[name];
    this.switchTo(name);
    const section = byId(`view-${name}`);
    fill(section, make ? make() : (this.pages[name] ||= first(this.model, this.questions, this.go).flat(2).filter(Boolean)));
    section.scrollTop = 0;
  }
  lonely(name) { return (this.questions.groups().find(group => group.name === name)?.members.length ?? 0) < 2; }

  showGoroutine(g) {
    this.switchTo('timeline');
    this.timeline.pin(g);
    const spans = this.questions.spansOf(g);
    const begin = this.model.span.begin[spans[0]], end = this.model.span.end[spans[spans.length - 1]];
    const running = spans.findIndex(span => this.model.span.what[span] === RUNNING);
    this.select(spans[Math.max(running, 0)]);
    this.timeline.look(begin - (end - begin) * 0.05, end + (end - begin) * 0.05);
  }

  // What is selected.

  select(span) {
    this.timeline.selected = span;
    this.timeline.draw();
    const details = byId('details');
    details.classList.toggle('nothing', span < 0);
    fill(details, span < 0 ? this.nothing() : this.describe(span));
    details.scrollTop = 0;
  }
  nothing() {
    const model = this.model;
    return [
      element('h2', {}, 'This trace'),
      facts([
        ['time', duration(model.end)],
        ['events', count(model.events)],
        ['goroutines', count(model.g.id.length)],
        ['Ps', count(model.ps.length)],
        ['threads', count(model.ms.length)],
        model.wall > 0 && ['began', new Date(model.wall).toLocaleString()],
      ]),
      element('h3', {}, 'Where time goes'),
      stateBar(this.questions.total),
      stateWords(this.questions.total),
      element('p', {class: 'soft'}, 'Click a bar to see what it is, who woke it and where it was.'),
    ];
  }
  describe(span) {
    const model = this.model, spans = model.span, questions = this.questions;
    const g = spans.g[span], what = spans.what[span], stack = spans.stack[span];
    const before = model.before[span], after = questions.after(span);
    const titles = {[RUNNABLE]: 'Where it was made runnable', [WAITING]: 'Where it waits', [SYSCALL]: 'Where it calls'};
    return [
      this.closeButton(),
      goroutineTitle(questions, g),
      facts([
        ['state', dot(what), questions.describe(span)],
        ['for', duration(spans.end[span] - spans.begin[span])],
        ['at', moment(spans.begin[span])],
        place(model, span) && ['on', place(model, span)],
        ...this.causeOf(span),
        what === SYSCALL && spans.p[span] >= 0 && spans.pEnd[span] < spans.end[span] &&
            ['lost its P after', duration(spans.pEnd[span] - spans.begin[span])],
      ]),
      element('div', {class: 'row-buttons'},
              element('button', {disabled: before < 0, click: () => this.step(before)}, '‹ before'),
              element('button', {disabled: after < 0, click: () => this.step(after)}, 'after ›'),
              element('button', {click: () => this.go.goroutine(g)}, 'Its life'),
              this.rowButton(g, span)),
      stack > 0 && element('h3', {}, titles[what] || 'Stack'),
      stack > 0 && stackList(model, stack),
      this.endOf(span, after),
    ];
  }
  // Why it runs, or wants to.
  causeOf(span) {
    const spans = this.model.span, before = this.model.before[span];
    let runnable = -1;
    if (spans.what[span] === RUNNABLE) runnable = span;
    else if (before >= 0 && spans.what[before] === RUNNABLE) runnable = before;
    if (runnable < 0) return [];
    const waker = spans.by[runnable], where = spans.byP[runnable];
    return [
      runnable !== span && ['was runnable for', duration(spans.end[runnable] - spans.begin[runnable])],
      [this.model.before[runnable] < 0 ? 'made by' : 'made runnable by',
       waker >= 0 ? goroutineLink(this.questions, this.go, waker) : cause(this.model, this.questions, runnable),
       waker < 0 && where >= 0 && `, on P ${this.model.ps[where]}`],
    ];
  }
  rowButton(g, span) {
    const pinned = this.timeline.pinned.includes(g);
    return element('button', {click: () => {
      if (pinned) this.timeline.unpin(g); else this.timeline.pin(g);
      this.select(span);
    }}, pinned ? 'Take its row away' : 'Give it a row');
  }
  closeButton() {
    return element('button', {class: 'close', 'aria-label': 'Close', click: () => {
      this.timeline.measured = null;
      this.select(-1);
    }}, '×');
  }
  // A turn has no stack of its own; the one it ended with says where it was.
  endOf(span, after) {
    const spans = this.model.span;
    if (spans.what[span] !== RUNNING || after < 0 || spans.stack[after] === 0) return null;
    return [element('h3', {}, `Then ${this.questions.describe(after)}`), stackList(this.model, spans.stack[after])];
  }
  step(span) {
    if (span < 0) return;
    this.timeline.pin(this.model.span.g[span]);
    this.choose(span);
  }
  choose(span) {
    if (span < 0) return;
    this.select(span);
    this.timeline.reveal(span);
  }

  showMeasure(from, to) {
    const model = this.model, spans = model.span, times = [0, 0, 0, 0], goroutines = new Set();
    for (let i = 0; i < spans.g.length; i++) {
      const part = Math.min(spans.end[i], to) - Math.max(spans.begin[i], from);
      if (part <= 0) continue;
      times[spans.what[i]] += part;
      if (spans.what[i] !== WAITING) goroutines.add(spans.g[i]);
    }
    this.timeline.selected = -1;
    this.timeline.draw();
    byId('details').classList.remove('nothing');
    const used = times[RUNNING] / Math.max(to - from, 1) / Math.max(model.ps.length, 1);
    fill(byId('details'),
         this.closeButton(),
         element('h2', {}, duration(to - from)),
         facts([
           ['from', moment(from)],
           ['to', moment(to)],
           ['awake', plural(goroutines.size, 'goroutine')],
           ['Ps used', percent(used)],
         ]),
         element('h3', {}, 'Time of goroutines in it'),
         stateBar(times),
         stateWords(times),
         element('div', {class: 'row-buttons'},
                 element('button', {click: () => this.timeline.look(from, to)}, 'Fill the view')));
  }

  hint(span, event) {
    const tip = byId('tip');
    tip.hidden = span < 0 || !event || event.pointerType === 'touch';
    if (tip.hidden) return;
    const spans = this.model.span, g = spans.g[span];
    const where = [`at ${moment(spans.begin[span])}`, place(this.model, span)].filter(Boolean);
    fill(tip,
         element('b', {}, `${this.questions.title(g)} ${this.questions.name(g)}`), element('br'),
         `${this.questions.describe(span)} for ${duration(spans.end[span] - spans.begin[span])} `, element('br'),
         element('span', {class: 'soft'}, where.join(' · ')));
    const box = tip.getBoundingClientRect(), below = event.clientY + 18;
    const top = below + box.height > innerHeight ? event.clientY - box.height - 10 : below;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - box.width - 8)}px`;
    tip.style.top = `${top}px`;
  }

  // Search.

  // What has `text` in its name: {kind, text, many: how many there are, pick: what to do with it},
  // the likeliest first.
  find(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [];
    return [this.findNumbered(wanted), this.findGroups(wanted), this.findReasons(wanted),
            this.findTasks(wanted), this.findLogs(wanted)].flatMap(list => list.slice(0, 20));
  }
  findNumbered(wanted) {
    const number = /^g?\s*(\d+)$/.exec(wanted);
    const g = number ? this.model.g.id.indexOf(Number(number[1])) : -1;
    if (g < 0) return [];
    return [{kind: 'goroutine', text: `${this.questions.title(g)} ${this.questions.name(g)}`,
             pick: () => this.showGoroutine(g)}];
  }
  findGroups(wanted) {
    return this.questions.groups().filter(group => `${group.text} ${group.full}`.toLowerCase().includes(wanted)).map(group => ({
      kind: 'function', text: group.text, many: plural(group.members.length, 'goroutine'),
      pick: () => this.go.group(group.name),
    }));
  }
  findReasons(wanted) {
    const {strings, span} = this.model, reasons = new Set();
    for (let i = 0; i < span.reason.length; i++) reasons.add(span.reason[i]);
    return [...reasons].filter(reason => strings[reason].toLowerCase().includes(wanted)).map(reason => ({
      kind: 'wait', text: strings[reason], pick: () => this.go.span(this.longest(reason)),
    }));
  }
  findTasks(wanted) {
    const {strings, tasks} = this.model;
    return tasks.filter(task => strings[task.name].toLowerCase().includes(wanted)).map(task => ({
      kind: 'task', text: `${strings[task.name]} ${task.id}`,
      pick: () => this.go.stretch(task.g, task.begin, task.end),
    }));
  }
  findLogs(wanted) {
    const {strings, logs} = this.model, text = line => `${strings[line.key]}: ${strings[line.value]}`;
    return logs.filter(line => text(line).toLowerCase().includes(wanted)).map(line => ({
      kind: 'log', text: text(line), pick: () => this.go.moment(line.g, line.time),
    }));
  }
  longest(reason) {
    const spans = this.model.span;
    let best = -1;
    for (let i = 0; i < spans.g.length; i++) {
      if (spans.reason[i] !== reason) continue;
      if (best < 0 || spans.end[i] - spans.begin[i] > spans.end[best] - spans.begin[best]) best = i;
    }
    return best;
  }
  showFound(text) {
    const list = byId('found');
    this.found = this.find(text);
    this.chosen = 0;
    list.hidden = !text.trim();
    const option = (each, i) => element('li', {
      role: 'option', 'aria-selected': i === 0,
      mousedown: event => {
        event.preventDefault();
        this.pick(i);
      },
    }, element('span', {class: 'kind'}, each.kind), element('span', {class: 'text'}, each.text),
       each.many && element('span', {class: 'many'}, each.many));
    fill(list, this.found.length > 0 ? this.found.map(option)
                                     : element('li', {class: 'none'}, 'Nothing with that name.'));
  }
  pick(i) {
    const each = this.found && this.found[i];
    byId('found').hidden = true;
    const input = byId('search').querySelector('input');
    input.blur();
    if (each) each.pick();
  }

  // Light and dark.

  remembered() {
    try {
      const kept = localStorage.getItem('magpie-theme');
      if (kept) return kept;
    } catch { /* pages from files may have no memory */ }
    return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  }
  theme(name) {
    document.documentElement.dataset.theme = name;
    this.timeline.recolour();
    for (const canvas of document.querySelectorAll('canvas.life')) canvas.dispatchEvent(new Event('recolour'));
    try { localStorage.setItem('magpie-theme', name); } catch { /* the same */ }
  }
  otherTheme() { this.theme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'); }

  listen() {
    byId('choose').addEventListener('change', event => event.target.files[0] && this.openFile(event.target.files[0]));
    byId('open').addEventListener('click', () => byId('choose').click());
    byId('theme').addEventListener('click', () => this.otherTheme());
    byId('help').addEventListener('click', () => byId('keys').showModal());
    const input = byId('search').querySelector('input');
    input.addEventListener('input', () => this.showFound(input.value));
    input.addEventListener('focus', () => input.value && this.showFound(input.value));
    input.addEventListener('blur', () => { byId('found').hidden = true; });
    input.addEventListener('keydown', event => this.searchKey(event, input));
    let inside = 0;
    addEventListener('dragenter', event => {
      event.preventDefault();
      inside++;
      document.body.classList.add('dragging');
    });
    addEventListener('dragover', event => event.preventDefault());
    addEventListener('dragleave', () => { if (--inside <= 0) document.body.classList.remove('dragging'); });
    addEventListener('drop', event => {
      event.preventDefault();
      inside = 0;
      document.body.classList.remove('dragging');
      if (event.dataTransfer.files[0]) this.openFile(event.dataTransfer.files[0]);
    });
    byId('tabs').addEventListener('keydown', event => this.tabKey(event));
    addEventListener('keydown', event => this.key(event));
  }
  tabKey(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!step) return;
    event.stopPropagation();
    const tabs = byId('tabs').children, here = [...tabs].indexOf(document.activeElement);
    const next = tabs[(here + step + tabs.length) % tabs.length];
    next.click();
    next.focus();
  }
  searchKey(event, input) {
    event.stopPropagation();
    if (event.key === 'Escape') input.blur();
    if (event.key === 'Enter') this.pick(this.chosen);
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
    event.preventDefault();
    const options = byId('found').children;
    this.chosen = Math.min(Math.max(this.chosen + (event.key === 'ArrowDown' ? 1 : -1), 0), options.length - 1);
    [...options].forEach((option, i) => option.setAttribute('aria-selected', i === this.chosen));
    options[this.chosen]?.scrollIntoView({block: 'nearest'});
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId('keys').open || !this.model) return;
    if (event.target instanceof HTMLInputElement) return;
    const timeline = this.timeline, key = event.key.toLowerCase();
    const number = Number(key);
    if (number >= 1 && number <= this.views.length) {
      byId('tabs').children[number - 1].click();
    } else if (key === '/') {
      event.preventDefault();
      byId('search').querySelector('input').focus();
    } else if (key === 't') {
      this.otherTheme();
    } else if (key === '?') {
      byId('keys').showModal();
    } else if (this.view === 'timeline') {
      this.timelineKey(event, key, timeline);
    }
  }
  timelineKey(event, key, timeline) {
    const selected = timeline.selected, spans = this.model.span;
    const actions = {
      w: () => timeline.zoomAtPointer(0.7), s: () => timeline.zoomAtPointer(1 / 0.7),
      a: () => timeline.move(-0.25), d: () => timeline.move(0.25),
      arrowleft: () => timeline.move(-0.1), arrowright: () => timeline.move(0.1),
      arrowup: () => timeline.scrollBy(-60), arrowdown: () => timeline.scrollBy(60),
      '0': () => timeline.look(0, this.model.end), home: () => timeline.look(0, this.model.end),
      '[': () => this.step(selected >= 0 ? this.model.before[selected] : timeline.firstInView()),
      ']': () => this.step(selected >= 0 ? this.questions.after(selected) : timeline.firstInView()),
      ',': () => this.choose(selected >= 0 ? timeline.besides(selected, -1) : timeline.firstInView()),
      '.': () => this.choose(selected >= 0 ? timeline.besides(selected, 1) : timeline.firstInView()),
      f: () => {
        if (timeline.measured) timeline.look(timeline.measured.from, timeline.measured.to);
        else if (selected >= 0) {
          const length = Math.max(spans.end[selected] - spans.begin[selected], SHORTEST);
          timeline.look(spans.begin[selected] - length * 0.15, spans.end[selected] + length * 0.15);
        }
      },
      escape: () => { timeline.measured = null; this.select(-1); },
    };
    if (!actions[key]) return;
    event.preventDefault();
    actions[key]();
  }
}

function explain({cut, offset, what}) {
  if (offset === 0) return `${what[0].toUpperCase()}${what.slice(1)}.`;
  if (!cut) return `At byte ${count(offset)}: ${what}.`.replace('..', '.');
  return `The file is cut at byte ${count(offset)}, as when a process is killed while it writes (${what}).`;
}

function decodeBase64(text) {
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

// Reads in a worker, so that the page stays alive; where there is none, in small steps.
async function parse(bytes, progress) {
  let worker = null;
  try {
    const source = `'use strict'; const reader = (${traceReader})(); onmessage = ${inWorker};`;
    worker = new Worker(URL.createObjectURL(new Blob([source], {type: 'text/javascript'})));
  } catch {
    return parseHere(bytes, progress);
  }
  return new Promise((resolve, reject) => {
    worker.onmessage = ({data}) => {
      if (data.progress !== undefined) return progress(data.progress);
      worker.terminate();
      return data.failure ? reject(new Error(data.failure)) : resolve(data.model);
    };
    worker.onerror = () => {
      worker.terminate();
      parseHere(bytes, progress).then(resolve, reject);
    };
    worker.postMessage(bytes);
  });
}

// Runs in the worker: it sees nothing of the page.
function inWorker({data: bytes}) {
  try {
    const steps = reader.readTrace(bytes);
    for (;;) {
      const {value, done} = steps.next();
      if (done) return postMessage({model: value}, reader.buffersOf(value));
      postMessage({progress: value});
    }
  } catch (error) {
    return postMessage({failure: error.message});
  }
}

async function parseHere(bytes, progress) {
  const steps = traceReader().readTrace(bytes);
  for (;;) {
    const {value, done} = steps.next();
    if (done) return value;
    progress(value);
    await new Promise(resolve => setTimeout(resolve));
  }
}

const app = new App();
app.start();
