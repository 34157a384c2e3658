// Fifty users want the only unit at the same moment. Exactly one gets it.

import { NOTHING_LOST, countWhatIsLeft, purchase, reset } from './scratch-shop.js';
import { TREND } from './summary.js';

export { handleSummary } from './summary.js';

export const options = {
  scenarios: {
    rush: { executor: 'shared-iterations', vus: 50, iterations: 50, maxDuration: '60s' },
  },
  thresholds: {
    purchases_created: ['count==1'],
    purchases_rejected: ['count==49'],
    http_req_failed: ['rate==0'],
    ...NOTHING_LOST,
  },
  summaryTrendStats: TREND,
};

export function setup() {
  return reset('k6-oversell', 1);
}

export default function ({ productId }) {
  purchase(productId);
}

export function teardown({ productId }) {
  countWhatIsLeft(productId);
}
