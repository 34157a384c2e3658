// Shows locks, figures, products, losses and orders. Each message contains everything that is shown, so no state is kept between messages.

import { $, glyph, h, s } from '../../../viewer/src/dom.js';
import { count, plural } from '../../../viewer/src/format.js';
import { Keyed, write } from './keyed.js';

const SPARK = { width: 200, height: 24 };
const REASONS = {
  contended: 'others kept buying it',
  out_of_stock: 'too little was left',
  unknown_product: 'not for sale',
  other_shop: 'another shop sells it',
  key_reused: 'another order under the same key',
  store_down: 'the lock store is unavailable',
  closing: 'the service was being stopped',
  database: 'the database failed',
  database_gone: 'the file of the database was removed or replaced',
  lost: 'the lease ended while its holder worked',
  stale: 'the database refused a stale fence: nothing was changed',
  open: 'the lock store failed too often: requests to it are suspended for a while',
  closed: 'the lock store is available again',
};
const KINDS = { refused: 'refused', lost: 'lost', stale: 'fenced', breaker: 'breaker' };
const LIGHTS = { closed: 'available', open: 'suspended', half_open: 'being tested' };

const seconds = (ms, digits) => `${(ms / 1000).toFixed(digits)} s`;
const clock = ms => new Date(ms).toTimeString().slice(0, 8);
const cents = amount => (amount / 100).toFixed(2).replace(/\B(?=(\d{3})+\.)/g, ',');

function lockRow() {
  const [prefix, name, small, holder, front, back, left, held, waiting] = ['span', 'span', 'small', 'td', 'span', 'span', 'span', 'td', 'td'].map(tag => h(tag));
  const fence = h('td', {}, front, back);
  prefix.className = front.className = 'hide';
  const bar = h('i', { 'aria-hidden': 'true' });
  holder.className = 'hide';
  held.className = 'num hide';
  fence.className = waiting.className = 'num';
  const element = h('tr', {}, h('td', {}, h('code', {}, prefix, name), small), holder, fence, h('td', {}, h('div', { class: 'lease' }, bar, left)), held, waiting);
  const fill = lock => {
    const who = lock.holder ?? 'nobody yet';
    const [, first, rest] = lock.name.match(/^(lock:product:)?(.*)$/s);
    write(prefix, first ?? '');
    write(name, rest);
    write(small, who);
    write(holder, who);
    // Fences are long and differ at their end. A final ".0" only means that the lock was not handed over.
    const number = lock.fence?.replace(/\.0$/, '') ?? '–';
    write(front, number.slice(0, -6));
    write(back, number.slice(-6));
    back.classList.toggle('cut', number.length > 6);
    fence.title = lock.fence ?? '';
    write(left, lock.ttl_left_ms == null ? '–' : seconds(lock.ttl_left_ms, 2));
    const heldMs = lock.held_ms ?? lock.held_at_store_ms;
    write(held, heldMs == null ? '–' : seconds(heldMs, 1));
    write(waiting, count(lock.waiting_here + lock.waiting_at_store));
    bar.style.setProperty('--left', `${Math.min(100, (100 * (lock.ttl_left_ms ?? 0)) / lock.ttl_ms)}%`);
  };
  return { element, fill };
}

function sparkline() {
  const { width, height } = SPARK;
  const area = s('path', { class: 'area' });
  const line = s('path', { class: 'line' });
  const picture = s('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' }, s('path', { class: 'floor', d: `M0 ${height - 1.5}H${width}` }), area, line);
  // A second without orders is a gap. The current second is incomplete and left out.
  const draw = shares => {
    const step = width / (shares.length - 1);
    const runs = [];
    shares.slice(0, -1).forEach((share, at, all) => {
      if (share < 0) return;
      if (!at || all[at - 1] < 0) runs.push({ from: (at * step).toFixed(1), to: 0, points: '' });
      const run = runs.at(-1);
      run.to = ((at + 1) * step).toFixed(1);
      run.points += `L${(at * step).toFixed(1)} ${(height - 2 - (share / 100) * (height - 4)).toFixed(1)}`;
    });
    area.setAttribute('d', runs.map(({ from, to, points }) => `M${from} ${height - 2}${points}H${to}V${height - 2}Z`).join(''));
    line.setAttribute('d', runs.map(({ to, points }) => `M${points.slice(1)}H${to}`).join(''));
  };
  return { picture, draw };
}

