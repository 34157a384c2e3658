// Baskets of three out of fifty products, at two instances. Some orders are repeated with the same key at the other instance; some are
// confirmed, some cancelled, some left pending. In the end, the service's count of every unit must match what the users saw.
//
// BASE_URLS  the instances, separated by commas   [http://127.0.0.1:8080]
// VUS        users                                [100]
// DURATION   how long                             [60s; QUICK=1: 5s]
// STOCK      units of a product; every fifth product has a twentieth of that [1000]

import http from 'k6/http';
import { check } from 'k6';
import exec from 'k6/execution';
import { Counter } from 'k6/metrics';
import { IS_QUICK, headers } from './settings.js';
import { TREND } from './summary.js';

export { handleSummary } from './summary.js';

const URLS = (__ENV.BASE_URLS || 'http://127.0.0.1:8080').split(',');
const STOCK = Number(__ENV.STOCK || 1000);
const PRODUCTS = 50;
const SHOPS = 5;
const IN_BASKET = 3;

const made = new Counter('orders_created');
const refused = new Counter('orders_refused');
const replayDiffers = new Counter('replays_that_differ');
const violations = new Counter('invariant_violations');
// What the answers said, minus what the service says in the end. Any value except 0 means lost or duplicated units.
const sold = new Counter('units_sold_unaccounted');
const reserved = new Counter('units_reserved_unaccounted');

// A refusal is a valid answer, too.
http.setResponseCallback(http.expectedStatuses(200, 201, 409));

export const options = {
  scenarios: {
    shoppers: {
      executor: 'constant-vus',
      vus: Number(__ENV.VUS || 100),
      duration: __ENV.DURATION || (IS_QUICK ? '5s' : '60s'),
      gracefulStop: '30s',
    },
  },
  thresholds: {
    ...(IS_QUICK ? {} : { http_req_duration: ['p(95)<1000'] }),
    http_req_failed: ['rate<0.01'],
    checks: ['rate==1'],
    orders_created: ['count>0'],
    replays_that_differ: ['count==0'],
    invariant_violations: ['count==0'],
    units_sold_unaccounted: ['count==0'],
    units_reserved_unaccounted: ['count==0'],
  },
  summaryTrendStats: TREND,
};

// Group by route: an order id in the name would give one metric per order.
function post(url, body, more = {}) {
  const name = url.replace(/\/orders\/[^/]+/, '/orders/{id}');
  const text = body === null ? null : JSON.stringify(body);
  const answer = http.post(url, text, { headers: { ...headers(), ...more }, tags: { name } });
  warnOnce(name, answer);
  return answer;
}

const reported = {};

// Failures repeat: each user reports only the first of a kind.
function warnOnce(name, { status, body, error }) {
  if ([200, 201, 409].includes(status) || reported[status]) return;
  reported[status] = true;
  console.warn(`${name}: ${status} ${error || body}`);
}

const productId = (run, number) => `k6-${run}-${number}`;
const shopId = (number) => `shop-${number % SHOPS}`;

export function setup() {
  const run = Date.now().toString(36);
  for (let number = 0; number < PRODUCTS; number += 1) {
    const answer = post(`${URLS[0]}/v1/products`, {
      product_id: productId(run, number),
      shop_id: shopId(number),
      name: `Product ${number}`,
      price_cents: 100 + number,
      stock: number % 5 === 0 ? Math.ceil(STOCK / 20) : STOCK,
    });
    if (answer.status !== 201) throw new Error(`POST /v1/products: ${answer.status} ${answer.body}`);
  }
  return { run };
}

function below(limit) {
  return Math.floor(Math.random() * limit);
}

function basket(run) {
  const chosen = new Set();
  while (chosen.size < IN_BASKET) chosen.add(below(PRODUCTS));
  const shops = {};
  for (const number of chosen) {
    const item = { product_id: productId(run, number), quantity: 1 + below(3) };
    (shops[shopId(number)] = shops[shopId(number)] || []).push(item);
  }
  return {
    cart_id: `cart-${exec.vu.idInTest}`,
    user_id: `user-${exec.vu.idInTest}`,
    shop_orders: Object.keys(shops).map((id) => ({ shop_id: id, item_products: shops[id] })),
  };
}

function units(order) {
  return order.shop_orders.flatMap((shop) => shop.item_products)
    .reduce((sum, item) => sum + item.quantity, 0);
}

export default function ({ run }) {
  const at = below(URLS.length);
  const key = `${run}-${exec.vu.idInTest}-${exec.vu.iterationInInstance}-${exec.scenario.iterationInTest}`;
  const body = basket(run);
  const answer = post(`${URLS[at]}/v1/checkout/order`, body, { 'Idempotency-Key': key });
  check(answer, { 'created or refused': ({ status }) => status === 201 || status === 409 });
  if (answer.status !== 201) {
    refused.add(1);
    return;
  }
  made.add(1);
  reserved.add(units(body));
  const id = answer.json('order_id');
  if (Math.random() < 0.2) {
    const again = post(`${URLS[(at + 1) % URLS.length]}/v1/checkout/order`, body, { 'Idempotency-Key': key });
    if (again.status !== 201 || again.json('order_id') !== id) replayDiffers.add(1);
  }
  settle(`${URLS[(at + 1) % URLS.length]}/v1/orders/${id}`, units(body));
}

function settle(order, count) {
  const chance = Math.random();
  if (chance < 0.4) {
    const answer = post(`${order}/confirm`, null);
    check(answer, { confirmed: ({ status }) => status === 200 });
    if (answer.status === 200) {
      reserved.add(-count);
      sold.add(count);
    }
  } else if (chance < 0.7) {
    const answer = post(`${order}/cancel`, null);
    check(answer, { cancelled: ({ status }) => status === 200 });
    if (answer.status === 200) reserved.add(-count);
  }
}

export function teardown({ run }) {
  for (const url of URLS) {
    const answer = http.get(`${url}/v1/invariant`);
    if (answer.status !== 200) throw new Error(`GET /v1/invariant: ${answer.status} ${answer.body}`);
    if (answer.json('holds') !== true) violations.add(Math.max(1, answer.json('violations').length));
  }
  for (let number = 0; number < PRODUCTS; number += 1) {
    const product = http.get(`${URLS[0]}/v1/products/${productId(run, number)}`).json();
    sold.add(-product.sold);
    reserved.add(-product.reserved);
  }
}
