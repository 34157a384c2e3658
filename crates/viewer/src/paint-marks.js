// Draws what deserves attention: overlaps, wait cycles, ends of leases, operations on the number, and the selection.

import { duration, exactMoment } from './format.js';
import { firstFrom } from './view.js';

// Red is used only if the verdict is BROKEN; an overlap of belief that convicts nobody is an outline.
export function paintOverlapShade({ palette, view, layout, model }) {
  const { g, c } = palette;
  if (!model.broken) return;
  g.fillStyle = c['bad-soft'];
  for (const overlap of model.overlaps) {
    if (!view.sees(overlap)) continue;
    const { top, bottom } = extent(layout, overlap);
    const from = Math.round(view.x(overlap.t0));
    const to = Math.round(view.x(overlap.t1));
    if (to > from) g.fillRect(from, top, to - from, bottom - top);
  }
}

function extent(layout, overlap) {
  const tops = overlap.holders.map(hold => layout.barTop(hold));
  return { tops, top: Math.min(...tops), bottom: Math.max(...tops) + layout.bar };
}

export function paintOverlaps(scene) {
  const before = new Map();
  for (const overlap of scene.model.overlaps) {
    const previous = before.get(overlap.key);
    const joins = (previous?.t1 === overlap.t0 ? previous.holders.length : 1) < overlap.holders.length;
    before.set(overlap.key, overlap);
    if (scene.view.sees(overlap)) paintOverlap(scene, overlap, joins);
  }
}

function paintOverlap({ palette, view, layout, model, room }, overlap, joins) {
  const { g, c } = palette;
  const bad = model.broken;
  const colour = bad ? c['bad-fill'] : c['ink-2'];
  const { tops, top, bottom } = extent(layout, overlap);
  const [from, to] = [view.x(overlap.t0), view.x(overlap.t1)];
  if (bad) {
    g.fillStyle = colour;
    const thick = layout.roomy && !layout.twoKeys ? 3 : 2;
    for (const y of tops) g.fillRect(from, layout.roomy ? y + layout.bar + 1 : y + layout.bar - 2, Math.max(to - from, 1), thick);
  } else {
    g.strokeStyle = colour;
    palette.dashed([4, 3], () => g.strokeRect(Math.round(from) + 0.5, top - 3.5, Math.max(to - from, 1), bottom - top + 7));
  }
  if (!layout.roomy) return;
  if (joins) {
    g.strokeStyle = colour;
    g.lineWidth = 1.75;
    palette.dashed(bad ? [] : [4, 3], () => palette.vertical(from, top, bottom));
    for (const y of tops) {
      g.beginPath();
      g.arc(from, y + layout.bar / 2, 4, 0, 7);
      g.fillStyle = bad ? colour : c.panel;
      g.fill();
      g.strokeStyle = bad ? c.panel : colour;
      g.lineWidth = 1.5;
      g.stroke();
      room.reserve(from - 6, y + layout.bar / 2 - 6, 12, 12);
    }
    g.lineWidth = 1;
  }
  overlapWords({ palette, view, layout, room }, overlap, bad, colour);
}

// The label "2 holders · 0.9 ms", inside the overlap or, if that is too short, next to it.
function overlapWords({ palette, view, layout, room }, overlap, bad, colour) {
  const { g, c } = palette;
  palette.font(11, 600);
  const word = `${overlap.holders.length} ${bad ? 'holders' : 'believe'}${layout.twoKeys ? ` · ${overlap.holders[0].keyName}` : ''}`;
  const long = `${word} · ${duration(overlap.t1 - overlap.t0)}`;
  const lowest = Math.max(...overlap.holders.map(hold => layout.barTop(hold)));
  const [from, to] = [view.x(overlap.t0), view.x(overlap.t1)];
  const places = [
    [Math.max(from, view.left) + 8, lowest - (layout.lane - layout.bar) / 2 - 8],
    [Math.min(to, view.right) + 8, lowest - (layout.lane - layout.bar) / 2 - 8],
    [Math.max(from, view.left) - palette.width(long) - 20, lowest - (layout.lane - layout.bar) / 2 - 8],
  ];
  for (const [x, y] of places) {
    for (const text of [long, word]) {
      const width = palette.width(text) + 12;
      if (x < view.left || x + width > view.right || !room.isFree(x, y, width, 16)) continue;
      room.reserve(x, y, width, 16);
      g.fillStyle = bad ? colour : c.panel;
      g.beginPath();
      g.roundRect(x, y, width, 16, 3);
      g.fill();
      if (!bad) {
        g.strokeStyle = colour;
        g.stroke();
      }
      palette.text(text, x + 6, y + 8.5, bad ? c['on-bad'] : c.ink);
      return;
    }
  }
}

