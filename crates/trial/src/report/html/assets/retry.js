// Ways of waiting, side by side: one row for each, one strip of attempts on a shared time axis.

import { $, h, s } from '../../../../../viewer/src/dom.js';
import { axisLabel, axisUnit, count, niceStep } from '../../../../../viewer/src/format.js';
import { chart, rule, words } from './charts.js';

const STRIP_HEIGHT = 104;

const FIGURES = [
  ['duration_ms', 'Duration', row => `${figure(row.duration_ms)} ms`],
  ['successes', 'Sold', row => `${count(row.successes)} of ${count(row.of)}`, row => (row.not_served ? `${count(row.not_served)} not served` : null)],
  ['avg_retries', 'Mean retries', row => row.avg_retries.toFixed(1)],
  ['sigma_ms', 'Fairness σ', row => `${figure(row.sigma_ms)} ms`],
  ['lock_ops', 'Lock ops', row => count(row.lock_ops)],
  ['idle', 'Idle', row => (row.idle == null ? '–' : `${(row.idle * 100).toFixed(1)} %`)],
];
// Where less is better and a word may say so.
const LESS = new Set(['duration_ms', 'avg_retries', 'sigma_ms', 'lock_ops', 'idle']);

const figure = ms => (ms < 1000 ? ms.toFixed(1) : count(ms));

export function mountRetry(retry) {
  const { rows } = retry;
  const span = spanOf(rows.map(row => row.duration_ms));
  const best = name => (rows.length > 1 ? Math.min(...rows.map(row => row[name])) : NaN);
  const cell = ([name, label, text, note], row) => h('td', { class: 'num' }, h('span', { class: 'k' }, label), h('b', {}, text(row)), h('i', {}, LESS.has(name) && row[name] === best(name) ? 'lowest' : note?.(row)));
  const body = h('tbody');
  for (const row of rows) {
    const place = h('div', { class: 'chart' });
    body.append(h('tr', {}, h('th', { scope: 'row' }, row.name, h('small', {}, row.about)), h('td', { class: 'plot' }, place), FIGURES.map(one => cell(one, row))));
    row.place = place;
  }
  $('#retry-cap').textContent = `${retry.caption} One line for each process: thin while it waits, solid while it has the lock, a cross where it gave up. All share one time axis.`;
  $('#mult').append(h('table', { class: 'mult' }, h('caption', { class: 'sr' }, 'Retry schedules'), h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Schedule'), h('th', { scope: 'col', class: 'plot' }, 'Who had the lock, and when'), FIGURES.map(([, label]) => h('th', { scope: 'col', class: 'num' }, label)))), body));
  $('#retry-end').append(...retry.conclusions.map(text => h('p', {}, text[0].toUpperCase() + text.slice(1))));
  $('#retry').hidden = false;
  for (const row of rows) chart(row.place, width => strip(row, span, width));
}

// One that takes far longer than all others would make them unreadable: then its strip is cut, and says so.
function spanOf(durations) {
  const [longest, next] = [...durations].sort((a, b) => b - a);
  return Math.min(longest, (next ?? longest) * 3) * 1.04;
}

function strip(row, span, width) {
  const [top, bottom] = [4, 18];
  const { turns } = row;
  const x = ms => 4 + (ms / span) * (width - 10);
  const thick = (STRIP_HEIGHT - top - bottom) / Math.max(turns.length, 1);
  const tick = niceStep((span * 1000) / Math.max(2, width / 90));
  const unit = axisUnit(tick);
  const parts = [];
  for (let t = 0; t <= span * 1000; t += tick) {
    parts.push(rule(x(t / 1000), top, x(t / 1000), STRIP_HEIGHT - bottom));
    if (x(t / 1000) < width - 24) parts.push(words(x(t / 1000), STRIP_HEIGHT - 4, axisLabel(t, unit), { anchor: t ? 'middle' : 'start' }));
  }
  // In the order in which they got in, so that a fair line reads as a staircase.
  const entered = turn => turn.held_ms?.[0] ?? Infinity;
  [...turns].sort((a, b) => entered(a) - entered(b) || a.answered_ms - b.answered_ms).forEach((turn, at) => {
    const y = top + (at + 0.5) * thick;
    const until = turn.held_ms?.[0] ?? turn.answered_ms;
    parts.push(s('line', { x1: x(turn.asked_ms), x2: x(Math.min(until, span)), y1: y, y2: y, class: 'missed' }));
    if (until > span) return;
    if (turn.held_ms) parts.push(s('rect', { x: x(turn.held_ms[0]), y: y - Math.min(thick, 6) / 2 + 0.25, width: Math.max(x(turn.held_ms[1]) - x(turn.held_ms[0]), 2.5), height: Math.max(Math.min(thick, 6) - 0.5, 1), class: 'got' }));
    else parts.push(s('path', { d: `M${x(until) - 2} ${y - 2}l4 4m0-4l-4 4`, class: 'gone' }));
  });
  const end = x(row.duration_ms);
  const isRight = end > width - 50;
  if (row.duration_ms > span) parts.push(words(width - 6, top + 11, `until ${figure(row.duration_ms)} ms →`, { kind: 'k', anchor: 'end' }));
  else parts.push(rule(end, top, end, STRIP_HEIGHT - bottom, 'done'), words(end + (isRight ? -6 : 6), top + 11, 'done', { kind: 'k', anchor: isRight ? 'end' : 'start' }));
  const served = turns.filter(turn => turn.held_ms).length;
  return s('svg', { viewBox: `0 0 ${width} ${STRIP_HEIGHT}`, height: STRIP_HEIGHT, role: 'img', 'aria-label': `${row.name}: ${served} of ${turns.length} processes had the lock within ${row.duration_ms.toFixed(1)} ms` }, parts);
}
