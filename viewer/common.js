// Small things that all parts of the page use.
'use strict';

const RUNNING = 0, RUNNABLE = 1, WAITING = 2, SYSCALL = 3;
const STATE_NAMES = ['running', 'runnable', 'waiting', 'syscall'];

// An element. Attributes that are functions listen; texts are texts, never markup.
function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === 'function') node.addEventListener(name, value);
    else if (name === 'style') node.style.cssText = value;
    else node.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(2)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

function fill(node, ...children) { node.replaceChildren(...children.flat(2).filter(child => child)); }

// 1.25 ms; three digits are enough to compare.
function duration(nanos) {
  if (!(nanos > 0)) return '0';
  const units = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']];
  if (nanos < 999.5) return nanos < 0.5 ? '<1 ns' : `${Math.round(nanos)} ns`;
  const [size, unit] = units.find(([each]) => nanos >= each * 0.9995);
  return `${digits(nanos / size)} ${unit}`;
}
// A point in time, with the digits that find it on the axis: 222.5563 ms.
function moment(nanos) {
  if (nanos < 999.5) return duration(nanos);
  const [size, unit, decimals] = [[1e9, 's', 6], [1e6, 'ms', 4], [1e3, 'µs', 2]].find(([each]) => nanos >= each * 0.9995);
  return `${(nanos / size).toFixed(decimals)} ${unit}`;
}
function digits(value) {
  if (value >= 99.95) return Math.round(value).toLocaleString('en');
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}
const count = number => number.toLocaleString('en');
const percent = share => share > 0 && share < 0.001 ? '<0.1%' : `${(100 * share).toFixed(1)}%`;
const plural = (number, word) => `${count(number)} ${word}${number === 1 ? '' : 's'}`;

