// The timeline: a row per P, per thread, and per goroutine that was asked for.
//
// A frame must not cost more with more events. Bars that are at least a point wide are drawn one
// by one; of the others a row knows how much time was used before each (reader.js: busyRow), so a
// point of the screen is one search and one subtraction, however many bars it stands for.
'use strict';

const GUTTER = 92, NARROW_GUTTER = 58, AXIS = 26;
const ROW_HEIGHTS = {section: 25, p: 30, m: 22, g: 24};
const REGION_HEIGHT = 15, MOST_DEPTH = 3;  // of regions below a goroutine
const LABEL_FONT = '12.5px system-ui, "DejaVu Sans", sans-serif';
const SHORTEST = 50;  // nanoseconds across the whole view
const MOST_ARROWS = 250;

class Timeline {
  // `on` has select(span), measure(from, to) and hint(span or -1, event).
  constructor(canvas, overview, on) {
    this.canvas = canvas;
    this.overviewCanvas = overview;
    this.on = on;
    this.model = null;
    this.selected = -1;
    this.pinned = [];
    this.hovered = -1;
    this.measured = null;
    this.view = {from: 0, to: 1};
    this.goal = {from: 0, to: 1};
    this.scroll = 0;
    this.frames = [];  // how long the last ones took, in milliseconds
    this.pointers = new Map();
    this.pointerX = null;
    this.measureCanvas();
    this.listen();
    new ResizeObserver(() => {
      if (this.model) this.layOut();
      this.draw();
    }).observe(canvas);
    new ResizeObserver(() => this.draw()).observe(overview);
  }

  show(model, questions) {
    this.model = model;
    this.questions = questions;
    this.pinned = [];
    this.selected = -1;
    this.hovered = -1;
    this.measured = null;
    this.scroll = 0;
    this.pOrder = model.ps.map((_, i) => i).sort((a, b) => model.ps[a] - model.ps[b]);
    this.mOrder = model.ms.map((_, i) => i).filter(i => model.mRows[i].index.length > 0)
        .sort((a, b) => model.ms[a] - model.ms[b]);
    this.layOut();
    this.look(0, model.end, true);
  }

  recolour() {
    this.colours = palette();
    this.draw();
  }

  // Rows from top to bottom; where there are few, they are taller.
  layOut() {
    this.measureCanvas();
    const natural = this.pOrder.length * ROW_HEIGHTS.p + this.mOrder.length * ROW_HEIGHTS.m + 6 * ROW_HEIGHTS.g;
    const stretch = Math.min(Math.max(0.7 * this.visible / natural, 1), 1.7);
    this.rows = [];
    this.rowOfP = new Map();
    this.rowOfM = new Map();
    let top = 0;
    const add = row => {
      row.top = top;
      row.height = Math.round(ROW_HEIGHTS[row.kind] * (row.kind === 'section' ? 1 : stretch)) +
          (row.depth || 0) * REGION_HEIGHT;
      top += row.height;
      this.rows.push(row);
    };
    if (this.pinned.length > 0) add({kind: 'section', text: 'Goroutines'});
    for (const g of this.pinned) add({kind: 'g', g, depth: this.depthOf(g)});
    add({kind: 'section', text: 'Ps'});
    for (const p of this.pOrder) {
      this.rowOfP.set(p, this.rows.length);
      add({kind: 'p', p});
    }
    add({kind: 'section', text: 'Threads'});
    for (const m of this.mOrder) {
      this.rowOfM.set(m, this.rows.length);
      add({kind: 'm', m});
    }
    this.height = top + 8;
  }

  // How many regions lie within one another.
  depthOf(g) {
    return this.questions.regionsOf(g).reduce((most, region) => Math.max(most, Math.min(region.depth + 1, MOST_DEPTH)), 0);
  }

  pin(g) {
    if (this.pinned.includes(g)) return;
    this.pinned = [g, ...this.pinned].slice(0, 6);
    this.questions.forgetSums(this.pinned);
    this.layOut();
  }
  unpin(g) {
    this.pinned = this.pinned.filter(each => each !== g);
    this.questions.forgetSums(this.pinned);
    this.layOut();
    this.draw();
  }

  // Where things are.

  // Asking the page for sizes is slow, so it is done once a frame.
  measureCanvas() {
    this.gutter = this.canvas.clientWidth < 600 ? this.narrowGutter() : GUTTER;
    this.width = Math.max(this.canvas.clientWidth - this.gutter, 10);
    this.visible = this.canvas.clientHeight;
  }
  // Wide enough for the ids of the goroutines that have rows.
  narrowGutter() {
    const context = this.canvas.getContext('2d');
    context.font = LABEL_FONT;
    const widths = this.pinned.map(g => context.measureText(this.questions.title(g)).width + 17);
    return Math.min(Math.max(NARROW_GUTTER, ...widths), GUTTER);
  }
  x(time) { return this.gutter + (time - this.view.from) / (this.view.to - this.view.from) * this.width; }
  timeAt(x) { return this.view.from + (x - this.gutter) / this.width * (this.view.to - this.view.from); }
  y(row) { return AXIS + row.top - this.scroll; }
  get lowest() { return Math.max(0, this.height + AXIS - this.visible); }

