// Draws the frame of the picture: axis, names, faults, leases, and how many processes were inside at once.

import { axisLabel, axisUnit, duration, niceStep } from './format.js';

export function paintAxis({ palette, view, layout }) {
  const { g, c } = palette;
  const room = view.right - view.left;
  const step = niceStep(view.span / (room / 92));
  const unit = axisUnit(step);
  palette.clipped(view.left, 0, view.width - view.left, layout.height, () => {
    palette.font(11);
    g.lineWidth = 1;
    g.strokeStyle = c.line;
    for (let t = Math.ceil(Math.max(view.from, 0) / step) * step; t <= Math.min(view.to, view.end * 1.1 + step); t += step) {
      const x = view.x(t);
      palette.vertical(x, layout.axis, layout.height);
      const label = axisLabel(t, unit);
      if (x + 4 + palette.width(label) < view.width - 2) palette.text(label, x + 4, 13, c['ink-3']);
    }
  });
}

export function paintFaults({ palette, view, layout, model }) {
  const { g } = palette;
  if (!model.faults.length) return;
  palette.clipped(view.left, layout.axis, view.width - view.left, layout.height, () => {
    for (const fault of model.faults) if (view.sees(fault)) faultBand(palette, view, layout, fault);
    palette.font(11, 600);
    const written = [];
    for (const fault of byWeight(model.faults)) if (view.sees(fault)) faultLabel(palette, view, layout, fault, written);
  });
  g.lineWidth = 1;
}

// If there is room for one label only, a death takes precedence over other changes.
const byWeight = faults => [...faults].sort((one, other) => (other.word === 'SIGKILL') - (one.word === 'SIGKILL') || one.t0 - other.t0);

function faultLabel(palette, view, layout, fault, written) {
  const lasted = fault.t1 - fault.t0;
  const text = `▲ ${fault.word} ${fault.lane?.name ?? fault.server ?? ''}${lasted > 0 ? ` · ${duration(lasted)}` : ''}`;
  const x = Math.max(view.x(fault.t0), view.left) + 5;
  const width = palette.width(text);
  const from = x + width > view.right ? Math.max(view.left, x - width - 10) : x;
  const to = from + width + 10;
  if (written.some(other => from < other.to && other.from < to)) return;
  palette.text(text, from, layout.axis + 11, palette.c.fault);
  written.push({ from, to });
}

function faultBand(palette, view, layout, fault) {
  const { g, c } = palette;
  const from = view.x(fault.t0);
  const to = Math.max(view.x(fault.t1), from + 1);
  g.fillStyle = c['fault-soft'];
  if (fault.lane) {
    g.fillRect(from, layout.axis, to - from, layout.fault);
    g.fillRect(from, layout.laneTop(fault.lane), to - from, layout.lane);
  } else {
    g.fillRect(from, layout.axis, to - from, layout.height - layout.axis);
  }
  g.strokeStyle = c['fault-fill'];
  palette.dashed([3, 3], () => {
    palette.vertical(from, layout.axis, layout.height);
    if (to - from > 3) palette.vertical(to, layout.axis, layout.height);
  });
}

export function paintNames({ palette, view, layout, model, pick, hover }) {
  const { g, c } = palette;
  const { narrow, width } = view;
  g.lineWidth = 1;
  g.strokeStyle = c['line-2'];
  palette.horizontal(layout.axis, 0, width);
  palette.font(11);
  palette.text(narrow ? 'time' : 'time since start', 10, 13, c['ink-3']);
  if (layout.fault) palette.text('faults', 10, layout.axis + 11, c.fault);
  for (let row = 0; row < layout.leaseRows; row++) {
    palette.font(12, 500);
    const y = layout.leaseRow(row) + 14;
    const name = layout.leaseRows > 1 ? model.keys[row] : 'of the lock';
    palette.text('lease', 10, narrow ? y : y - 7, c['ink-2']);
    palette.font(11);
    if (!narrow) palette.text(shorten(palette, name, view.left - 20), 10, y + 8, c['ink-3']);
  }
  if (layout.crowd) crowdName(palette, view, layout, model);
  laneRules(palette, layout, model, width);
  for (const lane of model.lanes) laneName(palette, view, layout, model, lane, hover?.lane === lane || pick?.lane === lane);
  if (layout.register) registerName(palette, view, layout, model);
}

function shorten(palette, text, room) {
  if (palette.width(text) <= room) return text;
  let cut = text.length;
  while (cut > 1 && palette.width(`${text.slice(0, cut)}…`) > room) cut--;
  return `${text.slice(0, cut)}…`;
}

function crowdName(palette, view, layout, model) {
  const { c } = palette;
  const y = layout.crowdTop + layout.crowd / 2 + 2;
  palette.font(12, 500);
  palette.text(view.narrow ? 'inside' : model.crowd.word, 10, y - 7, c['ink-2']);
  palette.font(11);
  const { peak, allowed } = model.crowd;
  const text = view.narrow ? `most ${peak}` : allowed && peak > 1 ? `at most ${peak}; 1 allowed` : `at most ${peak}`;
  palette.text(text, 10, y + 8, model.crowd.bad ? c.bad : c['ink-3']);
}

function laneRules(palette, layout, model, width) {
  const { g, c } = palette;
  g.strokeStyle = c.line;
  const lanes = model.lanes.length;
  for (let at = 0; at <= lanes; at++) {
    const shown = layout.roomy || (layout.lane >= 13 && (at % 5 === 0 || at === lanes));
    if (shown) palette.horizontal(layout.top + at * layout.lane, 0, width);
  }
}