// A C++ name as one says it: "(anonymous namespace)::a()::{lambda(int)#1}::operator()(int) const" is
// a::lambda#1. Names of other kinds, as Go's and those that a program gives, stay as they are.
const shortNames = new Map(), LONGEST_NAME = 160;
function shortName(name) {
  let short = shortNames.get(name);
  if (short === undefined) {
    short = withoutArguments(name) || name;
    if (short.length > LONGEST_NAME) short = `${short.slice(0, LONGEST_NAME)}…`;
    shortNames.set(name, short);
  }
  return short;
}
const OPERATOR = /operator(\(\)|\[\]|<=>|<<=?|>>=?|->\*?|&&|\|\||\+\+|--|[-<>=!+*/%^&|~,]=?| new| delete)/y;
function withoutArguments(name) {
  if (!/[\w>)}]::[\w{(~$]|^[\w~]+\(.*\)$/.test(name)) return name;
  const text = name.replaceAll('(anonymous namespace)::', '').replace(/ \[clone [^\]]*\]/g, '');
  let result = '';
  for (let at = 0; at < text.length;) {
    OPERATOR.lastIndex = at;
    const operator = OPERATOR.exec(text), end = operator ? OPERATOR.lastIndex : endOfBrackets(text, at);
    const part = text.slice(at, end);
    if (operator) result += part;
    else if (part.startsWith('<')) result += part.length > 16 ? '<…>' : part;
    else if (part.startsWith('{')) result += part.replace(/^\{lambda\(.*\)(#\d+)\}$/, 'lambda$1');
    else if (text.startsWith(' const', at)) at += 5;
    // What stands before a space is the type of the result; templates have it.
    else if (part === ' ') result = text.includes('(', at) ? '' : result + part;
    else if (!part.startsWith('(')) result += part;
    at = Math.max(end, at + 1);
  }
  return result.replace(/(lambda#\d+|\$_\d+)::operator\(\)/g, '$1');
}
// Behind the bracket that closes the one at `at`; behind `at` where there is none.
function endOfBrackets(text, at) {
  let depth = 0;
  for (let i = at; i < text.length; i++) {
    if ('(<{'.includes(text[i])) depth++;
    if (')>}'.includes(text[i]) && text[i - 1] !== '-') depth--;
    if (depth <= 0) return i + 1;
  }
  return at + 1;
}

// The first place in [from, to) of rising numbers where the number is not below `value`.
function lowerBound(numbers, value, from = 0, to = numbers.length) {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (numbers[middle] < value) from = middle + 1; else to = middle;
  }
  return from;
}
// The same, quick when it is near `from`.
function nextFrom(numbers, value, from) {
  let step = 1;
  while (from + step < numbers.length && numbers[from + step] < value) step *= 2;
  return lowerBound(numbers, value, from, Math.min(from + step + 1, numbers.length));
}

// The first place of `list` where numbers[list[place]], which rise, is not below `value`.
function firstFrom(list, numbers, value) {
  let from = 0, to = list.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (numbers[list[middle]] < value) from = middle + 1; else to = middle;
  }
  return from;
}

// Colours come from the style sheet; a canvas needs them as numbers.
function palette() {
  const style = getComputedStyle(document.documentElement);
  const colour = name => style.getPropertyValue(`--${name}`).trim();
  const colours = {};
  for (const name of ['back', 'paper', 'ink', 'soft', 'faint', 'line', 'row', 'hover', 'accent', 'running',
                      'runnable', 'waiting', 'syscall']) colours[name] = colour(name);
  colours.dark = document.documentElement.dataset.theme === 'dark';
  colours.states = STATE_NAMES.map(colour);
  colours.onState = STATE_NAMES.map(state => colour(`on-${state}`));  // what is written on them
  const channels = text => [0, 1, 2].map(i => parseInt(text.slice(1 + 2 * i, 3 + 2 * i), 16));
  colours.numbers = STATE_NAMES.map(state => channels(colours[state]));
  // One function's goroutines differ from the next one's by a shade, never by the colour of a state.
  colours.shades = [0, 1, 2, 3, 4].map(i => mix(colours.running, '#0a3a3a', i * 0.09));
  return colours;
}
function mix(first, second, share) {
  const part = (text, i) => parseInt(text.slice(1 + 2 * i, 3 + 2 * i), 16);
  const channels = [0, 1, 2].map(i => Math.round(part(first, i) * (1 - share) + part(second, i) * share));
  return `rgb(${channels.join(' ')})`;
}

// A canvas with as many points as the screen has.
function fitCanvas(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return {context, width, height};
}

// Questions about a model.

class Questions {
  constructor(model) {
    this.model = model;
    const spans = model.span, goroutines = model.g.id.length;
    // Of each goroutine: the time in each state.
    this.time = [0, 1, 2, 3].map(() => new Float64Array(goroutines));
    this.total = [0, 0, 0, 0];
    for (let i = 0; i < spans.g.length; i++) {
      const time = spans.end[i] - spans.begin[i];
      this.time[spans.what[i]][spans.g[i]] += time;
      this.total[spans.what[i]] += time;
    }
    this.shade = new Map();
    this.sums = new Map();
  }

  name(g) { return shortName(this.fullName(g)); }
  fullName(g) { return this.model.strings[this.model.g.name[g]] || '(unknown function)'; }
  title(g) { return `G${this.model.g.id[g]}`; }
  // Which of the shades a function has.
  shadeOf(g) {
    const name = this.model.g.name[g];
    let shade = this.shade.get(name);
    if (shade === undefined) {
      shade = this.shade.size % 5;
      this.shade.set(name, shade);
    }
    return shade;
  }
  spansOf(g) {
    const {first, index} = this.model.gRows;
    return index.subarray(first[g], first[g + 1]);
  }
  regionsOf(g) {
    if (!this.regions) {
      this.regions = new Map();
      for (const region of this.model.regions) {
        const list = this.regions.get(region.g);
        if (list) list.push(region); else this.regions.set(region.g, [region]);
      }
    }
    return this.regions.get(g) || [];
  }
  wokenBy(g) {
    const {first, index} = this.model.wakeRows;
    return index.subarray(first[g], first[g + 1]);
  }
  // What a goroutine did just after a span; -1: nothing.
  after(span) {
    const {g, begin} = this.model.span, list = this.spansOf(g[span]);
    let place = firstFrom(list, begin, begin[span]);
    while (list[place] !== span) place++;  // some take no time
    return place + 1 < list.length ? list[place + 1] : -1;
  }
  // The spans of a goroutine in columns, with the time in each state before each of them: what it
  // did between two of them is then one subtraction. Kept for as long as its row is there.
  sumsOf(g) {
    let sums = this.sums.get(g);
    if (sums) return sums;
    const list = this.spansOf(g), spans = this.model.span;
    sums = {begin: new Float64Array(list.length), time: [0, 1, 2, 3].map(() => new Float64Array(list.length + 1))};
    for (let i = 0; i < list.length; i++) {
      const span = list[i];
      sums.begin[i] = spans.begin[span];
      for (let what = 0; what < 4; what++) sums.time[what][i + 1] = sums.time[what][i];
      sums.time[spans.what[span]][i + 1] += spans.end[span] - spans.begin[span];
    }
    this.sums.set(g, sums);
    return sums;
  }
  forgetSums(kept) { for (const g of this.sums.keys()) if (!kept.includes(g)) this.sums.delete(g); }
  reason(span) { return this.model.strings[this.model.span.reason[span]]; }
  describe(span) {
    const state = STATE_NAMES[this.model.span.what[span]];
    const reason = this.reason(span);
    if (this.model.span.what[span] === WAITING && reason) return `waiting: ${reason}`;
    if (this.model.span.what[span] === RUNNABLE && reason) return `runnable (${reason})`;
    return state === 'syscall' ? 'in a system call' : state;
  }
  groups() {
    if (this.groupList) return this.groupList;
    const groups = new Map();
    for (let g = 0; g < this.model.g.id.length; g++) {
      const name = this.model.g.name[g];
      let group = groups.get(name);
      if (!group) {
        group = {name, text: this.name(g), full: this.fullName(g), members: [], time: [0, 0, 0, 0]};
        groups.set(name, group);
      }
      group.members.push(g);
      for (let what = 0; what < 4; what++) group.time[what] += this.time[what][g];
    }
    this.groupList = [...groups.values()];
    return this.groupList;
  }
}
