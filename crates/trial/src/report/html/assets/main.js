// The page: reads its data, shows the verdict, and draws the run that is chosen.

import { $, bringIntoView, h, verdictTag } from '../../../../../viewer/src/dom.js';
import { startTheme } from '../../../../../viewer/src/theme.js';
import { decode } from '../../../../../viewer/src/decode.js';
import { Lanes } from '../../../../../viewer/src/lanes.js';
import { eventTable, Story } from './story.js';
import { again, ladder, Matrix } from './matrix.js';
import { axes, checkTable, chips, claimTable, grounds, mountHead } from './verdict.js';
import { chart, stockCaption, stockChart, stockOf } from './charts.js';
import { mountRetry } from './retry.js';
import { Comparison } from './compare.js';

const data = decode($('#data').textContent);
const single = data.runs.length === 1;
let current = null;

startTheme();
mountHead($('#head'), data);
const lanes = new Lanes($('#lanes'), { onPick: item => story.mark(item) });
const story = new Story($('#storylist'), lanes);
const matrix = new Matrix(data, run => open(run, true));
const comparison = new Comparison(data, lanes);
let drawStock = null;

function open(run, moves) {
  current = run;
  matrix.mark(run);
  $('#h-r').textContent = single ? 'The run' : `${run.strategy}, ${run.about}`;
  $('#run-v').replaceChildren(...(single ? [] : [verdictTag(run.outcome)]));
  $('#run-s').textContent = single ? '' : run.because;
  $('#run-grounds').replaceChildren(...(single ? [] : [axes(run), grounds(run)]));
  $('#ladder').replaceChildren(...ladder(data, run, other => open(other, false)));
  $('#run-p').replaceChildren(...chips(run));
  lanes.show(run);
  comparison.offer(run);
  story.show(run);
  $('#story').hidden = !run.story.length;
  showStock(run);
  $('#run-cmd').replaceChildren(...(single ? [] : again(run)));
  $('#facts-body').replaceChildren(...(run.checks.length ? [checkTable(run)] : []), claimTable(run));
  const table = $('#table');
  table.open = false;
  $('.evtable', table).replaceChildren();
  address(run);
  if (moves) {
    bringIntoView($('#run'));
    $('#h-r').focus({ preventScroll: true });
  }
}

function showStock(run) {
  const stock = stockOf(run);
  $('#stock-h').textContent = stock.isSale ? 'Stock over time' : 'The number over time';
  $('#stock-cap').textContent = stockCaption(run, stock);
  $('#stock').hidden = !stock.changes;
  $('#stock-key').hidden = !stock.changes;
  current.stock = stock;
  if (drawStock) drawStock();
  else drawStock = chart($('#stock'), width => stockChart(current, current.stock, width));
}

// A link leads to a run. A page from a file may not be allowed to change its address: then it stays as it is.
function address(run) {
  if (single) return;
  try {
    history.replaceState(null, '', `#run=${encodeURIComponent(run.id)}`);
  } catch {
    return;
  }
}

const wanted = () => {
  const id = decodeURIComponent(location.hash.match(/run=([^&]+)/)?.[1] ?? '');
  return data.runs.find(run => run.id === id);
};

$('#table').addEventListener('toggle', event => {
  if (event.target.open) $('.evtable').replaceChildren(...eventTable(current));
});
addEventListener('hashchange', () => {
  const run = wanted();
  if (run && run !== current) open(run, true);
});

if (!single) {
  matrix.mount();
  $('#matrix').hidden = false;
}
if (data.retry) mountRetry(data.retry);
// Where waiting is the question, its figures are the answer.
if (data.retry && data.verdict) $('#head').after($('#retry'));
for (const link of document.querySelectorAll('.top nav a')) link.hidden = $(link.getAttribute('href')).hidden;
const isOf = command => data.command.startsWith('fencepost ' + command);
const flag = text => h('code', {}, text);
const histories = () => {
  if (isOf('run-all')) return ['The histories lie beside this page, a file for each run: ', flag('fencepost check FILE.jsonl')];
  if (isOf('gauntlet')) return ['To keep the histories: ', flag('--output DIR')];
  // A comparison of all strategies keeps none.
  if (data.command.includes(' --all')) return [];
  return ['To keep the history: ', flag('--history FILE.jsonl')];
};
$('#foot').append('Fencepost judges from a recorded history; this page only draws it. ', ...histories());
const first = wanted() ?? data.runs.find(run => run.id === data.lead) ?? data.runs[0];
if (first) open(first, false);
document.documentElement.dataset.ready = 'true';