export function paintCycles({ palette, view, layout, model, room }) {
  if (!layout.roomy) return;
  const { g, c } = palette;
  for (const cycle of model.cycles) {
    if (!view.sees(cycle)) continue;
    const [from, to] = [Math.max(view.x(cycle.t0), view.left), Math.min(view.x(cycle.t1), view.right)];
    const tops = cycle.lanes.map(lane => layout.laneTop(lane));
    const y = Math.max(...tops);
    g.strokeStyle = c.stuck;
    g.lineWidth = 1.25;
    palette.dashed([5, 3], () => palette.horizontal(y, from, to));
    g.lineWidth = 1;
    palette.font(11, 600);
    const text = `wait cycle · ${duration(cycle.t1 - cycle.t0)}`;
    const width = palette.width(text) + 12;
    const x = (from + to - width) / 2;
    if (to - from < width + 8 || !room.isFree(x, y - 8, width, 16)) continue;
    room.reserve(x, y - 8, width, 16);
    g.fillStyle = c.panel;
    g.beginPath();
    g.roundRect(x, y - 8.5, width, 17, 3);
    g.fill();
    g.strokeStyle = c.stuck;
    g.stroke();
    palette.text(text, x + 6, y + 0.5, c.stuck);
  }
}

// Draws the end of a lease as a line from the lease to the bar of the holder that does not know of it.
export function paintLeaseEnds({ palette, view, layout, model }) {
  if (!layout.roomy) return;
  const { g, c } = palette;
  for (const hold of model.holds) {
    if (hold.over == null || hold.over >= hold.t1 || hold.over < view.from || hold.over > view.to) continue;
    const x = view.x(hold.over);
    const y = layout.barTop(hold);
    g.strokeStyle = c.hold;
    if (layout.leaseRows) palette.dashed([2, 2], () => palette.vertical(x, layout.leaseRow(hold.key) + 26, y));
    g.fillStyle = c.hold;
    g.beginPath();
    g.moveTo(x - 4, y - 5);
    g.lineTo(x + 5, y - 5);
    g.lineTo(x + 0.5, y + 1);
    g.fill();
  }
}

const FEW_OPS = 400;
const rank = op => (op.bad ? 3 : op.refused ? 2 : op.isProof ? 1 : 0);

export function paintRegister({ palette, view, layout, model, pick }) {
  if (!layout.register) return;
  const { g, c } = palette;
  const y = layout.registerMiddle;
  const few = model.lanes.length <= 16;
  const r = few ? 5 : 3.5;
  g.strokeStyle = c['line-2'];
  palette.horizontal(y + 1, view.left, view.right);
  const shown = [];
  let last = -9;
  for (let at = firstFrom(model.ops, view.from); at < model.ops.length && model.ops[at].t0 <= view.to; at++) {
    const op = model.ops[at];
    const x = view.x(op.t0);
    const matters = op.bad || op.refused || op.isProof || op === pick;
    if (x - last < 0.75 && !matters && model.ops.length > FEW_OPS) continue;
    last = x;
    shown.push([op, x]);
  }
  // Draw what matters last, on top of the rest.
  for (const [op, x] of [...shown].sort((a, b) => rank(a[0]) - rank(b[0]))) opMark(palette, op, x, y, r);
  if (few || shown.length < 40) opLabels(palette, view, shown, y);
}

function opMark(palette, op, x, y, r) {
  const { g, c } = palette;
  const colour = op.bad ? c['bad-fill'] : op.refused ? c.ink : c['ink-2'];
  g.lineWidth = 1.5;
  g.strokeStyle = colour;
  g.fillStyle = op.refused || op.shape === 'ring' ? c.panel : colour;
  g.beginPath();
  if (op.shape === 'cross') {
    g.strokeStyle = c['ink-3'];
    palette.cross(x, y, r - 1.5);
  } else if (op.shape === 'eye') {
    g.fillStyle = c.panel;
    g.moveTo(x, y - r - 1);
    g.lineTo(x + r + 1, y);
    g.lineTo(x, y + r + 1);
    g.lineTo(x - r - 1, y);
    g.closePath();
    g.fill();
    g.stroke();
  } else {
    if (op.shape === 'ring') g.arc(x, y, r - 0.5, 0, 7);
    else g.rect(x - r, y - r, 2 * r, 2 * r);
    g.fill();
    g.stroke();
  }
  if (op.refused) {
    g.beginPath();
    g.moveTo(x - r - 3, y + r + 3);
    g.lineTo(x + r + 3, y - r - 3);
    g.stroke();
  }
  g.lineWidth = 1;
}