function productRow() {
  const [name, minute, stock, reserved, sold, sum] = ['td', 'td', 'td', 'td', 'td', 'td'].map(tag => h(tag));
  minute.className = stock.className = 'num';
  reserved.className = sold.className = 'num hide';
  const { picture, draw } = sparkline();
  const element = h('tr', {}, name, h('td', { class: 'spark' }, picture), minute, stock, reserved, sold, sum);
  let shown;
  const fill = product => {
    write(name, product.name);
    name.title = product.product_id;
    draw(product.shares);
    write(minute, product.minute.asked ? `${Math.round((100 * product.minute.contended) / product.minute.asked)} %` : '–');
    write(stock, count(product.stock));
    write(reserved, count(product.reserved));
    write(sold, count(product.sold));
    // Counted from the orders every few seconds. A constraint of the database keeps the three numbers beside it consistent.
    const addsUp = product.adds_up;
    if (addsUp === shown) return;
    shown = addsUp;
    const outcome = addsUp ? 'HELD' : 'BROKEN';
    sum.replaceChildren(addsUp == null ? '–' : h('span', { class: `adds v-${outcome}` }, glyph(outcome), addsUp ? 'yes' : 'no'));
  };
  return { element, fill };
}

function entryRow() {
  const [time, kind, text] = ['time', 'b', 'span'].map(tag => h(tag));
  const fill = entry => {
    write(time, clock(entry.at_ms));
    write(kind, KINDS[entry.kind] ?? entry.kind);
    const names = entry.products.join(', ') + (entry.more ? ` and ${count(entry.more)} more` : '');
    const times = entry.times > 1 ? ` (${count(entry.times)} times)` : '';
    write(text, `${names ? `${names}: ` : ''}${REASONS[entry.reason] ?? entry.reason}${times}`);
  };
  return { element: h('li', {}, time, kind, text), fill };
}

function orderRow() {
  const [id, items, status, total] = ['code', 'td', 'td', 'td'].map(tag => h(tag));
  items.className = 'two';
  total.className = 'num';
  const fill = order => {
    write(id, `…${order.id}`);
    write(items, order.items.map(item => item.product + (item.quantity > 1 ? ` × ${count(item.quantity)}` : '')).join(', '));
    write(status, order.status);
    write(total, cents(order.total_cents));
  };
  return { element: h('tr', {}, h('td', {}, id), items, status, total), fill };
}

// A table, or a short text if it would be empty.
class Part {
  constructor(name, keyOf, make) {
    this.table = $(`#${name}`);
    this.none = $(`#${name}-none`);
    this.more = $(`#${name}-more`);
    this.body = new Keyed($('tbody', this.table) ?? this.table, keyOf, make);
  }

  show(items, none, more = '') {
    this.body.show(items);
    this.table.hidden = !items.length;
    this.none.hidden = items.length > 0;
    write(this.none, none);
    if (!this.more) return;
    this.more.hidden = !more;
    write(this.more, more);
  }
}

export class Activity {
  constructor() {
    this.locks = new Part('locks', lock => lock.name, lockRow);
    this.products = new Part('products', product => product.product_id, productRow);
    this.log = new Part('log', entry => `${entry.kind} ${entry.reason} ${entry.products}`, entryRow);
    this.orders = new Part('orders', order => order.id, orderRow);
  }

  showLocks({ locks, ttl_ms, more, held, is_down }) {
    write($('#locks-sub'), `A lease lasts ${count(ttl_ms)} ms and is renewed while an order is being written.`);
    write($('#f-held'), count(held));
    const none = is_down ? 'The lock store does not answer.' : 'No lock is held or wanted right now. Send an order, and it appears here.';
    this.locks.show(locks.map(lock => ({ ...lock, ttl_ms })), none, more ? `and ${plural(more, 'lock', 'locks')} more` : '');
  }

  showActivity(activity) {
    const { minute, products } = activity;
    write($('#f-waiting'), count(activity.waiting));
    write($('#f-wait'), minute.asked > minute.refused ? count(minute.mean_wait_ms) : '–');
    write($('#f-refused'), minute.asked ? ((100 * minute.refused) / minute.asked).toFixed(1) : '–');
    write($('#f-orders'), count(minute.orders));
    write($('#breaker'), LIGHTS[activity.breaker] ?? activity.breaker);
    const noProducts = activity.is_down ? 'The database does not answer.' : 'No products yet. POST /v1/products puts one up for sale.';
    const left = activity.all_products - products.length;
    this.products.show(products, noProducts, left > 0 ? `and ${plural(left, 'product', 'products')} more; those that were asked for in the last minute come first` : '');
    this.log.show(unique(activity.entries, this.log.body.keyOf), 'None since somebody opened this page.');
    this.orders.show(activity.orders, 'None since somebody opened this page.');
    const missed = activity.missed ? ` ${count(activity.missed)} events came too fast to be shown.` : '';
    write($('#orders-sub'), `The last eight. Reserved, and neither confirmed nor over: ${count(activity.open_orders)}.${missed}`);
  }
}

// Keeps only the newest of several entries that look alike.
function unique(entries, keyOf) {
  const seen = new Set();
  return entries.filter(entry => !seen.has(keyOf(entry)) && seen.add(keyOf(entry)));
}
