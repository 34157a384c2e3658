// The legend: what the marks mean, for those that occur in the run.

import { h, s } from './dom.js';

const path = (d, kind) => ['path', { d, class: kind }];
const box = (attributes, kind) => ['rect', { ...attributes, class: kind }];

const MARKS = [
  ['waiting', m => has(m, 'wait'), [path('M2 7h24', 'k-wait dots'), path('M2 3v8', 'k-wait')]],
  ['refused', m => m.lanes.some(lane => lane.items.some(item => item.refused)), [path('M2 7h18', 'k-wait dots'), path('M20 3l7 8M27 3l-7 8', 'k-ink')]],
  ['holding', m => has(m, 'hold'), [box({ y: 2, width: 28, height: 10 }, 'k-hold')]],
  ['sold: waited, then worked', m => m.works.some(item => item.outcome === 'sold'), [box({ y: 2, width: 28, height: 10 }, 'k-hold')]],
  ['no stock left', m => m.works.some(item => item.outcome === 'no_stock'), [box({ x: 0.5, y: 2.5, width: 27, height: 9 }, 'k-soft')]],
  ['unknown', m => m.works.some(item => item.outcome === 'unknown' || item.outcome === 'failed'), [box({ x: 0.5, y: 2.5, width: 27, height: 9 }, 'k-grey'), path('M4 11l8-8M12 11l8-8M20 11l7-7', 'k-grey')]],
  ['part of the proof', m => m.works.some(item => item.bad), [box({ y: 1, width: 28, height: 9 }, 'k-hold'), box({ y: 11, width: 28, height: 3 }, 'k-bad')]],
  ['believed, after the lease ended', m => m.holds.some(hold => hold.over != null), [box({ x: 0.5, y: 2.5, width: 27, height: 9 }, 'k-belief'), path('M1 11l8-8M8 11l8-8M15 11l8-8M22 11l5-5', 'k-belief')]],
  ['lease ends', m => m.holds.some(hold => hold.over != null), [path('M14 0v9', 'k-belief dots'), path('M9.5 6h9l-4.5 6z', 'k-hold')]],
  ['key without expiry', m => m.leases.some(lease => lease.neverExpires), [box({ x: 0.5, y: 1.5, width: 27, height: 11 }, 'k-stuck'), path('M1 12l9-9M10 12l9-9M19 12l8-8', 'k-stuck')]],
  ['stopped', m => has(m, 'pause'), [box({ x: 0.5, y: 1.5, width: 27, height: 11 }, 'k-pause'), path('M4.5 2v10M9.5 2v10M14.5 2v10M19.5 2v10M24.5 2v10', 'k-pause')]],
  ['killed', m => has(m, 'kill'), [path('M9 2l10 10M19 2L9 12', 'k-ink thick')]],
  ['wait cycle', m => m.cycles.length, [path('M0 7h28', 'k-stuck dash')]],
  ['more than one holder', m => m.broken && m.overlaps.length, [box({ width: 28, height: 14 }, 'k-badsoft'), box({ y: 11, width: 28, height: 3 }, 'k-bad'), ['circle', { cx: 8, cy: 5, r: 3.4, class: 'k-bad' }]]],
  ['overlap of belief', m => !m.broken && m.overlaps.length, [box({ x: 0.5, y: 0.5, width: 27, height: 13 }, 'k-ink2 dash')]],
  ['fault', m => m.faults.length, [box({ width: 28, height: 14 }, 'k-fault'), path('M.5 0v14M27.5 0v14', 'k-faultline dash')]],
  ['read', m => !m.isSale && m.ops.some(op => op.shape === 'ring'), [['circle', { cx: 14, cy: 7, r: 4.5, class: 'k-ring' }]]],
  ['write', m => !m.isSale && m.ops.some(op => op.shape === 'square'), [box({ x: 9, y: 2, width: 10, height: 10 }, 'k-dark')]],
  ['refused by its fence', m => m.ops.some(op => op.refused && !op.declined), [box({ x: 9, y: 2, width: 10, height: 10 }, 'k-ring'), path('M6 14L22 0', 'k-ink')]],
  ['the lab looks', m => m.ops.some(op => op.shape === 'eye'), [path('M14 1l6 6-6 6-6-6z', 'k-ring')]],
];

const has = (model, type) => model.lanes.some(lane => lane.items.some(item => item.type === type));

export function legend(models) {
  const entry = ([text, , parts]) => h('li', {}, s('svg', { viewBox: '0 0 28 14', 'aria-hidden': 'true' }, parts.map(([tag, attributes]) => s(tag, attributes))), text);
  return h('ul', { class: 'legend', 'aria-label': 'Legend' }, MARKS.filter(([, shown]) => models.some(shown)).map(entry));
}
