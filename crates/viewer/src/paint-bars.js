// Draws the bars of the lanes: waiting, holding, believing, working, stopped, killed.

import { duration } from './format.js';
import { visible } from './view.js';

// With more marks than this in dense lanes, draw plain rectangles, colour by colour, at most one for each pixel.
const MANY = 1500;

export const isCrowded = scene => !scene.layout.roomy && scene.model.items > MANY;

export function paintBars(scene) {
  const { palette, view, layout, model } = scene;
  const { g, c } = palette;
  if (isCrowded(scene)) {
    for (const [types, colour] of [[['wait'], c.wait], [['hold', 'work'], c.hold]]) paintSwarm(scene, types, colour);
  }
  for (const lane of model.lanes) {
    if (lane.killed != null && view.x(lane.killed) < view.right) {
      g.strokeStyle = c['line-2'];
      const y = layout.laneMiddle(lane);
      palette.dashed([2, 4], () => palette.horizontal(y, Math.max(view.x(lane.killed), view.left), view.right));
    }
    for (const item of visible(lane, view)) {
      if (isCrowded(scene) && (item.type === 'wait' || item.type === 'hold' || item.type === 'work')) continue;
      PAINTERS[item.type]?.(scene, item);
    }
  }
}

function paintSwarm({ palette, view, layout, model }, types, colour) {
  const { g } = palette;
  const isWait = types.includes('wait');
  g.fillStyle = colour;
  for (const lane of model.lanes) {
    const y = isWait ? layout.laneMiddle(lane) - 0.5 : layout.laneTop(lane) + (layout.lane - layout.bar) / 2;
    let end = -1;
    for (const item of visible(lane, view)) {
      if (!types.includes(item.type)) continue;
      const from = Math.max(view.x(item.t0), view.left - 2, end);
      const to = Math.min(Math.max(view.x(item.t1), from + 1), view.right + 2);
      if (to <= end) continue;
      g.fillRect(from, y, to - from, isWait ? 1 : layout.bar);
      end = to;
    }
  }
}

const PAINTERS = {
  wait({ palette, view, layout, room }, item) {
    const { g, c } = palette;
    const y = layout.twoKeys ? layout.barMiddle(item) : layout.laneMiddle(item.lane);
    const [from, to] = [view.x(item.t0), view.x(item.t1)];
    let start = from;
    g.strokeStyle = c.wait;
    g.lineWidth = layout.roomy ? 1.5 : 1;
    if (layout.roomy) {
      g.beginPath();
      g.moveTo(from, y - 4);
      g.lineTo(from, y + 4);
      g.stroke();
      palette.font(11);
      const x = Math.max(from, view.left) + 7;
      // A buyer may be working already; only its answer tells.
      const word = item.refused ? 'tries' : item.open && item.sale ? 'no answer for' : 'waits';
      const label = room.fit(palette, [`${word} ${duration(item.t1 - item.t0)}`, word], x, Math.min(to, view.right) - 24, y - 7, 14);
      if (label) {
        palette.text(label.text, x, y + 0.5, c['ink-3']);
        start = x + label.width + 5;
      }
    }
    g.strokeStyle = c.wait;
    palette.dashed(layout.lane >= 13 ? [1.5, 3] : [], () => {
      g.beginPath();
      g.moveTo(start, y);
      g.lineTo(Math.max(to, start + 1), y);
      g.stroke();
    });
    if (item.refused) {
      g.lineWidth = 1.25;
      g.strokeStyle = c['ink-2'];
      palette.cross(to, y, layout.roomy ? 3.5 : 2.5);
    }
    g.lineWidth = 1;
  },

  hold({ palette, view, layout }, item) {
    const { g, c } = palette;
    const y = layout.barTop(item);
    const [from, to] = [view.x(item.t0), view.x(item.t1)];
    const over = item.over != null && item.over < item.t1 ? view.x(item.over) : null;
    g.fillStyle = c.hold;
    g.fillRect(from, y, Math.max((over ?? to) - from, 1.5), layout.bar);
    if (over == null) return;
    g.fillStyle = palette.hatch('belief', c.hold, { background: c.panel });
    g.fillRect(over, y, to - over, layout.bar);
    g.strokeStyle = c.hold;
    g.strokeRect(Math.round(over) + 0.5, y + 0.5, Math.max(to - over - 1, 1), layout.bar - 1);
  },

  work({ palette, view, layout }, item) {
    const { g, c } = palette;
    const y = layout.barTop(item);
    const [from, to] = [view.x(item.t0), view.x(item.t1)];
    const width = Math.max(to - from, 1.5);
    if (item.outcome === 'sold') {
      g.fillStyle = c.hold;
      g.fillRect(from, y, width, layout.bar);
    } else {
      g.fillStyle = item.outcome === 'no_stock' ? c['hold-soft'] : palette.hatch('unknown', c['ink-3'], { background: c.panel });
      g.fillRect(from, y, width, layout.bar);
      g.strokeStyle = item.outcome === 'no_stock' ? c.hold : c['ink-3'];
      g.strokeRect(from + 0.5, y + 0.5, Math.max(width - 1, 0.5), layout.bar - 1);
    }
    if (item.bad) {
      g.fillStyle = c['bad-fill'];
      g.fillRect(from, layout.roomy ? y + layout.bar + 1 : y + layout.bar - 2, width, layout.roomy ? 3 : 2);
    }
  },

  pause({ palette, view, layout, room }, item) {
    const { g, c } = palette;
    const middle = layout.laneMiddle(item.lane);
    const height = (layout.twoKeys ? layout.lane - 14 : layout.bar) + 6;
    const y = middle - height / 2;
    const [from, to] = [view.x(item.t0), view.x(item.t1)];
    g.fillStyle = c.panel;
    g.globalAlpha = 0.72;
    g.fillRect(from, y, to - from, height);
    g.globalAlpha = 0.55;
    g.strokeStyle = c.pause;
    g.lineWidth = 1;
    g.beginPath();
    for (let x = Math.max(from, view.left - 5) + 3; x < Math.min(to, view.right); x += 5) {
      g.moveTo(Math.round(x) + 0.5, y);
      g.lineTo(Math.round(x) + 0.5, y + height);
    }
    g.stroke();
    g.globalAlpha = 1;
    g.strokeRect(from + 0.5, y + 0.5, Math.max(to - from, 1), height - 1);
    palette.font(11, 600);
    const x = Math.max(from, view.left) + 10;
    const label = room.fit(palette, [`❙❙ stopped ${duration(item.t1 - item.t0)}`, '❙❙'], x, Math.min(to, view.right) - 6, middle - 8, 16);
    if (!label) return;
    g.fillStyle = c.panel;
    g.fillRect(x - 4, middle - 8, label.width + 8, 16);
    palette.text(label.text, x, middle, c.ink);
  },

  step({ palette, view, layout, room }, item) {
    const { g, c } = palette;
    const y = layout.barMiddle(item);
    const x = view.x(item.t0);
    g.strokeStyle = c.hold;
    g.lineWidth = 2;
    palette.vertical(x, y - 7, y + 7);
    g.lineWidth = 1;
    palette.font(11);
    const e = item.event;
    const text = `step ${e.step} of ${e.of}: ${e.what}`;
    const width = palette.width(text);
    // There is rarely room to the left of a death, so the label goes below the line.
    const at = Math.min(Math.max(x + 6, view.left + 4), view.right - width);
    if (layout.roomy && room.isFree(at, y + 8, width, 12)) {
      room.reserve(at, y + 8, width, 12);
      palette.text(text, at, y + 14, c['ink-2']);
    }
  },

  kill({ palette, view, layout, room }, item) {
    const { g, c } = palette;
    const x = view.x(item.t0);
    const y = layout.laneMiddle(item.lane);
    const r = layout.roomy ? 6 : 3.5;
    g.fillStyle = c.panel;
    g.beginPath();
    g.arc(x, y, r + 3, 0, 7);
    g.fill();
    g.strokeStyle = c.ink;
    g.lineWidth = 2;
    palette.cross(x, y, r);
    g.lineWidth = 1;
    room.reserve(x - r - 3, y - r - 3, 2 * r + 6, 2 * r + 6);
    if (!layout.roomy) return;
    palette.font(11, 600);
    const width = palette.width('killed');
    g.fillStyle = c.panel;
    g.fillRect(x + r + 3, y - 8, width + 6, 16);
    palette.text('killed', x + r + 6, y, c.ink);
    room.reserve(x + r, y - 8, width + 10, 16);
  },

  note({ palette, view, layout }, item) {
    const { g, c } = palette;
    const x = view.x(item.t0);
    g.strokeStyle = c.stuck;
    g.lineWidth = 1.5;
    palette.dashed([2, 2], () => palette.vertical(x, layout.laneTop(item.lane) + 5, layout.laneTop(item.lane) + layout.lane - 5));
    g.lineWidth = 1;
    palette.font(11, 600);
    const isRight = x + 6 + palette.width('gives up') > view.right;
    if (layout.roomy) palette.text('gives up', isRight ? x - 6 : x + 6, layout.laneTop(item.lane) + 10, c.stuck, isRight ? 'right' : 'left');
  },
};

