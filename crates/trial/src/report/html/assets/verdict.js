// What was decided over a run, and on what grounds. The page repeats the checks; it judges nothing.

import { commandBox, glyph, h, verdictTag } from '../../../../../viewer/src/dom.js';
import { count, moment } from '../../../../../viewer/src/format.js';
import { isSurprise } from './matrix.js';

const FINDINGS = { held: ['HELD', 'held'], undecided: ['INCONCLUSIVE', 'undecided'], 'n/a': ['N/A', 'n/a'] };

// Red is for what broke the run: the same finding in a run that held is none that convicts its lock.
function finding(run, found) {
  if (found !== 'violated') return FINDINGS[found] ?? FINDINGS['n/a'];
  if (run.outcome === 'BROKEN' || run.outcome === 'STUCK') return [run.outcome, 'violated'];
  return ['INCONCLUSIVE', 'violated, not counted'];
}

export function axes(run) {
  const expected = run.expected == null ? null : isSurprise(run) ? `no: ${run.expected} was expected` : 'yes';
  const pairs = [['Overlap of belief', run.belief], ['Damage', run.damage], ['As expected', expected], ['Exit code', `${run.exit_code} (${run.outcome})`]];
  return h('dl', { class: 'axes' }, pairs.filter(([, value]) => value != null).map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', { class: value.length > 30 ? 'long' : null }, value))));
}

export function grounds(run) {
  const rows = [];
  const add = (name, ...lines) => lines.filter(Boolean).forEach((line, at) => rows.push(h('dt', {}, at ? '' : name), h('dd', {}, line)));
  add('measured', ...run.measured);
  add('proof', ...run.evidence.map(evidence => [h('span', { class: 'when' }, `#${evidence.event} · ${moment(evidence.at_us)}`), ' ', evidence.text, evidence.shows ? h('span', { class: 'shows' }, `; ${evidence.shows}`) : null]));
  add('label', run.label);
  add('witness', ...run.witness);
  add('missing', run.missing);
  add('found', ...run.found);
  add('why', run.why);
  add('limits', run.limits);
  add('note', ...run.notes);
  return h('dl', { class: 'grounds' }, rows);
}

export const chips = run => run.settings.map(([name, value]) => h('span', {}, `${name} `, h('b', {}, value)));

export function mountHead(place, data) {
  const about = h('dl', { class: 'facts' }, [['Seed', String(data.seed)], ['Made', data.generated], ['Store', data.store], ['Tool', `fencepost ${data.version}`]].flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
  const sentence = text => text.replace(/(\d) (ms|s|µs|×)/g, '$1\u00a0$2');
  const command = h('div', {}, h('div', { class: 'label' }, 'Reproduce it'), commandBox(data.command), h('p', { class: 'tiny mute mt6' }, 'The seed repeats every choice of the lab, not the timing of the operating system.'));
  const meta = h('div', { class: 'meta' }, command, about);
  if (data.runs.length === 1) {
    const [run] = data.runs;
    place.append(h('p', { class: 'over' }, 'Tried: ', h('code', {}, run.strategy), ` under ${run.scenario} (${run.about})`), h('div', { class: 'verdictline' }, verdictTag(run.outcome)), h('h1', {}, sentence(run.because)), axes(run), grounds(run), meta);
    return;
  }
  if (data.verdict) {
    const { outcome, because, found, witness, limits } = data.verdict;
    place.append(h('p', { class: 'over' }, data.title), h('div', { class: 'verdictline' }, verdictTag(outcome)), h('h1', {}, sentence(because)), grounds({ measured: [], evidence: [], notes: [], found, witness, limits }), meta);
    return;
  }
  // Each way of waiting has a verdict too, though it stands in a table of its own.
  const tried = [...data.runs, ...(data.retry?.rows ?? [])];
  const tally = outcome => tried.filter(run => run.outcome === outcome).length;
  const asExpected = tried.filter(run => !isSurprise(run)).length;
  const tallies = ['HELD', 'BROKEN', 'STUCK', 'INCONCLUSIVE'].filter(outcome => tally(outcome) || outcome !== 'INCONCLUSIVE');
  place.append(h('p', { class: 'over' }, data.title), h('h1', {}, `${count(asExpected)} of ${count(tried.length)} as expected`),
    h('dl', { class: 'axes' }, tallies.map(outcome => h('div', {}, h('dt', {}, verdictTag(outcome)), h('dd', {}, count(tally(outcome)))))), meta);
}

export function checkTable(run) {
  const row = check => {
    const [outcome, word] = finding(run, check.finding);
    return h('tr', {}, h('th', { scope: 'row' }, check.title), h('td', {}, h('span', { class: `res v-${outcome.replace('/', '')}` }, glyph(outcome), word)), h('td', { class: 'two' }, check.detail));
  };
  return h('table', { class: 'checks' }, h('caption', {}, `Checks on ${run.strategy}, ${run.scenario}`), h('thead', {}, h('tr', {}, ['Property', 'Result', 'Evidence'].map(text => h('th', { scope: 'col' }, text)))), h('tbody', {}, run.checks.map(row)));
}

export function claimTable(run) {
  return h('table', { class: 'checks' }, h('caption', {}, `What ${run.strategy} promises`), h('thead', {}, h('tr', {}, ['Promise', 'Its word'].map(text => h('th', { scope: 'col' }, text)))), h('tbody', {}, run.claims.map(([name, value]) => h('tr', {}, h('th', { scope: 'row' }, name), h('td', {}, value)))));
}
