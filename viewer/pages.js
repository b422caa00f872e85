// The pages beside the timeline: goroutines, where time goes, latency, and what the program said.
//
// Each is a function from the model to elements. `go` leads elsewhere: go.goroutine(g),
// go.span(span), go.group(name).
'use strict';

function stateBar(times, className = 'bar') {
  const all = times.reduce((sum, time) => sum + time, 0) || 1;
  return element('div', {class: className, role: 'img',
                         'aria-label': times.map((time, what) => `${STATE_NAMES[what]} ${percent(time / all)}`).join(', ')},
                 times.map((time, what) => time > 0 && element('i', {style: `width:${100 * time / all}%;background:var(--${STATE_NAMES[what]})`})));
}

// The mark of a state.
function dot(what) { return element('span', {class: 'dot', style: `background:var(--${STATE_NAMES[what]})`}); }

// Pairs of a word and what it is.
function facts(pairs) {
  return element('dl', {class: 'facts'}, pairs.filter(Boolean).map(([word, ...value]) =>
      [element('dt', {}, word), element('dd', {}, ...value)]));
}

function stateWords(times) {
  const all = times.reduce((sum, time) => sum + time, 0) || 1;
  return element('div', {class: 'split'}, times.map((time, what) =>
      element('span', {}, dot(what), `${STATE_NAMES[what]} `, element('b', {}, duration(time)), ` ${percent(time / all)}`)));
}

// columns: {text, number: is it one, value: row => what to sort by, cell: row => content, wide: hidden on phones}
function table(columns, rows, options = {}) {
  let sortBy = options.sortBy, rising = false, shown = options.shown || 50;
  const body = element('tbody'), more = element('button', {type: 'button', class: 'more', click: () => {
    shown *= 4;
    write();
  }});
  const heads = columns.map((column, i) => element('th', {
    class: [column.number && 'num', column.wide && 'wide'].filter(Boolean).join(' '),
    scope: 'col',
  }, column.value ? element('button', {type: 'button', class: 'sort', click: () => {
    rising = sortBy === i ? !rising : !column.number;
    sortBy = i;
    write();
  }}, column.text) : column.text));
  const write = () => {
    const sorted = [...rows];
    if (sortBy !== undefined) {
      const value = columns[sortBy].value;
      sorted.sort((a, b) => {
        const x = value(a), y = value(b);
        return (x < y ? -1 : x > y ? 1 : 0) * (rising ? 1 : -1);
      });
    }
    heads.forEach((head, i) => {
      head.removeAttribute('aria-sort');
      if (i === sortBy) head.setAttribute('aria-sort', rising ? 'ascending' : 'descending');
    });
    fill(body, sorted.slice(0, shown).map(row => element('tr', options.pick ? {
      class: 'pick', tabindex: 0, click: () => options.pick(row),
      keydown: event => event.key === 'Enter' && options.pick(row),
    } : {}, columns.map(column => element('td', {
      class: [column.number && 'num', column.className, column.wide && 'wide'].filter(Boolean).join(' '),
    }, column.cell(row))))));
    more.hidden = sorted.length <= shown;
    more.textContent = `${count(Math.max(sorted.length - shown, 0))} more`;
  };
  write();
  return element('div', {class: 'card'}, element('table', {}, element('thead', {}, element('tr', {}, heads)), body), more);
}

const timeColumn = (text, value, wide) => ({text, number: true, value, wide, cell: row => duration(value(row))});
const momentColumn = (text, value, wide) => ({text, number: true, value, wide, cell: row => moment(value(row))});
const countColumn = (text, value, wide) => ({text, number: true, value, wide, cell: row => count(value(row))});

