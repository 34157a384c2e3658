// The entry point of the live page: draws each message when the page is visible.

import { $ } from '../../../viewer/src/dom.js';
import { startTheme } from '../../../viewer/src/theme.js';
import { Activity } from './activity.js';
import { Trials } from './trial.js';
import { Samples } from './samples.js';
import { Stream } from './stream.js';
import { write } from './keyed.js';

startTheme();
const activity = new Activity();
const trials = new Trials();
const samples = new Samples((...request) => trials.post(...request));
const newest = {};
let isPaused = false;
let isLinked = null;
let version = null;

const draw = {
  locks: frame => activity.showLocks(frame),
  activity: frame => {
    activity.showActivity(frame);
    samples.show(frame);
  },
  trial: frame => trials.show(frame),
};

function take(topic, frame) {
  newest[topic] = frame;
  if (!document.hidden && (!isPaused || topic === 'trial')) drawNewest(topic);
}

function drawNewest(topic) {
  const frame = newest[topic];
  delete newest[topic];
  if (frame) draw[topic](frame);
}

function catchUp() {
  if (document.hidden) return;
  for (const topic of Object.keys(draw)) if (!isPaused || topic === 'trial') drawNewest(topic);
}

function link(isThere) {
  if (isThere === isLinked) return;
  isLinked = isThere;
  write($('#link'), isThere ? 'connected' : 'connection lost');
  document.body.classList.toggle('is-lost', !isThere);
  const lost = $('#lost');
  lost.hidden = isThere;
  write(lost, isThere ? '' : `Connection lost at ${new Date().toTimeString().slice(0, 8)}: what is shown is older. Trying again.`);
}

// If the service was replaced by another version, load its page.
function hello({ page }) {
  if (version !== null && version !== page) location.reload();
  version = page;
}

$('#pause').addEventListener('click', event => {
  isPaused = !isPaused;
  event.target.setAttribute('aria-pressed', String(isPaused));
  event.target.textContent = isPaused ? 'Resume' : 'Pause';
  catchUp();
});
document.addEventListener('visibilitychange', catchUp);

const handlers = Object.fromEntries(Object.keys(draw).map(topic => [topic, frame => take(topic, frame)]));
new Stream('/page/live', { hello, ...handlers }, link);
document.documentElement.dataset.ready = 'true';