// Marks of the proof get their labels first.
function opLabels(palette, view, shown, y) {
  const { c } = palette;
  const rows = [[], []];
  const place = (row, wordings, x, at, colour) => {
    for (const text of wordings) {
      const width = palette.width(text);
      const left = Math.max(view.left + 3, Math.min(x - width / 2, view.right - width));
      if (rows[row].some(([from, to]) => left < to + 8 && left + width > from - 8)) continue;
      rows[row].push([left, left + width]);
      palette.text(text, left, at, colour);
      return;
    }
  };
  for (const [op, x] of [...shown].sort((a, b) => rank(b[0]) - rank(a[0]))) {
    palette.font(11, op.bad || op.refused ? 600 : 400);
    const colour = op.bad ? c.bad : op.refused ? c.ink : c['ink-3'];
    place(0, op.top, x, y - 17, colour);
    place(1, op.low, x, y + 18, colour);
  }
}

// Highlights the selected mark or the one under the pointer.
export function paintChoice({ palette, view, layout, model, pick, hover }) {
  const { g, c } = palette;
  const op = [hover, pick].find(item => item?.type === 'op' && item.by);
  if (op && layout.register) {
    g.strokeStyle = c['ink-2'];
    palette.dashed([1, 2], () => palette.vertical(view.x(op.t0), layout.laneMiddle(op.by), layout.registerMiddle - 8));
  }
  if (pick) ring(palette, view, layout, pick, c.ink, 2);
  if (hover && hover !== pick) ring(palette, view, layout, hover, c['ink-2'], 1);
}

function ring(palette, view, layout, item, colour, width) {
  const { g } = palette;
  const [from, to] = [view.x(item.t0), Math.max(view.x(item.t1), view.x(item.t0) + 2)];
  g.strokeStyle = colour;
  g.lineWidth = width;
  g.beginPath();
  if (item.type === 'op') g.arc(from, layout.registerMiddle, 10, 0, 7);
  else if (item.type === 'lease') g.rect(from - 2, layout.leaseRow(item.key) - 2, to - from + 4, 30);
  else if (item.type === 'fault') g.rect(from - 3, layout.axis + 2, to - from + 6, 18);
  else if (item.type === 'hold' || item.type === 'work') g.rect(from - 2.5, layout.barTop(item) - 2.5, to - from + 5, layout.bar + 5);
  else if (item.lane) {
    const reach = layout.roomy ? 11 : 6;
    const y = layout.twoKeys && item.type === 'wait' ? layout.barMiddle(item) : layout.laneMiddle(item.lane);
    g.rect(from - 4, y - reach, to - from + 6, reach * 2);
  }
  g.stroke();
  g.lineWidth = 1;
}

export function paintCrosshair({ palette, view, layout, cross }) {
  if (cross == null || cross < view.left || cross > view.right) return;
  const { g, c } = palette;
  g.strokeStyle = c['ink-3'];
  g.globalAlpha = 0.7;
  palette.vertical(cross, layout.axis - 4, layout.height);
  g.globalAlpha = 1;
  palette.font(11, 600);
  const text = exactMoment(view.t(cross));
  const width = palette.width(text) + 10;
  const x = Math.min(Math.max(cross - width / 2, view.left), view.width - width - 2);
  g.fillStyle = c.ink;
  g.beginPath();
  g.roundRect(x, 4, width, 17, 3);
  g.fill();
  palette.text(text, x + 5, 13, c.paper);
}

// Shows on the axis where events were left out.
export function paintCut({ palette, view, layout, model }) {
  if (!model.run.leftOut) return;
  const { g, c } = palette;
  const x = Math.max(view.x(model.cut), view.left);
  if (x > view.right) return;
  g.fillStyle = palette.hatch('cut', c['line-2'], { gap: 8, width: 1 });
  g.fillRect(x, layout.top - layout.gap, view.right - x, layout.bottom - layout.top + layout.gap);
  g.strokeStyle = c['ink-3'];
  palette.vertical(x, layout.axis, layout.height);
}