function stackList(model, stack) {
  const frames = model.stacks[stack] || [];
  if (frames.length === 0) return element('p', {class: 'soft'}, 'No stack was recorded.');
  return element('ol', {class: 'stack'}, frames.map(index => {
    const frame = model.frames[index];
    const name = model.strings[frame.function] || '(unknown function)';
    return element('li', {class: 'mono', title: name}, shortName(name),
                   element('small', {}, `${model.strings[frame.file]}${frame.line ? ':' + frame.line : ''}`));
  }));
}

// All goroutines, by the function they began with.
function goroutinesPage(model, questions, go) {
  const groups = questions.groups();
  if (groups.length === 0) {
    return [element('h2', {}, 'Goroutines'),
            element('p', {class: 'empty'}, 'There is no goroutine in this trace.')];
  }
  const sum = group => group.time.reduce((all, time) => all + time, 0);
  return [
    element('h2', {}, plural(model.g.id.length, 'goroutine')),
    element('p', {class: 'lead'}, `By the function they began with. ${plural(groups.length, 'function')}.`),
    table([
      {text: 'function', value: row => row.text, className: 'name mono', cell: row => named(row.text, row.full)},
      countColumn('count', row => row.members.length),
      {text: 'time', wide: true, value: sum, cell: row => stateBar(row.time)},
      timeColumn('running', row => row.time[RUNNING]),
      timeColumn('runnable', row => row.time[RUNNABLE], true),
      timeColumn('waiting', row => row.time[WAITING], true),
      timeColumn('syscall', row => row.time[SYSCALL], true),
    ], groups, {sortBy: 3, pick: row => go.group(row.name)}),
  ];
}

function groupPage(model, questions, go, name) {
  const group = questions.groups().find(each => each.name === name);
  if (!group) return [element('p', {class: 'empty'}, 'No such function.')];
  if (group.members.length === 1) return goroutinePage(model, questions, go, group.members[0]);
  return [
    element('p', {class: 'crumb'}, element('button', {class: 'link', click: () => go.goroutines()}, '← all goroutines')),
    element('h2', {class: 'mono', title: group.full}, group.text),
    element('p', {class: 'lead'}, plural(group.members.length, 'goroutine')),
    element('div', {class: 'card'}, stateBar(group.time, 'bar big'), stateWords(group.time)),
    element('h3', {}, 'Goroutines'),
    table([
      {text: 'id', value: g => model.g.id[g], cell: g => questions.title(g)},
      {text: 'life', cell: g => stateBar([0, 1, 2, 3].map(what => questions.time[what][g]))},
      timeColumn('running', g => questions.time[RUNNING][g]),
      timeColumn('runnable', g => questions.time[RUNNABLE][g]),
      timeColumn('waiting', g => questions.time[WAITING][g], true),
      timeColumn('syscall', g => questions.time[SYSCALL][g], true),
      momentColumn('began', g => Math.max(model.g.born[g], 0), true),
    ], group.members, {sortBy: 2, pick: g => go.goroutine(g)}),
  ];
}

// Sums of spans by some key: how often, how long in all, the longest.
function sums(model, spans, keyOf) {
  const result = new Map();
  for (const span of spans) {
    const key = keyOf(span), time = model.span.end[span] - model.span.begin[span];
    let row = result.get(key);
    if (!row) result.set(key, row = {key, times: 0, total: 0, longest: 0, which: span});
    row.times++;
    row.total += time;
    if (time >= row.longest) {
      row.longest = time;
      row.which = span;
    }
  }
  return [...result.values()];
}
const sumColumns = [
  countColumn('times', row => row.times),
  timeColumn('total', row => row.total),
  timeColumn('mean', row => row.total / row.times, true),
  timeColumn('longest', row => row.longest),
];

// Stacks of waits, those with most time first.
function placesOf(model, waits) {
  const rows = sums(model, waits, span => model.span.stack[span]).sort((a, b) => b.total - a.total);
  return rows.slice(0, 8).map(row => element(
      'details', {class: 'card', style: 'margin-bottom:8px'},
      element('summary', {}, element('b', {}, duration(row.total)), ` in ${plural(row.times, 'wait')} `,
              element('span', {class: 'mono soft'}, [leafOf(model, row.key), callerOf(model, row.key)].filter(Boolean).join(' ← '))),
      stackList(model, row.key)));
}

