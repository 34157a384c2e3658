// Starts a trial with a button, and draws it while it runs, with the viewer of the lab's reports.

import { $, commandBox, h, verdictTag, wantsStillness } from '../../../viewer/src/dom.js';
import { unpack } from '../../../viewer/src/decode.js';
import { Lanes } from '../../../viewer/src/lanes.js';
import { legend } from '../../../viewer/src/legend.js';
import { plural } from '../../../viewer/src/format.js';
import { write } from './keyed.js';

// The axis grows in steps, so that marks do not move all the time.
const STEP_US = 1e6;
const BETWEEN_DRAWINGS_MS = 80;

export class Trials {
  constructor() {
    this.lanes = null;
    this.buttons = [];
    this.token = '';
    this.goesOn = false;
    this.drawn = 0;
    $('#stop').addEventListener('click', () => this.goesOn && this.ask('/page/trial/stop'));
    $('#token-use').addEventListener('click', () => this.useToken());
    $('#token').addEventListener('keydown', event => event.key === 'Enter' && this.useToken());
  }

  show({ trial, about, offers, page }) {
    write($('#trial-about'), about);
    this.offer(offers);
    const isNew = trial.id !== this.id;
    this.id = trial.id;
    this.goesOn = trial.phase === 'starting' || trial.phase === 'running';
    if (isNew) this.began = Infinity;
    this.mark(trial);
    this.tell(trial, page);
    $('#trial').dataset.phase = trial.phase;
    $('#drawn').hidden = !page;
    if (page) this.draw(unpack(page).runs[0], trial.phase);
  }

  offer(offers) {
    this.turn(offers.length > 0);
    if (this.buttons.length === offers.length) return;
    this.buttons = offers.map(({ lock, about }) => {
      const button = h('button', { type: 'button', 'aria-pressed': 'false', 'data-lock': lock, title: about, onclick: () => this.start(lock) }, `Run ${lock}`);
      const tell = () => write($('#about'), `${lock}: ${about}`);
      button.addEventListener('focus', tell);
      button.addEventListener('pointerenter', tell);
      return button;
    });
    $('#offers').replaceChildren(...this.buttons);
  }

  // Without the lab, the section says how to turn it on. The field for the token stays, because sample orders may need it.
  turn(isOn) {
    $('#trial').hidden = false;
    $('#trial-off').hidden = isOn;
    for (const part of ['#offers', '#stop', '#about', '#out']) $(part).hidden = !isOn;
  }

  // Not `disabled`, because a button that was pressed with the keyboard would lose the focus.
  mark(trial) {
    for (const button of this.buttons) {
      button.setAttribute('aria-disabled', String(this.goesOn));
      button.setAttribute('aria-pressed', String(button.dataset.lock === trial.lock && trial.id > 0));
    }
    $('#stop').setAttribute('aria-disabled', String(!this.goesOn));
  }

  tell(trial, page) {
    const words = { idle: 'Nothing was tried yet.', starting: `${trial.lock}: the processes start.`, running: `${trial.lock} is running.` };
    const end = trial.phase === 'ended' && page?.runs[0];
    const key = `${trial.id} ${trial.phase}`;
    if (key === this.shown) return;
    this.shown = key;
    const sentence = text => h('span', { class: 'two' }, text);
    $('#out').replaceChildren(...(end ? [verdictTag(end.outcome), sentence(end.because)] : [sentence(words[trial.phase] ?? trial.words ?? '')]));
    $('#again').replaceChildren(...(end ? [h('p', { class: 'sub' }, 'The same on the command line; a report of it: --report FILE.html'), commandBox(page.command)] : []));
  }

  draw(run, phase) {
    this.lanes ??= new Lanes($('#lanes'), { name: 'Swim-lanes of the trial' });
    this.run = run;
    if (phase !== 'running') {
      this.lanes.show(run);
      if (phase !== 'ended') write(this.lanes.live, `Without a verdict: ${plural(run.total, 'event', 'events')} were recorded.`);
      $('#legend').replaceChildren(legend([this.lanes.model]));
      return;
    }
    const last = run.events.at(-1)?.t ?? 0;
    this.began = Math.min(this.began, performance.now() - last / 1000);
    write(this.lanes.live, 'Dotted: asked, and not answered yet. There is no verdict before the end.');
    this.grow(true);
  }

  // Keep the clock running between two messages.
  grow(isDue) {
    const now = performance.now();
    if (isDue || now - this.drawn >= BETWEEN_DRAWINGS_MS) {
      this.drawn = now;
      const at = (now - this.began) * 1000;
      this.lanes.grow(this.run, at, Math.ceil((at + STEP_US / 5) / STEP_US) * STEP_US);
      $('#legend').replaceChildren(legend([this.lanes.model]));
    }
    if (wantsStillness()) return;
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if ($('#trial').dataset.phase === 'running') this.grow(false);
    });
  }

  start(lock) {
    if (!this.goesOn) this.ask('/page/trial', { lock });
  }

  async ask(path, body = {}) {
    const answer = await this.post(path, body, () => this.ask(path, body));
    if (!answer) this.complain('The service does not answer.');
    else if (!answer.ok) this.complain((await answer.json()).detail);
  }

  // Returns the response, or nothing if there is none. If a token is needed, asks for it and calls `again` once it is given.
  async post(path, body, again) {
    const headers = { 'Content-Type': 'application/json', ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}) };
    try {
      const answer = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) });
      $('#token-box').hidden = answer.status !== 401;
      if (answer.status === 401 && again) this.wantToken(again);
      return answer;
    } catch {
      return null;
    }
  }

  wantToken(again) {
    this.again = again;
    $('#token').type = 'password';
    $('#token').focus();
  }

  useToken() {
    this.token = $('#token').value.trim();
    this.again?.();
  }

  complain(words) {
    this.shown = null;
    $('#out').replaceChildren(h('span', { class: 'two' }, words ?? 'It was refused.'));
  }
}
