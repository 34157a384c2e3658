// What the scripts against /reset, /purchase and /stock have in common.
//
// BASE_URL   the service            [http://127.0.0.1:8080]
// LOCK       the lock strategy      [safe]
// TOKEN      the admin token, where the service wants one
// QUICK=1    seconds instead of a minute, and no limits on time: they mean nothing then

import http from 'k6/http';
import { Counter, Rate, Trend } from 'k6/metrics';

export const BASE_URL = __ENV.BASE_URL || 'http://127.0.0.1:8080';
export const IS_QUICK = __ENV.QUICK === '1';
const LOCK = __ENV.LOCK || 'safe';

export const created = new Counter('purchases_created');
export const rejected = new Counter('purchases_rejected');
// Of those that were answered: a service that refuses everybody is quick, too.
const share = new Rate('purchases_created_share');
const took = new Trend('purchase_created_duration', true);
// What was put in, less what was sold, less what is left. Anything but 0 was sold twice or lost.
const unaccounted = new Counter('units_unaccounted');

export const NOTHING_LOST = { units_unaccounted: ['count==0'] };

export function headers() {
  const all = { 'Content-Type': 'application/json' };
  if (__ENV.TOKEN) all.Authorization = `Bearer ${__ENV.TOKEN}`;
  return all;
}

function post(path, body, tags) {
  return http.post(`${BASE_URL}${path}`, JSON.stringify(body), { headers: headers(), tags });
}

// Throws when the service is not there: without it no other figure means anything.
export function reset(product_id, stock) {
  const answer = post('/reset', { product_id, stock });
  if (answer.status !== 200) throw new Error(`POST /reset: ${answer.status} ${answer.body}`);
  unaccounted.add(stock);
  return { product_id };
}

// The answer's body, or null when there was none of the kind. Refused is an answer, too.
export function purchase(product_id, tags) {
  const answer = post('/purchase', { product_id, quantity: 1, lock_strategy: LOCK }, tags);
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

export function count_what_is_left(product_id) {
  const answer = http.get(`${BASE_URL}/stock/${product_id}`);
  if (answer.status !== 200) throw new Error(`GET /stock: ${answer.status} ${answer.body}`);
  const left = answer.json('stock');
  unaccounted.add(-left);
  return left;
}