const reasonColumn = {text: 'reason', className: 'name', value: row => row.key,
                      cell: row => row.key || '(no reason given)'};
function sumTable(title, column, rows, go) {
  if (rows.length === 0) return null;
  return [element('h3', {}, title),
          table([column, ...sumColumns], rows, {sortBy: 2, shown: 12, pick: row => go.span(row.which)})];
}

function goroutinePage(model, questions, go, g) {
  const spans = questions.spansOf(g), states = [0, 1, 2, 3].map(what => questions.time[what][g]);
  const parent = model.g.parent[g], born = model.g.born[g], died = model.g.died[g];
  const waits = spans.filter(span => model.span.what[span] === WAITING);
  const latencies = spans.filter(span => model.span.what[span] === RUNNABLE);
  const longest = latencies.reduce((most, span) => Math.max(most, model.span.end[span] - model.span.begin[span]), 0);
  return [
    element('p', {class: 'crumb'}, element('button', {class: 'link', click: () => go.group(model.g.name[g], true)}, '← all goroutines')),
    goroutineTitle(questions, g),
    element('div', {class: 'card'}, lifeOf(model, questions, go, g), stateWords(states)),
    facts([
      ['began', born < 0 ? 'before the trace' : `at ${moment(born)}`,
       parent >= 0 && [', by ', goroutineLink(questions, go, parent)]],
      ['ended', died < 0 ? 'not in this trace' : `at ${moment(died)}`],
      ['turns', count(spans.filter(span => model.span.what[span] === RUNNING).length)],
      ['waited to run', `${plural(latencies.length, 'time')}, at most ${duration(longest)}`],
    ]),
    element('div', {class: 'row-buttons'},
            element('button', {click: () => go.pin(g)}, 'Show in the timeline')),
    sumTable('What it waits for', reasonColumn, sums(model, waits, span => questions.reason(span)), go),
    waits.length > 0 && element('h3', {}, 'Where it waits'),
    placesOf(model, waits),
    model.g.stack[g] > 0 && element('h3', {}, 'Where it was made'),
    model.g.stack[g] > 0 && element('div', {class: 'card'}, stackList(model, model.g.stack[g])),
    element('h3', {}, 'What it did'),
    table([
      momentColumn('at', span => model.span.begin[span]),
      {text: 'what', className: 'name', cell: span => [dot(model.span.what[span]), questions.describe(span)]},
      timeColumn('for', span => model.span.end[span] - model.span.begin[span]),
      {text: 'where', wide: true, cell: span => place(model, span)},
      {text: 'by', wide: true, cell: span => model.span.by[span] >= 0 ? questions.title(model.span.by[span]) : ''},
    ], [...spans], {shown: 40, pick: span => go.span(span)}),
  ];
}

function named(text, full) { return element('span', {title: full}, text); }
function goroutineTitle(questions, g) {
  return element('h2', {title: questions.fullName(g)},
                 questions.title(g), ' ', element('span', {class: 'mono soft'}, questions.name(g)));
}
function goroutineLink(questions, go, g) {
  return element('button', {class: 'link', title: questions.fullName(g), click: () => go.goroutine(g)},
                 `${questions.title(g)} ${questions.name(g)}`);
}
function place(model, span) {
  const parts = [];
  if (model.span.p[span] >= 0) parts.push(`P ${model.ps[model.span.p[span]]}`);
  if (model.span.m[span] >= 0) parts.push(`thread ${model.ms[model.span.m[span]]}`);
  return parts.join(', ');
}
function leafOf(model, stack) {
  const frames = model.stacks[stack] || [];
  return frames.length > 0 ? shortName(model.strings[model.frames[frames[0]].function]) : 'no stack';
}

