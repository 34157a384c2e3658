// One row per strategy, one column per scenario; many scenarios of one strategy are a list. A cell is a button; arrow keys go from cell to
// cell.

import { $, commandBox, h, verdictTag } from '../../../../../viewer/src/dom.js';
import { count } from '../../../../../viewer/src/format.js';

const MEANINGS = [
  ['HELD', 'no violation, and the danger was seen to arise'],
  ['BROKEN', 'two held the lock at once, or data was damaged; with evidence'],
  ['STUCK', 'nobody could get on any more'],
  ['INCONCLUSIVE', 'the run shows neither'],
  ['N/A', 'does not apply'],
];
const REFUSED = 'two believed they held it; the resource refused the late one';
// More columns than this have no room for words.
const WORDY_COLUMNS = 9;
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

export const isSurprise = run => run.expected != null && run.expected !== run.outcome;
export const refusedOverlap = run => run.refused_overlap;

export class Matrix {
  constructor(data, onChoose) {
    this.data = data;
    this.onChoose = onChoose;
    this.cells = new Map();
  }

  mount() {
    const { runs } = this.data;
    const surprises = runs.filter(isSurprise).length;
    const foreseen = runs.filter(run => run.expected != null).length;
    const rest = surprises ? `; ${count(surprises)} did not (marked ≠)` : '';
    const expected = foreseen ? ` ${count(foreseen - surprises)} came out as expected${rest}.` : '';
    const ways = this.data.verdict ? 0 : this.data.retry?.rows.length ?? 0;
    const below = ways ? ` The ${count(ways)} ways of waiting have a table of their own, below.` : '';
    $('#matrix-sum').textContent = `${count(runs.length)} runs.${expected} Choose a cell to see its run.${below}`;
    if (this.data.retry && this.data.verdict) $('#h-m').textContent = 'Every way of waiting as a run';
    const isList = this.data.rows.length === 1 && this.data.columns.length > WORDY_COLUMNS;
    const table = h('table', { class: isList ? 'matrix list' : 'matrix' },
      h('caption', { class: 'sr' }, 'The verdict of each strategy in each scenario'),
      h('thead', {}, isList ? this.listHead() : this.head()),
      h('tbody', {}, isList ? this.list() : this.body()));
    if (!isList) this.fit(table);
    table.addEventListener('keydown', event => step(table, event));
    $('#matrix-table').append(table);
    $('#vkey').append(...MEANINGS.filter(([outcome]) => outcome === 'N/A' || runs.some(run => run.outcome === outcome)).map(([outcome, text]) => h('li', {}, verdictTag(outcome), text)));
    if (runs.some(refusedOverlap)) $('#vkey').append(h('li', {}, h('b', {}, '≈'), REFUSED));
    if (surprises) $('#vkey').append(h('li', {}, h('b', {}, '≠'), 'not as expected'));
  }

  head() {
    const column = ({ name, about }) => h('th', { scope: 'col' }, h('span', {}, name), h('small', {}, about));
    return h('tr', {}, h('th', { scope: 'col' }, h('span', { class: 'sr' }, 'Strategy')), this.data.columns.map(column));
  }

  listHead() {
    return h('tr', {}, ['Scenario', 'Verdict', 'What was seen'].map(name => h('th', { scope: 'col' }, name)));
  }

  list() {
    const [strategy] = this.data.rows;
    return this.data.columns.map(column => {
      const run = this.data.runs.find(one => one.scenario === column.name);
      return h('tr', {}, h('th', { scope: 'row' }, h('code', {}, column.name), h('small', {}, column.about)), this.cell(strategy, column), h('td', { class: 'seen' }, run?.because));
    });
  }

  // Without room for words, a cell is its sign alone.
  fit(table) {
    const narrow = matchMedia('(max-width: 900px)');
    const apply = () => table.classList.toggle('dense', narrow.matches || this.data.columns.length > WORDY_COLUMNS);
    narrow.addEventListener('change', apply);
    apply();
  }

  body() {
    const rows = [];
    let group = null;
    for (const row of this.data.rows) {
      if (row.group !== group && row.group) rows.push(h('tr', { class: 'group' }, h('th', { scope: 'colgroup', colspan: this.data.columns.length + 1 }, row.group)));
      group = row.group;
      rows.push(h('tr', {}, h('th', { scope: 'row' }, h('code', {}, row.name), h('small', {}, row.about)), this.data.columns.map(column => this.cell(row, column))));
    }
    return rows;
  }

  cell(row, column) {
    const run = this.data.runs.find(one => one.strategy === row.name && one.scenario === column.name);
    if (!run) return h('td', {}, h('span', { class: 'cell none' }, verdictTag('N/A')));
    const note = isSurprise(run) ? `≠ expected ${run.expected}` : refusedOverlap(run) ? REFUSED : null;
    const button = h('button', { class: 'cell', type: 'button', 'aria-pressed': 'false', 'aria-label': [`${row.name}, ${column.name}: ${run.outcome}`, note].filter(Boolean).join(', '), title: note }, verdictTag(run.outcome, { note: isSurprise(run) ? note : null }));
    if (note) button.append(h('span', { class: isSurprise(run) ? 'odd narrow' : 'odd', 'aria-hidden': 'true' }, isSurprise(run) ? '≠' : '≈'));
    button.addEventListener('click', () => this.onChoose(run));
    this.cells.set(run.id, button);
    return h('td', {}, button);
  }

  mark(run) {
    for (const [id, button] of this.cells) button.setAttribute('aria-pressed', String(id === run.id));
  }
}

function step(table, event) {
  const direction = STEPS[event.key];
  const cell = event.target.closest('td');
  if (!direction || !cell) return;
  event.preventDefault();
  let [row, column] = [cell.parentNode.rowIndex, cell.cellIndex];
  for (;;) {
    row += direction[0];
    column += direction[1];
    if (row < 1 || row >= table.rows.length || column < 1 || column > table.rows[0].cells.length) return;
    const button = table.rows[row].cells[column]?.querySelector('button');
    if (button) return button.focus();
  }
}

// The same scenario with another strategy; only runs that were set alike.
export const peers = (data, run) => data.runs.filter(other => other.scenario === run.scenario && other.compared_by === run.compared_by);

export function ladder(data, run, onChoose) {
  const same = peers(data, run);
  if (same.length < 2) return [];
  const button = other => h('button', { type: 'button', 'aria-pressed': String(other === run), onclick: () => onChoose(other) }, verdictTag(other.outcome, { word: false }), other.strategy);
  return [h('span', {}, 'Same scenario, same settings'), ...same.map(button)];
}

export const again = run => [h('div', { class: 'label' }, 'Run it again'), commandBox(run.command)];
