// Code shared by the scripts that use /reset, /purchase and /stock.
//
// BASE_URL   the service            [http://127.0.0.1:8080]
// LOCK       the lock strategy      [safe]

import http from 'k6/http';
import { Counter, Rate, Trend } from 'k6/metrics';
import { headers } from './settings.js';

export const BASE_URL = __ENV.BASE_URL || 'http://127.0.0.1:8080';
const LOCK = __ENV.LOCK || 'safe';

export const created = new Counter('purchases_created');
export const rejected = new Counter('purchases_rejected');
// Only successful purchases: a service that refuses everyone is fast, too.
const share = new Rate('purchases_created_share');
const took = new Trend('purchase_created_duration', true);
// The initial stock, minus what was sold, minus what is left. Any value except 0 means units sold twice or lost.
const unaccounted = new Counter('units_unaccounted');

export const NOTHING_LOST = { units_unaccounted: ['count==0'] };

function post(path, body, tags) {
  return http.post(`${BASE_URL}${path}`, JSON.stringify(body), { headers: headers(), tags });
}

// Throws if the service does not answer: no other figure would mean anything.
export function reset(productId, stock) {
  const answer = post('/reset', { product_id: productId, stock });
  if (answer.status !== 200) throw new Error(`POST /reset: ${answer.status} ${answer.body}`);
  unaccounted.add(stock);
  return { productId };
}

// Returns the body of a valid answer, or null. A refusal is a valid answer, too.
export function purchase(productId, tags) {
  const answer = post('/purchase', { product_id: productId, quantity: 1, lock_strategy: LOCK }, tags);
  if (answer.status !== 200) return null;
  const entry = answer.json();
  share.add(entry.success, tags);
  if (entry.success) {
    took.add(answer.timings.duration, tags);
    created.add(1, tags);
    unaccounted.add(-1);
  } else {
    rejected.add(1, tags);
  }
  return entry;
}

export function countWhatIsLeft(productId) {
  const answer = http.get(`${BASE_URL}/stock/${productId}`);
  if (answer.status !== 200) throw new Error(`GET /stock: ${answer.status} ${answer.body}`);
  const left = answer.json('stock');
  unaccounted.add(-left);
  return left;
}