// Who called what waits: the first function that is not of magpie or another library.
const OF_LIBRARIES = /^(magpie|std|__gnu_cxx|boost)::|^(runtime|sync|syscall|net|os|io|time|internal)[./]|^_|^(syscall|read|write|poll|recv|send)$/;
function callerOf(model, stack) {
  const frames = (model.stacks[stack] || []).map(index => model.frames[index]);
  const name = frame => shortName(model.strings[frame.function]);
  const place = frames.findIndex(frame => !OF_LIBRARIES.test(name(frame)));
  if (place <= 0) return '';
  const {file, line} = frames[place], base = model.strings[file].split('/').pop();
  return `${name(frames[place])}${base ? ` ${base}:${line}` : ''}`;
}

// From its first span to its last, which may be a small part of the trace.
function lifeOf(model, questions, go, g) {
  const spans = questions.spansOf(g), from = model.span.begin[spans[0]];
  const to = Math.max(model.span.end[spans[spans.length - 1]], from + 1);
  const canvas = element('canvas', {class: 'life', 'aria-label': 'Its life; click to see that place in the timeline',
                                    role: 'img', recolour: () => draw(),
                                    click: event => go.moment(g, from + event.offsetX / canvas.clientWidth * (to - from))});
  const draw = () => drawLife(canvas, model, questions, g, from, to);
  new ResizeObserver(draw).observe(canvas);
  return [canvas, element('div', {class: 'ends'}, element('span', {}, duration(from)), element('span', {}, duration(to)))];
}

function drawLife(canvas, model, questions, g, begin, end) {
  const {context, width, height} = fitCanvas(canvas), colours = palette();
  if (width === 0) return;
  context.fillStyle = colours.hover;
  context.fillRect(0, 0, width, height);
  // How much of each point every state takes.
  const share = Array.from({length: 4}, () => new Float64Array(Math.ceil(width) + 1));
  const scale = width / (end - begin);
  for (const span of questions.spansOf(g)) {
    const from = (model.span.begin[span] - begin) * scale, to = (model.span.end[span] - begin) * scale, list = share[model.span.what[span]];
    for (let x = Math.floor(from); x <= to && x < width; x++) list[x] += Math.min(to, x + 1) - Math.max(from, x);
  }
  for (let x = 0; x < width; x++) {
    context.fillStyle = colours.waiting;
    if (share[WAITING][x] > 0) context.fillRect(x, height - 3, 1, 3);
    let top = height;
    for (const what of [RUNNING, SYSCALL, RUNNABLE]) {
      if (share[what][x] === 0) continue;
      const tall = Math.max(Math.min(share[what][x], 1) * (height - 4), 3);
      context.fillStyle = colours.states[what];
      context.fillRect(x, top -= tall, 1, tall);
    }
  }
}

function cards(pairs) {
  return element('div', {class: 'cards'}, pairs.map(([value, what]) =>
      element('div', {class: 'card'}, element('b', {}, value), element('span', {}, what))));
}

