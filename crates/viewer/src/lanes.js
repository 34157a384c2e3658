// The swim-lanes: state, drawing order and selection. The drawing itself is in paint-*.js, the input in input.js.

import { h } from './dom.js';
import { count, exactMoment } from './format.js';
import { crowdOf, fold, orderLanes } from './fold.js';
import { describe, spoken, summary } from './describe.js';
import { Palette, Room } from './palette.js';
import { CROWD_FROM, firstFrom, Layout, View } from './view.js';
import { paintAxis, paintCrowd, paintFaults, paintLeases, paintNames } from './paint-frame.js';
import { paintBarLabels, paintBars } from './paint-bars.js';
import { paintChoice, paintCrosshair, paintCut, paintCycles, paintLeaseEnds, paintOverlapShade, paintOverlaps, paintRegister } from './paint-marks.js';
import { Overview } from './overview.js';
import { bindKeys, bindPointer } from './input.js';

const HELP = 'Arrow keys move between marks and lanes. Plus and minus zoom, Shift with arrows pans, 0 shows the whole run, P shows the proof, Escape lets go. The same events are in the table below.';

export class Lanes {
  constructor(root, { onPick, name = 'Swim-lanes of the run' } = {}) {
    this.root = root;
    this.name = name;
    this.linked = null;
    this.onPick = onPick;
    this.view = new View();
    this.pick = this.hover = this.cross = null;
    this.build();
    this.palette = new Palette(this.canvas);
    this.overview = new Overview(this);
    bindKeys(this);
    bindPointer(this);
    new ResizeObserver(() => this.resized()).observe(root);
    addEventListener('themechange', () => this.recolour());
    addEventListener('beforeprint', () => this.forPaper(true));
    addEventListener('afterprint', () => this.forPaper(false));
    this.resized();
  }

  build() {
    const button = (text, label, act) => h('button', { type: 'button', 'aria-label': label, title: label, onclick: act }, text);
    this.range = h('span', { class: 'range' });
    this.orderButton = button('By first entry', 'Order the lanes by who came in first, or by name', () => this.toggleOrder());
    this.proofButton = button('Show the proof', 'Zoom to the events that decide the verdict (P)', () => this.showProof());
    const bar = h('div', { class: 'lanes-bar' }, this.range, this.orderButton, this.proofButton,
      button('Fit', 'Show the whole run (0)', () => this.fit()),
      button('−', 'Zoom out (minus)', () => this.zoom(1.6)),
      button('+', 'Zoom in (plus)', () => this.zoom(1 / 1.6)));
    this.mini = h('canvas', { 'aria-hidden': 'true' });
    this.canvas = h('canvas', { 'aria-hidden': 'true' });
    this.tip = h('div', { class: 'tip', 'aria-hidden': 'true' });
    this.hint = h('div', { class: 'hint', 'aria-hidden': 'true' }, 'Click into the lanes, or hold Ctrl, to zoom with the wheel');
    this.field = h('div', { class: 'lanes-view', tabindex: 0, role: 'application', 'aria-roledescription': 'timeline', 'aria-label': this.name, 'aria-describedby': `${this.root.id}-help` }, this.canvas, this.tip, this.hint);
    this.live = h('div', { class: 'lanes-say', role: 'status', 'aria-live': 'polite' });
    this.left = h('p', { class: 'lanes-left', hidden: true });
    this.root.classList.add('lanes');
    this.root.append(bar, h('div', { class: 'lanes-mini' }, this.mini), this.field, this.left, this.live, h('p', { class: 'sr', id: `${this.root.id}-help` }, HELP));
  }

  show(run) {
    this.take(run);
    this.live.textContent = summary(this.model);
    this.fit();
    this.drawNow();
  }

  // For a run that is still going: open intervals reach to now, and the axis to the expected end.
  grow(run, now, plan) {
    this.take(run, now);
    this.view.end = Math.max(this.model.end, plan);
    this.view.fit();
    this.drawNow();
  }

