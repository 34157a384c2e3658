// The cropped story: a few events with a sentence each, tied to their marks in the lanes.

import { bringIntoView, h } from '../../../../../viewer/src/dom.js';
import { count, exactMoment, moment } from '../../../../../viewer/src/format.js';
import { detail } from '../../../../../viewer/src/describe.js';

const TABLE_ROWS = 1000;

export class Story {
  constructor(list, lanes) {
    this.list = list;
    this.lanes = lanes;
    this.chosen = null;
  }

  show(run) {
    this.chosen = null;
    this.list.replaceChildren(...run.story.map(beat => this.line(run, beat)));
  }

  line(run, beat) {
    const event = run.byNumber(beat.event);
    const button = h('button', { type: 'button', 'aria-current': 'false' }, h('time', {}, event ? moment(event.t) : '–'), h('span', {}, beat.text));
    button.addEventListener('click', () => {
      this.chosen = beat.event;
      this.lanes.focusEvent(beat.event);
      const box = this.lanes.root.getBoundingClientRect();
      if (box.bottom < 200 || box.top > innerHeight - 200) bringIntoView(this.lanes.root, 'center');
    });
    const mark = beat.mark === 'proof' ? (run.outcome === 'STUCK' ? 'isstuck' : 'isbad') : beat.mark === 'good' ? 'isgood' : null;
    return h('li', { class: mark, 'data-event': beat.event }, button);
  }

  // A mark was chosen in the lanes: the line that tells of it is marked, too.
  mark(item) {
    const marks = this.lanes.model?.marks;
    for (const line of this.list.children) {
      const n = Number(line.dataset.event);
      const isIt = item != null && marks.get(n) === item && (this.chosen == null || this.chosen === n || marks.get(this.chosen) !== item);
      line.firstChild.setAttribute('aria-current', String(isIt));
    }
    if (item == null || marks.get(this.chosen) !== item) this.chosen = null;
  }
}

export function eventTable(run) {
  const heads = ['#', 'time', 'process', 'event', 'detail'].map(text => h('th', { scope: 'col' }, text));
  const rows = run.events.slice(0, TABLE_ROWS).map(event => h('tr', {},
    [event.n, exactMoment(event.t), event.who ?? 'the lab', event.kind.replaceAll('_', ' '), detail(event)].map(text => h('td', {}, String(text)))));
  const further = run.total - rows.length;
  return [
    h('table', {}, h('caption', { class: 'sr' }, 'Events'), h('thead', {}, h('tr', {}, heads)), h('tbody', {}, rows)),
    further > 0 ? h('p', { class: 'small mute pad' }, `${count(further)} further events are in the history file.`) : null,
  ].filter(Boolean);
}