// Where time goes.
function timePage(model, questions, go) {
  const spans = model.span;
  const of = what => {
    const list = [];
    for (let i = 0; i < spans.g.length; i++) if (spans.what[i] === what) list.push(i);
    return list;
  };
  const waits = of(WAITING), calls = of(SYSCALL), stops = of(RUNNABLE).filter(span => spans.reason[span] !== 0);
  const ps = model.pRows.map((row, p) => {
    const {first, index} = model.heldRows;
    let held = 0;
    for (let i = first[p]; i < first[p + 1]; i++) held += model.held.end[index[i]] - model.held.begin[index[i]];
    const used = row.used[row.used.length - 1], inCalls = row.calls[row.calls.length - 1];
    return {p, running: used - inCalls, calls: inCalls, looking: Math.max(held - used, 0), turns: row.index.length};
  }).sort((a, b) => model.ps[a.p] - model.ps[b.p]);
  const busy = ps.reduce((sum, p) => sum + p.running, 0);
  const site = row => leafOf(model, row.key.stack);
  const below = (...parts) => element('div', {class: 'soft'}, parts.filter(Boolean).join(' · '));
  const siteColumn = {text: 'function', className: 'name mono', value: site,
                      cell: row => [site(row), below(row.key.reason, callerOf(model, row.key.stack))]};
  return [
    element('h2', {}, 'Where time goes'),
    cards([
      [duration(model.end), 'traced'],
      [count(model.events), 'events'],
      [count(model.g.id.length), 'goroutines'],
      [percent(ps.length > 0 ? busy / ps.length / model.end : 0), `of ${plural(ps.length, 'P')} used`],
    ]),
    element('h3', {}, 'All goroutines together'),
    element('div', {class: 'card'}, stateBar(questions.total, 'bar big'), stateWords(questions.total)),
    sumTable('What they wait for', reasonColumn, sums(model, waits, span => questions.reason(span)), go),
    sumTable('Where they wait', siteColumn, sumsBySite(model, questions, waits), go),
    sumTable('Why they give way', reasonColumn, sums(model, stops, span => questions.reason(span)), go),
    sumTable('System calls, by where they are made', siteColumn, sumsBySite(model, questions, calls), go),
    element('h3', {}, 'Ps'),
    table([
      {text: 'P', value: row => model.ps[row.p], cell: row => `P ${model.ps[row.p]}`},
      {text: 'time', cell: row => pBar(row, model.end)},
      {text: 'running', number: true, value: row => row.running, cell: row => percent(row.running / model.end)},
      {text: 'in calls', number: true, value: row => row.calls, cell: row => percent(row.calls / model.end)},
      {text: 'looking for work', number: true, wide: true, value: row => row.looking, cell: row => percent(row.looking / model.end)},
      countColumn('turns', row => row.turns, true),
    ], ps, {shown: 64}),
  ];
}
// Stacks that would read the same are one place: they differ in what a library does below.
function sumsBySite(model, questions, waits) {
  const texts = model.stacks.map((_, stack) => `${leafOf(model, stack)} ${callerOf(model, stack)}`);
  const rows = sums(model, waits, span => `${texts[model.span.stack[span]]} ${model.span.reason[span]}`);
  for (const row of rows) row.key = {stack: model.span.stack[row.which], reason: questions.reason(row.which)};
  return rows;
}
function pBar(row, end) {
  const part = (time, colour) => time > 0 && element('i', {style: `width:${100 * time / end}%;background:var(--${colour})`});
  return element('div', {class: 'bar'}, part(row.running, 'running'), part(row.calls, 'syscall'), part(row.looking, 'waiting'));
}

