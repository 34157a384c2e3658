// Thirty users at once, later a ramp up to twenty users. A user that finds the lock taken retries with one of three schedules. The tag
// `schedule` separates their figures.

import { sleep } from 'k6';
import exec from 'k6/execution';
import { Rate, Trend } from 'k6/metrics';
import { NOTHING_LOST, countWhatIsLeft, purchase, reset } from './scratch-shop.js';
import { IS_QUICK } from './settings.js';
import { TREND } from './summary.js';

export { handleSummary } from './summary.js';

const MAX_RETRIES = 15;
const CAP_MS = 5000;
const exponential = (retry) => Math.min(100 * 2 ** retry, CAP_MS);
const SCHEDULES = {
  fixed: () => 100,
  exponential,
  jitter: (retry) => Math.random() * exponential(retry),
};
const NAMES = Object.keys(SCHEDULES);

const retries = new Trend('retries_per_purchase');
const took = new Trend('purchase_with_retries', true);
const givenUp = new Rate('given_up');

const BEGIN_RAMP = IS_QUICK ? '4s' : '35s';
const stages = IS_QUICK
  ? [{ duration: '2s', target: 20 }, { duration: '1s', target: 0 }]
  : [{ duration: '10s', target: 20 }, { duration: '15s', target: 20 }, { duration: '5s', target: 0 }];

// A threshold per schedule, so that each gets its own line among the figures. The limit itself is always met.
const perSchedule = {};
for (const name of NAMES) {
  perSchedule[`retries_per_purchase{schedule:${name}}`] = ['max>=0'];
  perSchedule[`purchase_with_retries{schedule:${name}}`] = ['max>=0'];
}

export const options = {
  scenarios: {
    at_once: { executor: 'per-vu-iterations', vus: 30, iterations: 1, maxDuration: '30s' },
    ramped: { executor: 'ramping-vus', startTime: BEGIN_RAMP, startVUs: 0, stages, gracefulRampDown: '20s' },
  },
  thresholds: {
    ...(IS_QUICK ? {} : {
      'http_req_duration{scenario:at_once}': ['p(95)<1000'],
      'http_req_duration{scenario:ramped}': ['p(95)<1000'],
    }),
    http_req_failed: ['rate<0.10'],
    // As many as there are users at once, who buy one unit each. The users of the ramp buy many more.
    purchases_created: ['count>=30'],
    given_up: ['rate<0.05'],
    ...perSchedule,
    ...NOTHING_LOST,
  },
  summaryTrendStats: TREND,
};

export function setup() {
  return reset('k6-retry', 10000);
}

export default function ({ productId }) {
  const schedule = NAMES[exec.vu.idInTest % NAMES.length];
  const began = Date.now();
  for (let retry = 0; retry <= MAX_RETRIES; retry += 1) {
    const entry = purchase(productId, { schedule });
    if (entry && entry.success) {
      retries.add(retry, { schedule });
      took.add(Date.now() - began, { schedule });
      givenUp.add(false, { schedule });
      return;
    }
    if (retry < MAX_RETRIES) sleep(SCHEDULES[schedule](retry) / 1000);
  }
  givenUp.add(true, { schedule });
}

export function teardown({ productId }) {
  countWhatIsLeft(productId);
}