  look(from, to, atOnce) {
    const end = this.model.end;
    let span = Math.min(Math.max(to - from, SHORTEST), end);
    from = Math.min(Math.max(from, 0), end - span);
    this.goal = {from, to: from + span};
    if (atOnce || matchMedia('(prefers-reduced-motion: reduce)').matches) this.view = {...this.goal};
    this.animate();
  }
  zoom(factor, at, atOnce) {
    const {from, to} = this.goal;
    const centre = at === undefined ? (from + to) / 2 : at;
    this.look(centre - (centre - from) * factor, centre + (to - centre) * factor, atOnce);
  }
  // Where the eyes are: at the pointer, if it is over the timeline.
  zoomAtPointer(factor) { this.zoom(factor, this.pointerX === null ? undefined : this.timeAt(this.pointerX)); }
  move(share) {
    const step = (this.goal.to - this.goal.from) * share;
    this.look(this.goal.from + step, this.goal.to + step);
  }
  scrollBy(points) {
    this.scroll += points;
    this.draw();
  }
  // So that a span is seen, with some of what is around it.
  reveal(span) {
    const spans = this.model.span;
    const middle = (spans.begin[span] + spans.end[span]) / 2;
    const length = spans.end[span] - spans.begin[span];
    const {from, to} = this.goal;
    if (spans.begin[span] < from || spans.end[span] > to || length < (to - from) / 300) {
      const around = Math.max(length * 4, Math.min(to - from, length * 60));
      this.look(middle - around / 2, middle + around / 2);
    }
    const row = this.rows[this.rowFor(span)];
    if (row && (this.y(row) < AXIS || this.y(row) + row.height > this.visible)) {
      this.scroll = Math.min(Math.max(row.top - 60, 0), this.lowest);
    }
  }
  rowFor(span) {
    const p = this.model.span.p[span];
    if (p >= 0) return this.rowOfP.get(p);
    return this.rows.findIndex(row => row.kind === 'g' && row.g === this.model.span.g[span]);
  }

  // For those who have no mouse: a bar to begin with, and the one before or after it in its row.
  firstInView() {
    for (const p of this.pOrder) {
      const {begin, end, index} = this.model.pRows[p];
      let place = Math.max(lowerBound(begin, this.view.from) - 1, 0);
      if (end[place] <= this.view.from) place++;
      if (place < index.length && begin[place] < this.view.to) return index[place];
    }
    return -1;
  }
  besides(span, step) {
    const {p, m, begin} = this.model.span;
    const row = p[span] >= 0 ? this.model.pRows[p[span]] : m[span] >= 0 ? this.model.mRows[m[span]] : null;
    if (!row) return -1;
    const place = row.index.indexOf(span, lowerBound(row.begin, begin[span])) + step;
    return place >= 0 && place < row.index.length ? row.index[place] : -1;
  }

  animate() {
    if (this.moving) return;
    this.moving = true;
    const step = () => {
      const near = (this.goal.to - this.goal.from) * 0.002;
      for (const side of ['from', 'to']) {
        const gap = this.goal[side] - this.view[side];
        this.view[side] = Math.abs(gap) <= near ? this.goal[side] : this.view[side] + gap * 0.4;
      }
      this.moving = this.view.from !== this.goal.from || this.view.to !== this.goal.to;
      this.drawNow();
      if (this.moving) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }
  draw() {
    if (this.moving || this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.drawNow();
    });
  }

  // Drawing.

  drawNow() {
    if (!this.model || this.canvas.clientWidth === 0) return;
    const began = performance.now();
    if (!this.colours) this.colours = palette();
    this.measureCanvas();
    this.scroll = Math.min(Math.max(this.scroll, 0), this.lowest);
    const {context, width, height} = fitCanvas(this.canvas);
    this.context = context;
    context.clearRect(0, 0, width, height);
    context.textBaseline = 'middle';
    const ticks = this.ticks();
    this.drawGrid(ticks, height);
    context.save();
    context.beginPath();
    context.rect(0, AXIS, width, height - AXIS);
    context.clip();
    this.bars = [];  // those drawn one by one, for arrows
    for (const row of this.rows) {
      const y = this.y(row);
      if (y + row.height < AXIS || y > height) continue;
      this.drawRow(row, y);
    }
    this.drawArrows();
    this.drawMeasure(height);
    for (const row of this.rows) {
      const y = this.y(row);
      if (y + row.height >= AXIS && y <= height) this.drawLabel(row, y);
    }
    this.labelMeasure();
    context.restore();
    this.drawAxis(ticks, width);
    this.drawOverview();
    this.frames.push(performance.now() - began);
    if (this.frames.length > 200) this.frames.shift();
  }

