// A second run under the first, on the same axis: what differs is the strategy, nothing else.

import { $, h, verdictTag } from '../../../../../viewer/src/dom.js';
import { legend } from '../../../../../viewer/src/legend.js';
import { Lanes } from '../../../../../viewer/src/lanes.js';
import { peers } from './matrix.js';

export class Comparison {
  constructor(data, lanes) {
    this.data = data;
    this.lanes = lanes;
    this.second = null;
    this.select = h('select', { id: 'compare', onchange: () => this.choose() });
    $('#compare-bar').append(h('label', { for: 'compare' }, 'Compare with'), this.select);
  }

  // A run was opened: what it can be compared with, and nothing yet beside it.
  offer(run) {
    this.run = run;
    const others = peers(this.data, run).filter(other => other !== run);
    $('#compare-bar').hidden = !others.length;
    this.select.replaceChildren(h('option', { value: '' }, 'nothing'), ...others.map(other => h('option', { value: other.id }, `${other.strategy}: ${other.outcome}`)));
    this.choose();
  }

  choose() {
    const other = this.data.runs.find(run => run.id === this.select.value);
    const place = $('#beside');
    place.hidden = !other;
    this.lanes.link(null);
    if (other) {
      this.second ??= new Lanes($('#lanes-2'), { name: 'Swim-lanes of the run beside it' });
      $('#beside-h').replaceChildren(h('span', {}, other.strategy), verdictTag(other.outcome));
      $('#beside-s').textContent = other.because;
      this.second.show(other);
      this.lanes.link(this.second);
    }
    const models = [this.lanes.model, other ? this.second.model : null].filter(Boolean);
    $('#legend').replaceChildren(legend(models));
  }
}