  take(run, now) {
    this.run = run;
    this.model = fold(run, now);
    this.model.crowd = this.crowd();
    this.model.cut = run.leftOut ? (run.events[run.whole - 1]?.t ?? 0) : null;
    const many = this.model.lanes.length >= CROWD_FROM;
    this.byFirst ??= true;
    orderLanes(this.model, many && this.byFirst);
    this.orderButton.hidden = !many;
    this.orderButton.setAttribute('aria-pressed', String(this.byFirst));
    this.proofButton.hidden = !this.proof().length;
    this.proofButton.textContent = 'Show the proof';
    this.proofStep = 0;
    this.left.hidden = !run.leftOut;
    this.left.textContent = run.leftOut ? leftOutWords(run) : '';
    this.layout = new Layout(this.model);
    this.view.end = this.model.end;
    this.pick = this.hover = this.cross = null;
    this.showTip(null);
  }

  // With many lanes, a row shows how many processes were inside. In a sale the bars are longer than the work, so the row is shown
  // only if the lock does not claim to exclude others.
  crowd() {
    const { model, run } = this;
    if (model.lanes.length < CROWD_FROM) return null;
    if (model.isSale) {
      if (run.claims_exclusion || !model.works.length) return null;
      return { ...crowdOf(model.works), word: 'at work at once', allowed: false, bad: false };
    }
    if (!model.holds.length) return null;
    const crowd = crowdOf(model.holds);
    return { ...crowd, word: 'holders at once', allowed: true, bad: model.broken && crowd.peak > 1 };
  }

  // Links two pictures, so that both always show the same part of the axis.
  link(other) {
    if (this.linked) this.linked.linked = null;
    this.linked = other;
    this.view.end = Math.max(this.model.end, other?.model.end ?? 0);
    if (other) {
      other.linked = this;
      other.view.end = this.view.end;
    }
    this.overview.forget();
    this.fit();
  }

  follow({ from, to }) {
    if (from === this.view.from && to === this.view.to) return;
    Object.assign(this.view, { from, to });
    this.drawNow();
  }

  toggleOrder() {
    this.byFirst = !this.byFirst;
    this.orderButton.setAttribute('aria-pressed', String(this.byFirst));
    orderLanes(this.model, this.byFirst);
    this.overview.forget();
    this.draw();
  }

  resized() {
    this.view.resize(this.root.clientWidth - 2);
    this.drawNow();
  }

  recolour() {
    this.palette.refresh();
    this.overview.forget();
    this.draw();
  }

  forPaper(isPrinting) {
    const root = document.documentElement;
    if (isPrinting) this.themeBefore = root.dataset.theme;
    root.dataset.theme = isPrinting ? 'light' : this.themeBefore;
    this.palette.refresh();
    this.overview.forget();
    this.resolution = isPrinting ? 3 : null;
    this.resized();
  }

  fit() {
    this.view.fit();
    this.draw();
  }

  zoom(factor, around) {
    this.view.zoom(factor, around);
    this.draw();
  }

  pan(us) {
    this.view.pan(us);
    this.draw();
  }

  frame(from, to) {
    this.view.show(from, to);
    this.draw();
  }

  // The events that the verdict names.
  proof() {
    return this.run.evidence.map(evidence => this.run.byNumber(evidence.event)).filter(Boolean);
  }

  // Shows all of them in one view; pressed again, one after the other.
  showProof() {
    const events = this.proof();
    if (!events.length) return;
    const step = this.proofStep++ % (events.length + 1);
    if (step === 0) {
      const times = events.map(event => event.t);
      const [from, to] = [Math.min(...times), Math.max(...times)];
      const room = Math.max((to - from) * 0.12, this.model.end * 0.01, 100);
      this.choose(null);
      this.frame(from - room, to + room);
    } else {
      const event = events[step - 1];
      const room = Math.max(this.model.end * 0.002, 200);
      this.view.show(event.t - room, event.t + room);
      this.focusEvent(event.n);
    }
    this.proofButton.textContent = step === events.length ? 'All of the proof' : `Next: proof ${step + 1} of ${events.length}`;
  }