  ticks() {
    const wanted = (this.view.to - this.view.from) / Math.max(this.width / 110, 2);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map(i => i * power).find(each => each >= wanted);
    const list = [];
    for (let time = Math.ceil(this.view.from / step) * step; time <= this.view.to; time += step) list.push(time);
    return {step, list};
  }
  drawGrid({list}, height) {
    const context = this.context;
    context.fillStyle = this.colours.line;
    for (const time of list) context.fillRect(Math.round(this.x(time)), AXIS, 1, height - AXIS);
  }
  drawAxis({step, list}, width) {
    const context = this.context, colours = this.colours;
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, width, AXIS);
    context.fillStyle = colours.line;
    context.fillRect(0, AXIS - 1, width, 1);
    context.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
    context.fillStyle = colours.soft;
    context.textAlign = 'left';
    // All labels in one unit, with the digits that tell them apart.
    const largest = Math.max(Math.abs(this.view.to), step);
    const [size, unit] = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']].find(([each]) => largest >= each);
    const decimals = Math.max(0, Math.ceil(Math.log10(size) - Math.log10(step) - 1e-9));
    for (const time of list) {
      const x = this.x(time);
      if (x < this.gutter - 1) continue;
      context.fillStyle = colours.line;
      context.fillRect(Math.round(x), AXIS - 7, 1, 6);
      context.fillStyle = colours.soft;
      const text = `${(time / size).toFixed(decimals)} ${unit}`;
      if (x + 4 + context.measureText(text).width <= width) context.fillText(text, x + 4, AXIS / 2 - 1);
    }
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, this.gutter, AXIS - 1);
    context.fillStyle = colours.faint;
    context.fillText(duration(this.view.to - this.view.from), 10, AXIS / 2 - 1);
  }

  drawLabel(row, y) {
    const context = this.context, colours = this.colours, model = this.model;
    context.textAlign = 'left';
    if (row.kind === 'section') {
      context.fillStyle = colours.paper;
      context.fillRect(0, y, this.gutter + this.width, row.height);
      context.fillStyle = colours.soft;
      context.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
      context.fillText(row.text, 10, y + row.height / 2 + 2);
      return;
    }
    context.fillStyle = colours.paper;
    context.fillRect(0, y, this.gutter - 1, row.height);
    context.fillStyle = colours.line;
    context.fillRect(this.gutter - 1, y, 1, row.height);
    context.font = LABEL_FONT;
    context.fillStyle = colours.ink;
    const text = row.kind === 'p' ? `P ${model.ps[row.p]}`
        : row.kind === 'm' ? `${model.ms[row.m]}` : this.questions.title(row.g);
    if (row.kind === 'm') context.fillStyle = colours.soft;
    context.fillText(this.shorten(text, this.gutter - 16), 10, y + row.height / 2);
    if (row.kind !== 'p' || this.gutter < GUTTER) return;
    // How busy it is in what is shown.
    const share = this.used(model.pRows[row.p], this.view.from, this.view.to) / (this.view.to - this.view.from);
    context.fillStyle = colours.faint;
    context.textAlign = 'right';
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    context.fillText(`${Math.round(100 * share)}%`, this.gutter - 9, y + row.height / 2);
  }

  // Time that a row used between two moments.
  used(row, from, to) {
    const count = row.begin.length;
    if (count === 0) return 0;
    const first = Math.max(lowerBound(row.begin, from) - 1, 0), last = lowerBound(row.begin, to);
    let time = row.used[last] - row.used[first];
    if (last > first) {
      time -= Math.max(0, Math.min(from, row.end[first]) - row.begin[first]);
      time -= Math.max(0, row.end[last - 1] - Math.max(to, row.begin[last - 1]));
    }
    return time;
  }

  drawRow(row, y) {
    if (row.kind === 'section') return;
    const context = this.context;
    context.fillStyle = this.colours.line;
    context.globalAlpha = 0.6;
    context.fillRect(this.gutter, y + row.height - 1, this.width, 1);
    context.globalAlpha = 1;
    if (row.kind === 'g') return this.drawGoroutine(row, y);
    if (row.kind === 'p') this.drawHeld(row.p, y, row.height);
    const inset = row.kind === 'p' ? 4 : 3;
    return this.drawBusy(row.kind === 'p' ? this.model.pRows[row.p] : this.model.mRows[row.m], y + inset,
                         row.height - 2 * inset - 1, row.kind === 'p');
  }

  // A thread has the P, with or without a goroutine: it looks for work where there is only a line.
  drawHeld(p, y, height) {
    const {first, index} = this.model.heldRows, held = this.model.held, context = this.context;
    const to = first[p + 1], perPoint = (this.view.to - this.view.from) / this.width;
    context.fillStyle = this.colours.waiting;
    let low = first[p], high = to;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (held.end[index[middle]] < this.view.from) low = middle + 1; else high = middle;
    }
    let drawnTo = -1;
    for (let i = low; i < to; i++) {
      const begin = held.begin[index[i]];
      if (begin > this.view.to) break;
      const left = Math.max(this.x(begin), this.gutter), right = Math.max(this.x(held.end[index[i]]), left + 1);
      if (right <= drawnTo) continue;
      const from = Math.max(left, drawnTo);
      context.fillRect(from, y + height - 5, Math.min(right, this.gutter + this.width) - from, 2);
      drawnTo = right;
      // Many that nobody can tell apart: go on where the next point is.
      if (held.end[index[i]] - begin < perPoint) {
        const next = this.timeAt(Math.floor(right) + 1);
        let step = 1;
        while (i + step < to && held.begin[index[i + step]] < next) step *= 2;
        i += step >> 1;
      }
    }
  }

  drawBusy(row, y, height, named) {
    const {view, context, colours, model} = this, spans = model.span;
    const begin = row.begin, end = row.end, count = begin.length;
    const scale = this.width / (view.to - view.from), left = this.gutter, right = left + this.width;
    const emphasised = this.emphasised();
    let i = Math.max(lowerBound(begin, view.from) - 1, 0);
    const strip = this.emptyStrip();
    while (i < count && begin[i] < view.to) {
      if (end[i] <= view.from) {
        i++;
        continue;
      }
      const x = left + (begin[i] - view.from) * scale, width = (end[i] - begin[i]) * scale;
      if (width >= 1.5) {
        const span = row.index[i];
        const from = Math.max(x, left), to = Math.min(x + width, right);
        const call = spans.what[span] === SYSCALL;
        const dim = emphasised >= 0 && spans.g[span] !== emphasised;
        context.globalAlpha = dim ? 0.32 : 1;
        context.fillStyle = call ? colours.syscall : colours.shades[this.questions.shadeOf(spans.g[span])];
        context.fillRect(from, y, Math.max(to - from - (width > 3 ? 0.7 : 0), 0.8), height);
        context.globalAlpha = 1;
        if (span === this.selected) this.outline(from, y, to - from, height);
        if (named && to - from > 34) this.label(span, from, to, y, height, dim);
        if (named) this.bars.push(span, from, y, height);
        i++;
        continue;
      }
      // Everything that begins within this point of the screen.
      const point = Math.max(Math.floor(x), left), nextTime = view.from + (point + 1 - left) / scale;
      let next = Math.max(nextFrom(begin, nextTime, i), i + 1);
      // Only the last of them can go on after it; if that is wide, it is drawn by itself.
      if (next - 1 > i && (end[next - 1] - begin[next - 1]) * scale >= 1.5) next--;
      const share = Math.min((row.used[next] - row.used[i]) * scale, 1);
      const calls = (row.calls[next] - row.calls[i]) / Math.max(row.used[next] - row.used[i], 1e-9);
      strip.points[point - left] = this.shadeOfPoint(share, calls);
      strip.used = true;
      i = next;
    }
    if (strip.used) this.drawStrip(strip, y, height);
  }

  // Points of a row that stand for many bars: a picture one point high, stretched. Thousands of
  // rectangles would cost more than all the rest.
  emptyStrip() {
    const width = Math.ceil(this.width);
    if (!this.strip || this.strip.canvas.width !== width) {
      const canvas = element('canvas', {width, height: 1}), context = canvas.getContext('2d');
      const image = context.createImageData(width, 1);
      this.strip = {canvas, context, image, points: new Uint32Array(image.data.buffer), used: false};
    }
    this.strip.used = false;
    this.strip.points.fill(0);
    return this.strip;
  }
  drawStrip(strip, y, height) {
    strip.context.putImageData(strip.image, 0, 0);
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(strip.canvas, this.gutter, y, strip.canvas.width, height);
  }
  // The busier, the stronger; the more of it in calls, the bluer. (Bytes are red, green, blue, alpha.)
  shadeOfPoint(share, calls) {
    return this.mixture(share, [share * (1 - calls), 0, 0, share * calls]);
  }
  // The colours of states, by how much there is of each.
  mixture(share, parts) {
    const numbers = this.colours.numbers, all = parts[RUNNING] + parts[RUNNABLE] + parts[SYSCALL] || 1;
    const channel = i => Math.round((numbers[RUNNING][i] * parts[RUNNING] + numbers[RUNNABLE][i] * parts[RUNNABLE] +
                                     numbers[SYSCALL][i] * parts[SYSCALL]) / all);
    return (Math.round(255 * (0.15 + 0.85 * Math.min(share, 1))) << 24 | channel(2) << 16 | channel(1) << 8 | channel(0)) >>> 0;
  }

  drawGoroutine({g, depth, height: whole}, y) {
    const height = whole - depth * REGION_HEIGHT;
    const {model, context, colours, view} = this, spans = model.span, list = this.questions.spansOf(g);
    const left = this.gutter, right = left + this.width, scale = this.width / (view.to - view.from);
    const sums = this.questions.sumsOf(g), strip = this.emptyStrip();
    for (let i = firstFrom(list, spans.end, view.from); i < list.length && spans.begin[list[i]] < view.to; i++) {
      const span = list[i];
      const from = Math.max(this.x(spans.begin[span]), left), to = Math.min(this.x(spans.end[span]), right);
      if ((spans.end[span] - spans.begin[span]) * scale < 1.5) {
        i = this.pointOfMany(strip, sums, i, from, scale) - 1;
        continue;
      }
      const what = spans.what[span], thin = what === WAITING;
      context.fillStyle = colours.states[what];
      const top = y + (thin ? height / 2 - 2 : 4), tall = thin ? 4 : height - 9;
      context.fillRect(from, top, Math.max(to - from, 0.8), tall);
      if (span === this.selected) this.outline(from, y + 3, to - from, height - 7);
      if (!thin && to - from > 60) this.write(this.questions.describe(span), from, to, y + height / 2, colours.onState[what]);
      if (thin && to - from > 90) {
        context.font = '11px system-ui, "DejaVu Sans", sans-serif';
        const text = this.shorten(this.questions.reason(span) || 'waiting', to - from - 24);
        const wide = context.measureText(text).width + 10, middle = (from + to) / 2;
        context.fillStyle = colours.paper;
        context.fillRect(middle - wide / 2, y + 4, wide, height - 9);
        context.fillStyle = colours.soft;
        context.textAlign = 'center';
        context.fillText(text, middle, y + height / 2);
      }
    }
    if (strip.used) this.drawStrip(strip, y + 4, height - 9);
    const selected = this.selected;
    if (selected >= 0 && spans.g[selected] === g && (spans.end[selected] - spans.begin[selected]) * scale < 1.5) {
      this.outline(this.x(spans.begin[selected]), y + 3, 2, height - 7);
    }
    this.drawRegions(g, y + height);
  }
  // Of a goroutine: everything that begins within one point of the screen, from the span at `i` on.
  // Returns where to go on.
  pointOfMany(strip, sums, i, x, scale) {
    const left = this.gutter, begin = sums.begin;
    const point = Math.floor(x), nextTime = this.view.from + (point + 1 - left) / scale;
    let next = Math.max(nextFrom(begin, nextTime, i), i + 1);
    const last = next < begin.length ? begin[next] : Infinity;
    if (next - 1 > i && (last - begin[next - 1]) * scale >= 1.5) next--;
    const parts = sums.time.map(time => (time[next] - time[i]) * scale);
    const share = parts[RUNNING] + parts[RUNNABLE] + parts[SYSCALL];
    strip.points[point - left] = share > 0 ? this.mixture(share, parts) : 0;
    strip.used = true;
    return next;
  }
  // What the goroutine called its work, below it.
  drawRegions(g, y) {
    const context = this.context, right = this.gutter + this.width, strings = this.model.strings;
    const drawnTo = new Array(MOST_DEPTH).fill(-1);
    for (const region of this.questions.regionsOf(g)) {
      if (region.depth >= MOST_DEPTH || region.end < this.view.from || region.begin > this.view.to) continue;
      const from = Math.max(this.x(region.begin), this.gutter), to = Math.max(Math.min(this.x(region.end), right), from + 1);
      if (to <= drawnTo[region.depth]) continue;
      drawnTo[region.depth] = to;
      const top = y + region.depth * REGION_HEIGHT - 2;
      context.globalAlpha = 0.28;
      context.fillStyle = this.colours.accent;
      context.fillRect(from, top, Math.max(to - from - 0.7, 0.8), REGION_HEIGHT - 2);
      context.globalAlpha = 1;
      if (to - from > 34) this.write(strings[region.name], from, to, top + REGION_HEIGHT / 2 - 1, this.colours.ink);
    }
  }

  emphasised() {
    const span = this.hovered >= 0 ? this.hovered : this.selected;
    return span >= 0 ? this.model.span.g[span] : -1;
  }
  outline(x, y, width, height) {
    const context = this.context;
    context.strokeStyle = this.colours.ink;
    context.lineWidth = 1.5;
    context.strokeRect(x - 0.5, y - 0.5, Math.max(width, 2) + 1, height + 1);
  }
  label(span, from, to, y, height, dim) {
    const g = this.model.span.g[span];
    const name = this.questions.name(g);
    const text = to - from > 90 ? `${this.questions.title(g)} ${name}` : this.questions.title(g);
    const colours = this.colours;
    this.write(text, from, to, y + height / 2, dim ? colours.soft : colours.onState[this.model.span.what[span]]);
  }
  write(text, from, to, y, colour) {
    const context = this.context;
    context.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
    context.fillStyle = colour;
    context.textAlign = 'left';
    context.fillText(this.shorten(text, to - from - 9), from + 5, y + 0.5);
  }
  shorten(text, width) {
    const context = this.context;
    if (width < 8) return '';
    if (context.measureText(text).width <= width) return text;
    let low = 0, high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(text.slice(0, middle) + '…').width <= width) low = middle; else high = middle - 1;
    }
    return low > 1 ? text.slice(0, low) + '…' : '';
  }

  // From whoever woke a goroutine to where it went on.
  drawArrows() {
    const spans = this.model.span;
    const arrows = [];
    if (this.bars.length / 4 <= MOST_ARROWS && this.selected < 0) {
      for (let i = 0; i < this.bars.length; i += 4) arrows.push(this.bars[i]);
    }
    if (this.selected >= 0) arrows.push(...this.related(this.selected));
    const strong = this.selected >= 0;
    for (const span of arrows) {
      if (spans.what[span] !== RUNNING) continue;
      const cause = this.model.before[span];
      if (cause < 0 || spans.what[cause] !== RUNNABLE || spans.byP[cause] < 0) continue;
      // On one row they say little and hide much.
      if (!strong && spans.byP[cause] === spans.p[span]) continue;
      this.arrow(spans.begin[cause], spans.byP[cause], spans.begin[span], spans.p[span], strong);
    }
  }
  // The selected turn, and the turns of those whom it woke.
  related(selected) {
    const spans = this.model.span, list = [selected];
    if (spans.what[selected] !== RUNNING) return list;
    const woken = this.questions.wokenBy(spans.g[selected]);
    for (let i = firstFrom(woken, spans.begin, spans.begin[selected]); i < woken.length; i++) {
      if (spans.begin[woken[i]] > spans.end[selected] || list.length > MOST_ARROWS) break;
      const turn = this.questions.after(woken[i]);
      if (turn >= 0) list.push(turn);
    }
    return list;
  }
  arrow(fromTime, fromP, toTime, toP, strong) {
    const fromRow = this.rows[this.rowOfP.get(fromP)], toRow = this.rows[this.rowOfP.get(toP)];
    if (!fromRow || !toRow) return;
    const limit = 4 * this.width;
    const x1 = Math.max(this.x(fromTime), -limit), x2 = Math.min(this.x(toTime), limit);
    if (x2 < this.gutter || x1 > this.gutter + this.width) return;
    const down = toRow.top > fromRow.top, same = toRow === fromRow;
    if (same && x2 - x1 < 8) return;
    // Within one row it bends between the row's upper edge and what is written on the bars.
    const inset = same ? 10 : 4;
    const y1 = down ? this.y(fromRow) + fromRow.height - inset : this.y(fromRow) + inset;
    const y2 = down || same ? this.y(toRow) + inset : this.y(toRow) + toRow.height - inset;
    const context = this.context;
    context.save();
    context.beginPath();
    context.rect(this.gutter, AXIS, this.width, this.visible);
    context.clip();
    context.globalAlpha = strong ? 0.95 : 0.38;
    context.strokeStyle = context.fillStyle = this.colours.ink;
    context.lineWidth = strong ? 1.4 : 1;
    const bend = Math.min(Math.max((x2 - x1) / 2, 8), 60), lift = same ? 9 : 0;
    context.beginPath();
    context.moveTo(x1, y1);
    context.bezierCurveTo(x1 + bend, y1 - lift, x2 - bend, y2 - lift, x2, y2);
    context.stroke();
    context.beginPath();
    context.moveTo(x2, y2);
    context.lineTo(x2 - 5, y2 - 3);
    context.lineTo(x2 - 5, y2 + 3);
    context.fill();
    context.beginPath();
    context.arc(x1, y1, 1.8, 0, 7);
    context.fill();
    context.restore();
  }

  drawMeasure(height) {
    if (!this.measured) return;
    const context = this.context, from = this.x(this.measured.from), to = this.x(this.measured.to);
    context.globalAlpha = 0.14;
    context.fillStyle = this.colours.accent;
    context.fillRect(from, AXIS, to - from, height);
    context.globalAlpha = 1;
    context.fillRect(from, AXIS, 1, height);
    context.fillRect(to, AXIS, 1, height);
  }
  // Above the section's line, which would hide it; in the middle of what is seen of it.
  labelMeasure() {
    if (!this.measured) return;
    const context = this.context;
    const from = Math.max(this.x(this.measured.from), this.gutter);
    const to = Math.min(this.x(this.measured.to), this.gutter + this.width);
    if (to < from) return;
    context.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
    context.textAlign = 'center';
    context.fillStyle = this.colours.ink;
    context.fillText(duration(this.measured.to - this.measured.from), (from + to) / 2, AXIS + 13);
  }

  // The whole trace: how many goroutines run, are in calls, and want to run.
  drawOverview() {
    const {context, width, height} = fitCanvas(this.overviewCanvas), colours = this.colours;
    context.clearRect(0, 0, width, height);
    const left = this.gutter, wide = width - left;
    const picture = this.overviewPicture(Math.round(wide), height);
    context.drawImage(picture.canvas, left, 0, wide, height);
    context.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
    context.textBaseline = 'middle';
    context.fillStyle = colours.soft;
    context.textAlign = 'left';
    context.fillText(left < GUTTER ? 'awake' : 'goroutines', 10, height / 2);
    context.fillStyle = colours.faint;
    context.fillText(left < GUTTER ? '' : 'awake', 10, height / 2 + 15);
    context.textAlign = 'right';
    context.fillText(count(Math.round(picture.top)), left - 8, 12);
    const from = left + this.view.from / this.model.end * wide, to = left + this.view.to / this.model.end * wide;
    context.fillStyle = colours.paper;
    context.globalAlpha = 0.66;
    context.fillRect(left, 0, from - left, height);
    context.fillRect(to, 0, width - to, height);
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.5;
    context.strokeRect(Math.min(from, width - 3), 1, Math.max(to - from, 2), height - 2);
  }

  // It does not change while one zooms.
  overviewPicture(width, height) {
    const kept = this.picture;
    if (kept && kept.model === this.model && kept.colours === this.colours &&
        kept.width === width && kept.height === height) {
      return kept;
    }
    const data = this.model.overview, steps = data.length / 4, order = [RUNNING, SYSCALL, RUNNABLE];
    const ratio = window.devicePixelRatio || 1;
    const canvas = element('canvas', {width: Math.max(1, Math.round(width * ratio)), height: Math.round(height * ratio)});
    const context = canvas.getContext('2d'), columns = canvas.width;
    const at = (column, what) => data[4 * Math.min(Math.floor(column / columns * steps), steps - 1) + what];
    const sums = Float64Array.from({length: columns}, (_, x) => order.reduce((sum, what) => sum + at(x, what), 0)).sort();
    // A single peak should not flatten all the rest.
    const top = Math.max(Math.min(sums[columns - 1], sums[Math.floor(columns * 0.98)] * 1.6), 1);
    const floor = canvas.height - 4 * ratio, high = canvas.height - 12 * ratio;
    const base = new Float64Array(columns);
    for (const what of order) {
      context.fillStyle = this.colours.states[what];
      for (let x = 0; x < columns; x++) {
        const from = Math.min(base[x], top), to = Math.min(base[x] += at(x, what), top);
        if (to > from) context.fillRect(x, floor - to / top * high, 1, (to - from) / top * high);
      }
    }
    this.picture = {model: this.model, width, height, colours: this.colours, canvas, top};
    return this.picture;
  }

  // The span below a place of the canvas; -1: none.
  spanAt(x, y) {
    if (!this.model || y < AXIS || x < this.gutter) return -1;
    const row = this.rows.find(each => y >= this.y(each) && y < this.y(each) + each.height);
    if (!row || row.kind === 'section') return -1;
    const time = this.timeAt(x), slack = 2 * (this.view.to - this.view.from) / this.width;
    if (row.kind === 'g') {
      const spans = this.model.span;
      const list = this.questions.spansOf(row.g);
      for (let low = 0, high = list.length; low < high;) {
        const middle = (low + high) >> 1;
        if (spans.end[list[middle]] < time) low = middle + 1;
        else if (spans.begin[list[middle]] > time) high = middle;
        else return list[middle];
      }
      return -1;
    }
    const busy = row.kind === 'p' ? this.model.pRows[row.p] : this.model.mRows[row.m];
    const place = lowerBound(busy.begin, time) - 1;
    if (place >= 0 && time < busy.end[place]) return busy.index[place];
    let nearest = -1, gap = slack;
    for (const each of [place, place + 1]) {
      if (each < 0 || each >= busy.begin.length) continue;
      const away = time < busy.begin[each] ? busy.begin[each] - time : time - busy.end[each];
      if (away <= gap) {
        gap = away;
        nearest = busy.index[each];
      }
    }
    return nearest;
  }

  // Hands.

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener('wheel', event => this.wheel(event), {passive: false});
    canvas.addEventListener('pointerdown', event => this.down(event));
    canvas.addEventListener('pointermove', event => this.movePointer(event));
    canvas.addEventListener('pointerup', event => this.up(event));
    canvas.addEventListener('pointercancel', event => this.up(event));
    canvas.addEventListener('pointerleave', () => {
      this.pointerX = null;
      this.hover(-1, null);
    });
    canvas.addEventListener('dblclick', event => this.zoom(0.25, this.timeAt(event.offsetX)));
    const overview = this.overviewCanvas;
    let start = null;
    const timeOf = event => {
      const left = this.gutter;
      return Math.min(Math.max((event.offsetX - left) / (overview.clientWidth - left), 0), 1) * this.model.end;
    };
    overview.addEventListener('pointerdown', event => {
      overview.setPointerCapture(event.pointerId);
      start = {time: timeOf(event), x: event.offsetX};
    });
    overview.addEventListener('pointermove', event => {
      if (start === null) return;
      const time = timeOf(event);
      if (Math.abs(event.offsetX - start.x) > 4) this.look(Math.min(start.time, time), Math.max(start.time, time), true);
    });
    overview.addEventListener('pointerup', event => {
      if (start !== null && Math.abs(event.offsetX - start.x) <= 4) {
        const half = (this.goal.to - this.goal.from) / 2;
        this.look(start.time - half, start.time + half);
      }
      start = null;
    });
    overview.addEventListener('dblclick', () => this.look(0, this.model.end));
  }

  wheel(event) {
    if (!this.model) return;
    event.preventDefault();
    const step = event.deltaMode === 1 ? 20 : 1;
    const across = (event.shiftKey ? event.deltaY : event.deltaX) * step;
    // With nothing to scroll the wheel alone zooms, too.
    const upright = !event.shiftKey && Math.abs(event.deltaY) > Math.abs(event.deltaX);
    if (event.ctrlKey || event.metaKey || (this.lowest === 0 && upright)) {
      this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY * step)) * 0.008), this.timeAt(event.offsetX), true);
    } else if (across !== 0) {
      const time = across / this.width * (this.goal.to - this.goal.from);
      this.look(this.goal.from + time, this.goal.to + time, true);
    } else {
      this.scrollBy(event.deltaY * step);
    }
  }

  down(event) {
    if (!this.model) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.focus({preventScroll: true});
    this.pointers.set(event.pointerId, {x: event.offsetX, y: event.offsetY});
    this.drag = {x: event.offsetX, y: event.offsetY, view: {...this.view}, scroll: this.scroll, far: false,
                 measure: event.shiftKey, time: this.timeAt(event.offsetX)};
    if (this.pointers.size === 2) {
      const [a, b] = [...this.pointers.values()];
      this.pinch = {gap: Math.max(Math.abs(a.x - b.x), 10), at: this.timeAt((a.x + b.x) / 2), view: {...this.view}};
      this.drag.far = true;
    }
  }
  movePointer(event) {
    if (!this.model) return;
    const pointer = this.pointers.get(event.pointerId);
    this.pointerX = event.offsetX >= this.gutter ? event.offsetX : null;
    if (!pointer) {
      this.hover(this.spanAt(event.offsetX, event.offsetY), event);
      return;
    }
    pointer.x = event.offsetX;
    pointer.y = event.offsetY;
    if (this.pinch && this.pointers.size === 2) {
      const [a, b] = [...this.pointers.values()];
      const factor = this.pinch.gap / Math.max(Math.abs(a.x - b.x), 10);
      const {from, to} = this.pinch.view, at = this.pinch.at;
      this.look(at - (at - from) * factor, at + (to - at) * factor, true);
      return;
    }
    const drag = this.drag, dx = event.offsetX - drag.x, dy = event.offsetY - drag.y;
    if (!drag.far && Math.hypot(dx, dy) < 4) return;
    drag.far = true;
    this.hover(-1, null);
    if (drag.measure) {
      const time = this.timeAt(event.offsetX);
      this.measured = {from: Math.min(drag.time, time), to: Math.max(drag.time, time)};
      this.draw();
      return;
    }
    this.canvas.classList.add('dragging');
    const time = dx / this.width * (drag.view.to - drag.view.from);
    this.scroll = drag.scroll - dy;
    this.look(drag.view.from - time, drag.view.to - time, true);
  }
  up(event) {
    this.pointers.delete(event.pointerId);
    if (this.pointers.size < 2) this.pinch = null;
    this.canvas.classList.remove('dragging');
    const drag = this.drag;
    if (!drag || this.pointers.size > 0 || event.type === 'pointercancel') return;
    this.drag = null;
    if (drag.measure && drag.far) {
      this.on.measure(this.measured.from, this.measured.to);
    } else if (!drag.far) {
      this.measured = null;
      this.on.select(this.spanAt(event.offsetX, event.offsetY));
    }
  }
  hover(span, event) {
    this.canvas.classList.toggle('pointing', span >= 0);
    this.on.hint(span, event);
    if (span === this.hovered) return;
    this.hovered = span;
    this.draw();
  }
}