// Draws the labels on the bars last, where they cover nothing important.
export function paintBarLabels({ palette, view, layout, model, room }) {
  if (!layout.roomy) return;
  const { g, c } = palette;
  const paused = lane => lane.items.filter(item => item.type === 'pause');
  for (const lane of model.lanes) {
    for (const pause of paused(lane)) {
      const height = layout.lane;
      room.reserve(view.x(pause.t0), layout.laneTop(lane), view.x(pause.t1) - view.x(pause.t0), height);
    }
    for (const item of visible(lane, view)) {
      if (item.type !== 'hold' && item.type !== 'work') continue;
      const y = layout.barTop(item);
      const x = Math.max(view.x(item.t0), view.left) + 8;
      const isOver = item.over != null && item.over < item.t1;
      const end = Math.min(view.x(isOver ? item.over : item.t1), view.right) - 4;
      palette.font(11, 600);
      const label = room.fit(palette, wordsOf(item, view.narrow), x, end, y, layout.bar);
      const onSolid = item.type === 'hold' || item.outcome === 'sold';
      if (label) palette.text(label.text, x, y + layout.bar / 2 + 0.5, onSolid ? c['on-hold'] : c.ink);
      if (!isOver) continue;
      const bx = Math.max(view.x(item.over), view.left) + 14;
      const past = `believed, ${duration(item.t1 - item.over)} past the lease`;
      const belief = room.fit(palette, [past, 'believed'], bx, Math.min(view.x(item.t1), view.right) - 6, y, layout.bar);
      if (!belief) continue;
      g.fillStyle = c.panel;
      g.fillRect(bx - 4, y + 2, belief.width + 8, layout.bar - 4);
      palette.text(belief.text, bx, y + layout.bar / 2, c.ink);
    }
  }
}

function wordsOf(item, narrow) {
  if (item.type === 'hold') {
    if (item.fence == null) return ['holds'];
    return narrow ? [item.fence] : [`fence ${item.fence}`, item.fence];
  }
  const e = item.event;
  if (item.outcome === 'sold') return e.before != null ? [`${e.before} → ${e.after}`] : ['sold'];
  if (item.outcome === 'no_stock') return ['no stock'];
  return [item.outcome === 'failed' ? 'failed' : 'unknown', '?'];
}