  draw() {
    this.frameRequest ??= requestAnimationFrame(() => {
      this.frameRequest = null;
      this.drawNow();
    });
  }

  drawNow() {
    const { palette, view, layout, model } = this;
    if (!model || view.width < 60) return;
    const started = performance.now();
    const resolution = this.resolution ?? (devicePixelRatio || 1);
    palette.size(view.width, layout.height, resolution);
    const scene = { palette, view, layout, model, pick: this.pick, hover: this.hover, cross: this.cross, room: new Room() };
    if (!model.lanes.length) {
      palette.font(13);
      palette.text('Nothing was recorded: there is nothing to draw.', view.width / 2, layout.height / 2, palette.c['ink-3'], 'center');
      return;
    }
    paintAxis(scene);
    paintFaults(scene);
    paintNames(scene);
    palette.clipped(view.left, layout.axis, view.width - view.left, layout.height, () => {
      for (const paint of [paintLeases, paintCrowd, paintOverlapShade, paintBars, paintLeaseEnds, paintOverlaps, paintCycles, paintBarLabels, paintCut, paintRegister, paintChoice]) paint(scene);
    });
    paintCrosshair(scene);
    palette.g.strokeStyle = palette.c['line-2'];
    palette.vertical(view.left - 1, 0, layout.height);
    this.range.textContent = this.rangeWords();
    this.overview.draw(resolution);
    this.linked?.follow(view);
    this.took = performance.now() - started;
  }

  rangeWords() {
    const { view, run, model } = this;
    const range = view.isWhole ? 'whole run' : `${exactMoment(Math.max(0, view.from))} to ${exactMoment(Math.min(model.end, view.to))}`;
    return `${range} · ${count(run.total)} events`;
  }

  // The mark under the pointer, with a little tolerance.
  at(x, y) {
    const { view, layout, model } = this;
    const t = view.t(x);
    const slack = view.t(x + 7) - t;
    const nearest = items => {
      let [best, least] = [null, Infinity];
      for (const item of items) {
        const away = t < item.t0 ? item.t0 - t : t > item.t1 ? t - item.t1 : 0;
        const score = away + (item.t1 - item.t0) * 1e-6;
        if (away <= slack && score < least) [best, least] = [item, score];
      }
      return best;
    };
    if (x < view.left || y < layout.axis) return null;
    if (y < layout.leaseTop) return nearest(model.faults);
    if (y < layout.crowdTop) return nearest(model.leases.filter(lease => Math.min(lease.key, layout.leaseRows - 1) === layout.leaseRowAt(y)));
    if (y < layout.top) return null;
    if (y >= layout.bottom - 2) return nearest(model.ops.slice(Math.max(0, firstFrom(model.ops, t - slack) - 1), firstFrom(model.ops, t + slack) + 1));
    const lane = model.lanes[Math.floor((y - layout.top) / layout.lane)];
    if (!lane) return null;
    const near = lane.items.slice(firstFrom(lane.items, t - lane.longest - slack), firstFrom(lane.items, t + slack) + 1);
    const row = item => !layout.twoKeys || !['hold', 'wait'].includes(item.type) || (y - layout.laneTop(lane) < layout.lane / 2) === (item.key === 0);
    for (const types of [['kill', 'step', 'note'], ['pause'], ['hold', 'work'], ['wait']]) {
      const found = nearest(near.filter(item => types.includes(item.type) && row(item)));
      if (found) return found;
    }
    return null;
  }

  middleOf(item) {
    const { layout } = this;
    if (item.type === 'op') return layout.registerMiddle;
    if (item.type === 'lease') return layout.leaseRow(item.key) + 13;
    if (item.type === 'fault') return layout.axis + 11;
    return layout.laneMiddle(item.lane);
  }