function laneName(palette, view, layout, model, lane, isChosen) {
  const { c } = palette;
  const y = layout.laneMiddle(lane);
  const room = view.left - 16;
  if (layout.twoKeys && !view.narrow) {
    palette.font(13, 600);
    palette.text(shorten(palette, lane.name, 40), 10, y, c.ink);
    palette.font(10);
    model.keys.slice(0, 2).forEach((key, at) => palette.text(shorten(palette, key, room - 46), view.left - 8, layout.laneTop(lane) + 7 + at * 18 + layout.bar / 2, c['ink-3'], 'right'));
  } else if (layout.roomy) {
    palette.font(13, 600);
    palette.text(shorten(palette, lane.name, room), 10, y, c.ink);
  } else if (layout.lane >= 13) {
    palette.font(10, isChosen ? 600 : 400);
    if (isChosen || lane.index % 5 === 0 || lane.index === model.lanes.length - 1) {
      palette.text(shorten(palette, lane.name, room), 10, y, isChosen ? c.ink : c['ink-3']);
    }
  }
}

function registerName(palette, view, layout, model) {
  const { g, c } = palette;
  const y = layout.registerMiddle;
  palette.font(12, 600);
  palette.text(model.isSale ? 'answers' : view.narrow ? 'number' : 'the number', 10, view.narrow ? y : y - 7, c.ink);
  palette.font(11);
  const hasFences = model.ops.some(op => op.event.fence != null);
  const note = model.isSale ? 'as they came' : model.run.fencing ? 'checks the fence' : hasFences ? 'fence not checked' : 'no fence';
  if (!view.narrow) palette.text(note, 10, y + 8, c['ink-3']);
  g.strokeStyle = c['line-2'];
  palette.horizontal(layout.bottom, 0, view.width);
}

const MANY_LEASES = 400;

// Draws the remaining lease as a ramp that falls to its end; a lease that is renewed stays high.
export function paintLeases({ palette, view, layout, model }) {
  const { g, c } = palette;
  const height = 26;
  let drawnTo = -1;
  for (const lease of model.leases) {
    if (!view.sees(lease)) continue;
    const y = layout.leaseRow(lease.key);
    const [from, to] = [view.x(lease.t0), Math.max(view.x(lease.t1), view.x(lease.t0) + 1)];
    // If many fall on one pixel, draw one for all.
    if (model.leases.length > MANY_LEASES && to < drawnTo + 1) continue;
    drawnTo = to;
    if (lease.neverExpires) {
      keyWithoutExpiry(palette, view, from, to, y, height);
      continue;
    }
    const left = lease.expires == null ? 1 : Math.max(0, 1 - (lease.t1 - lease.t0) / (lease.expires - lease.t0));
    const low = y + height * (1 - left);
    g.beginPath();
    g.moveTo(from + 0.5, y + height);
    g.lineTo(from + 0.5, y);
    g.lineTo(to, low);
    g.lineTo(to, y + height);
    g.fillStyle = c['hold-soft'];
    g.fill();
    g.strokeStyle = c.hold;
    g.lineWidth = 1.25;
    g.stroke();
    g.lineWidth = 1;
    palette.font(11);
    const name = lease.by + (lease.expires == null ? ', renewed' : '');
    const x = Math.max(from, view.left) + 6;
    for (const text of [lease.fence ? `${name} · fence ${lease.fence}` : name, name, lease.by]) {
      if (palette.width(text) > to - x - 4) continue;
      palette.text(text, x, y + height - 8, c['ink-2']);
      break;
    }
  }
}

function keyWithoutExpiry(palette, view, from, to, y, height) {
  const { g, c } = palette;
  g.fillStyle = palette.hatch('for-ever', c.stuck, { gap: 7, width: 1, background: c['stuck-soft'] });
  g.fillRect(from, y, to - from, height);
  g.strokeStyle = c.stuck;
  g.strokeRect(from + 0.5, y + 0.5, to - from, height - 1);
  palette.font(11, 600);
  const text = 'key there, no expiry';
  const x = Math.max(from, view.left) + 10;
  const width = palette.width(text);
  if (to - x < width + 12) return;
  g.fillStyle = c.panel;
  g.fillRect(x - 4, y + 5, width + 8, 16);
  palette.text(text, x, y + 13.5, c.stuck);
}

// Draws how many processes were inside at once, which stays readable with any number of lanes.
export function paintCrowd({ palette, view, layout, model }) {
  const { g, c } = palette;
  if (!layout.crowd) return;
  const base = layout.crowdTop + layout.crowd - 4;
  const tall = layout.crowd - 12;
  const most = Math.max(model.crowd.peak, 2);
  const { steps } = model.crowd;
  steps.forEach(([t, n], at) => {
    const until = steps[at + 1]?.[0] ?? t;
    if (!n || until < view.from || t > view.to) return;
    const from = Math.round(Math.max(view.x(t), view.left));
    const to = Math.round(Math.min(view.x(until), view.right));
    if (to <= from) return;
    const top = base - (n / most) * tall;
    g.fillStyle = model.crowd.bad && n > 1 ? c['bad-fill'] : c.hold;
    g.fillRect(from, top, to - from, base - top);
  });
  if (!model.crowd.allowed) return;
  g.strokeStyle = c['ink-3'];
  palette.dashed([2, 3], () => palette.horizontal(base - tall / most, view.left, view.right));
}
