// A hundred users for a minute, all on one product. Each purchase is one attempt: if the lock is taken, it is refused.

import { sleep } from 'k6';
import { NOTHING_LOST, countWhatIsLeft, purchase, reset } from './scratch-shop.js';
import { IS_QUICK } from './settings.js';
import { TREND } from './summary.js';

export { handleSummary } from './summary.js';

const stages = IS_QUICK
  ? [{ duration: '2s', target: 100 }, { duration: '4s', target: 100 }, { duration: '1s', target: 0 }]
  : [{ duration: '30s', target: 100 }, { duration: '60s', target: 100 }, { duration: '10s', target: 0 }];

export const options = {
  scenarios: {
    crowd: { executor: 'ramping-vus', startVUs: 0, stages, gracefulRampDown: '10s' },
  },
  thresholds: {
    ...(IS_QUICK ? {} : {
      http_req_duration: ['p(95)<500', 'p(99)<1000'],
      purchase_created_duration: ['p(95)<500', 'p(99)<1000'],
    }),
    http_req_failed: ['rate<0.10'],
    // Each is one attempt. Most find the lock taken or, near the end, no stock; a user that gets the lock buys.
    purchases_created: [IS_QUICK ? 'count>=20' : 'count>=500'],
    purchases_created_share: ['rate>0.05'],
    ...NOTHING_LOST,
  },
  summaryTrendStats: TREND,
};

export function setup() {
  return reset('k6-high-load', 10000);
}

export default function ({ productId }) {
  purchase(productId);
  // A user looks at the answer before the next click.
  sleep(0.1);
}

export function teardown({ productId }) {
  countWhatIsLeft(productId);
}