  showTip(item, x = 0, y = 0) {
    const words = item && describe(item, this.model);
    if (!words) {
      this.tip.classList.remove('on');
      return;
    }
    this.tip.replaceChildren(h('b', {}, words.title), h('dl', {}, words.rows.flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, String(value))])));
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const room = this.view.width;
    let left = x + 16;
    if (left + width > room - 4) left = x - width - 16;
    if (left < 4) left = Math.max(4, Math.min(room - width - 4, x - width / 2));
    let top = y + 18;
    if (top + height > this.layout.height + 30) top = y - height - 14;
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${Math.max(-height / 2, top)}px`;
    this.tip.classList.add('on');
  }

  choose(item, { reveal = false, tip = false } = {}) {
    this.pick = item;
    if (item && reveal) this.reveal(item);
    const words = item && describe(item, this.model);
    this.live.textContent = words ? spoken(words) : summary(this.model);
    this.draw();
    if (tip && item) {
      const { view } = this;
      const middle = (Math.max(item.t0, view.from) + Math.min(item.t1, view.to)) / 2;
      this.showTip(item, Math.max(view.left, Math.min(view.x(middle), view.width - 20)), this.middleOf(item));
    } else {
      this.showTip(null);
    }
    this.onPick?.(item);
  }

  reveal(item) {
    const { view } = this;
    const length = item.t1 - item.t0;
    const isVisible = item.t0 >= view.from && Math.min(item.t1, item.t0 + view.span) <= view.to;
    const isTiny = length > 0 && view.x(item.t1) - view.x(item.t0) < 1;
    if (isVisible && !isTiny) return;
    const span = isTiny ? Math.max(length * 40, 200) : Math.max(view.span, length * 1.2);
    const middle = (item.t0 + item.t1) / 2;
    view.show(middle - span / 2, middle + span / 2);
  }

  focusEvent(n) {
    const event = this.run.byNumber(n);
    const item = this.model.marks.get(n);
    if (!event) return;
    if (item) this.choose(item, { reveal: true, tip: true });
    this.cross = this.view.x(event.t);
    this.draw();
  }

  // The rows that the arrow keys visit, from top to bottom.
  rows() {
    const { model } = this;
    return [model.faults, model.leases, ...model.lanes.map(lane => lane.items), model.ops].filter(row => row.length);
  }

  walk(key) {
    const rows = this.rows();
    if (!rows.length) return;
    let row = rows.findIndex(items => items.includes(this.pick));
    if (row < 0) {
      row = rows.findIndex(items => items[0].lane && items[0].type !== 'fault');
      this.choose(rows[Math.max(row, 0)][0], { reveal: true, tip: true });
      return;
    }
    let at = rows[row].indexOf(this.pick);
    if (key === 'ArrowRight') at = Math.min(at + 1, rows[row].length - 1);
    else if (key === 'ArrowLeft') at = Math.max(at - 1, 0);
    else if (key === 'Home') at = 0;
    else if (key === 'End') at = rows[row].length - 1;
    else {
      row = Math.max(0, Math.min(rows.length - 1, row + (key === 'ArrowDown' ? 1 : -1)));
      const { t0 } = this.pick;
      at = rows[row].reduce((best, item, index) => (Math.abs(item.t0 - t0) < Math.abs(rows[row][best].t0 - t0) ? index : best), 0);
    }
    this.cross = null;
    this.choose(rows[row][at], { reveal: true, tip: true });
  }
}

function leftOutWords(run) {
  if (!run.whole) return `This run has ${count(run.total)} events; the page carries only those that decide the verdict. The whole history: --history FILE.`;
  const kept = run.events.length - run.whole;
  const named = kept ? ` (of those, the ${count(kept)} that the verdict names are kept)` : '';
  return `The first ${count(run.whole)} of ${count(run.total)} events are drawn; ${count(run.total - run.whole)} later ones are left out${named}. The whole history: --history FILE.`;
}
