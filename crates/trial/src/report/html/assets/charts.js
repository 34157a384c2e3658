// Small charts, drawn at the width they have, so that their text never scales.

import { s } from '../../../../../viewer/src/dom.js';
import { axisLabel, axisUnit, count, niceStep, plural, signed } from '../../../../../viewer/src/format.js';

export function chart(place, draw) {
  const redraw = () => {
    if (place.clientWidth > 40) place.replaceChildren(draw(place.clientWidth));
  };
  new ResizeObserver(redraw).observe(place);
  redraw();
  return redraw;
}

export const words = (x, y, text, { kind, anchor = 'start' } = {}) => s('text', { x, y, class: kind, 'text-anchor': anchor }, text);
export const rule = (x1, y1, x2, y2, kind = 'rule') => s('line', { x1, y1, x2, y2, class: kind });

// What the subjects wrote, and what their acknowledged changes add up to.
export function stockOf(run) {
  const isSale = run.kind === 'sale';
  let [value, promised] = [0, 0];
  const written = [];
  const expected = [];
  let reading = null;
  for (const event of run.events) {
    if (event.kind === 'stock_set' && !written.length) {
      value = promised = event.units;
      written.push([0, value]);
      expected.push([0, promised]);
    } else if (event.kind === 'purchased' && event.outcome === 'sold') {
      promised -= 1;
      expected.push([event.t, promised]);
      if (event.after != null) written.push([event.t, (value = event.after)]);
    } else if (event.kind === 'register' && event.action === 'write' && !event.refused) {
      promised += 1;
      expected.push([event.t, promised]);
      written.push([event.t, (value = event.value)]);
    } else if (event.kind === 'stock_read') {
      reading = { t: event.t, value: event.units };
    }
  }
  if (!isSale && expected.length) {
    written.unshift([0, 0]);
    expected.unshift([0, 0]);
  }
  const end = run.events.at(-1)?.t ?? 1;
  const final = reading?.value ?? value;
  return { isSale, written, expected, reading, final, promised, changes: Math.max(0, expected.length - 1), end, gap: isSale ? final - promised : promised - final };
}

export function stockCaption(run, stock) {
  if (!stock.changes) return stock.isSale ? 'Nothing was sold in this run.' : 'Nobody changed the number in this run.';
  const done = stock.isSale ? plural(stock.changes, 'order was acknowledged', 'orders were acknowledged') : plural(stock.changes, 'addition was accepted', 'additions were accepted');
  const what = stock.isSale ? 'stock' : 'number';
  if (!stock.gap) return `${done}. ${stock.isSale ? 'Stock and orders agree.' : 'The number agrees.'}`;
  const missing = Math.abs(stock.gap);
  return `${done}. The ${what} should be ${signed(stock.promised)}; it is ${signed(stock.final)}: ${plural(missing, 'update is', 'updates are')} ${stock.gap > 0 ? 'lost' : 'there without an order'}.`;
}

export function stockChart(run, stock, width) {
  const [left, right, top, bottom, height] = [34, width < 420 ? 82 : 100, 12, 26, 212];
  const end = Math.max(stock.end * 1.03, 1);
  const values = [...stock.written, ...stock.expected].map(point => point[1]).concat(stock.final);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const low = least > 3 && most - least < 8 ? least - 1 : Math.min(least, 0);
  const high = Math.max(most, low + 2) + (most - low) * 0.06;
  const x = t => left + (t / end) * (width - left - right);
  const y = value => top + ((high - value) / (high - low)) * (height - top - bottom);
  const parts = [];
  const step = Math.max(1, niceStep((high - low) / 6));
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) {
    parts.push(rule(left, y(value), width - right, y(value), value === 0 ? 'base' : 'rule'), words(left - 8, y(value) + 4, count(value), { anchor: 'end' }));
  }
  const tick = niceStep(end / (width < 420 ? 3 : 5));
  const unit = axisUnit(tick);
  for (let t = 0; t <= end; t += tick) parts.push(words(x(t), height - 6, axisLabel(t, unit), { anchor: t ? 'middle' : 'start' }));
  if (run.outcome === 'BROKEN' && stock.gap) parts.push(...gapShade(stock, x, y, end));
  const path = points => points.map(([t, value], at) => (at ? `H${x(t).toFixed(1)}` : `M${x(t)} ${y(value)}`) + `V${y(value).toFixed(1)}`).join('') + `H${x(end).toFixed(1)}`;
  parts.push(s('path', { d: path(stock.expected), class: 'promised' }), s('path', { d: path(stock.written), class: 'written' }));
  if (stock.reading) parts.push(s('path', { d: diamond(x(stock.reading.t), y(stock.reading.value)), class: 'reading' }));
  parts.push(...endLabels(run, stock, width - right + 8, y));
  const name = stock.isSale ? 'Stock' : 'The number';
  const label = `${name} over time: ends at ${stock.final}, by the acknowledged changes it should be ${stock.promised}`;
  return s('svg', { viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': label }, parts);
}

const diamond = (x, y) => `M${x} ${y - 6}l6 6-6 6-6-6z`;

// The area between what was written and what should be.
function gapShade(stock, x, y, end) {
  const corners = points => points.flatMap(([t, value], at) => (at ? [[x(t), y(points[at - 1][1])], [x(t), y(value)]] : [[x(t), y(value)]])).concat([[x(end), y(points.at(-1)[1])]]);
  const around = [...corners(stock.written), ...corners(stock.expected).reverse()];
  return [s('path', { d: `M${around.map(point => point.map(at => at.toFixed(1)).join(' ')).join('L')}z`, class: 'gap' })];
}

function endLabels(run, stock, x, y) {
  const name = stock.isSale ? 'stock' : 'number';
  let [written, promised] = [y(stock.final) + 4, y(stock.promised) + 4];
  if (!stock.gap) return [words(x, written - 7, `${name} ${signed(stock.final)}`, { kind: 'k' }), words(x, written + 8, 'as it should be')];
  if (Math.abs(written - promised) < 15) {
    const up = written < promised ? -8 : 8;
    written += up;
    promised -= up;
  }
  const labels = [words(x, written, `${name} ${signed(stock.final)}`, { kind: 'k' }), words(x, promised, `should be ${signed(stock.promised)}`)];
  const isApart = Math.abs(written - promised) > 34;
  if (isApart && run.outcome === 'BROKEN') labels.push(words(x, (written + promised) / 2, `${count(Math.abs(stock.gap))} ${stock.gap > 0 ? 'lost' : 'too few'}`, { kind: 'bad' }));
  return labels;
}