// How long it takes from runnable to running.
function latencyPage(model, questions, go) {
  const spans = model.span, list = [];
  for (let i = 0; i < spans.g.length; i++) {
    if (spans.what[i] === RUNNABLE && spans.end[i] < model.end) list.push(i);
  }
  const of = span => spans.end[span] - spans.begin[span];
  if (list.length === 0) {
    return [element('h2', {}, 'Latency'),
            element('p', {class: 'empty'}, 'No goroutine became runnable in this trace.')];
  }
  const times = Float64Array.from(list, of).sort();
  const quantile = share => times[Math.min(Math.floor(times.length * share), times.length - 1)];
  const buckets = new Map();
  for (const time of times) {
    const power = Math.max(0, Math.floor(Math.log2(Math.max(time, 1))));
    buckets.set(power, (buckets.get(power) || 0) + 1);
  }
  const powers = [...buckets.keys()], most = Math.max(...buckets.values());
  const rows = [];
  for (let power = Math.min(...powers); power <= Math.max(...powers); power++) {
    const number = buckets.get(power) || 0;
    rows.push(element('span', {class: 'from'}, `≥ ${power === 0 ? '0' : duration(2 ** power)}`),
              element('span', {class: number > 0 ? 'meter' : '', style: `width:${Math.max(100 * number / most, 0.4)}%`}),
              element('span', {class: 'count'}, number > 0 ? count(number) : ''));
  }
  const worst = [...list].sort((a, b) => of(b) - of(a)).slice(0, 100);
  return [
    element('h2', {}, 'From runnable to running'),
    element('p', {class: 'lead'}, `How long goroutines that could run waited for a P, ${plural(list.length, 'time')}.`),
    cards([[0.5, 'half within'], [0.9, '90% within'], [0.99, '99% within'], [0.999, '99.9% within'],
           [1, 'longest']].map(([share, what]) => [duration(quantile(share)), what])),
    element('h3', {}, 'How often'),
    element('div', {class: 'card histogram'}, rows),
    element('h3', {}, 'The longest'),
    table([
      {text: 'goroutine', value: span => model.g.id[spans.g[span]], cell: span => questions.title(spans.g[span])},
      {text: 'function', className: 'name mono',
       cell: span => named(questions.name(spans.g[span]), questions.fullName(spans.g[span]))},
      timeColumn('waited', of),
      momentColumn('at', span => spans.begin[span]),
      {text: 'made runnable by', wide: true, cell: span => cause(model, questions, span)},
    ], worst, {sortBy: 2, shown: 20, pick: span => go.span(span)}),
  ];
}
function cause(model, questions, span) {
  const by = model.span.by[span];
  if (by >= 0) return `${questions.title(by)} ${questions.name(by)}`;
  if (questions.reason(span)) return questions.reason(span);
  const before = model.before[span];
  if (before >= 0 && model.span.what[before] === SYSCALL) return 'the end of its system call';
  return before < 0 && model.g.born[model.span.g[span]] < 0 ? 'before the trace' : 'the scheduler';
}

// Tasks, regions and log lines.
function notesPage(model, questions, go) {
  const text = id => model.strings[id] || '(no name)';
  const regions = new Map();
  for (const region of model.regions) {
    let row = regions.get(region.name);
    if (!row) regions.set(region.name, row = {name: region.name, times: 0, total: 0, longest: 0, which: region});
    const time = region.end - region.begin;
    row.times++;
    row.total += time;
    if (time >= row.longest) {
      row.longest = time;
      row.which = region;
    }
  }
  return [
    element('h2', {}, 'What the program says'),
    model.tasks.length > 0 && element('h3', {}, `Tasks (${count(model.tasks.length)})`),
    model.tasks.length > 0 && table([
      {text: 'task', className: 'name', value: task => text(task.name), cell: task => text(task.name)},
      {text: 'id', number: true, value: task => task.id, cell: task => String(task.id)},
      momentColumn('began', task => task.begin),
      timeColumn('took', task => task.end - task.begin),
      {text: 'by', wide: true, cell: task => questions.title(task.g)},
    ], model.tasks, {sortBy: 3, shown: 20, pick: task => go.stretch(task.g, task.begin, task.end)}),
    regions.size > 0 && element('h3', {}, 'Regions'),
    regions.size > 0 && table([
      {text: 'region', className: 'name', value: row => text(row.name), cell: row => text(row.name)}, ...sumColumns,
    ], [...regions.values()], {sortBy: 2, shown: 20, pick: row => go.stretch(row.which.g, row.which.begin, row.which.end)}),
    model.logs.length > 0 && element('h3', {}, `Log (${plural(model.logs.length, 'line')})`),
    model.logs.length > 0 && table([
      momentColumn('at', line => line.time),
      {text: 'goroutine', cell: line => questions.title(line.g)},
      {text: 'category', wide: true, cell: line => model.strings[line.key]},
      {text: 'message', className: 'name', cell: line => model.strings[line.value]},
    ], model.logs, {shown: 100, pick: line => go.moment(line.g, line.time)}),
  ];
}
