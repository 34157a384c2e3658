// Creates sample products for an empty shop, and sample orders for them. These are ordinary requests that need the same rights as others.

import { $ } from '../../../viewer/src/dom.js';
import { count } from '../../../viewer/src/format.js';
import { write } from './keyed.js';

const SHOP = 'sample-shop';
const PRODUCTS = [['lamp', 'Lamp', 1990], ['desk', 'Desk', 24900], ['chair', 'Chair', 8900], ['mug', 'Mug', 750], ['rug', 'Rug', 5900], ['clock', 'Clock', 3400]]
  .map(([id, name, price_cents]) => ({ product_id: `sample-${id}`, shop_id: SHOP, name, price_cents, stock: 500 }));
const ORDERS = 200;
// Browsers open at most six connections to one host, and the stream uses one of them.
const AT_ONCE = 5;

const anyOf = list => list[Math.floor(Math.random() * list.length)];

// Most orders want the same product, so that its lock is contended.
function basket() {
  const [first, ...others] = PRODUCTS;
  const wanted = new Set([Math.random() < 0.6 ? first : anyOf(PRODUCTS), anyOf(others)]);
  const items = [...wanted].map(({ product_id }) => ({ product_id, quantity: 1 }));
  return { cart_id: 'sample-cart', user_id: 'sample-user', shop_orders: [{ shop_id: SHOP, item_products: items }] };
}

export class Samples {
  // `post` sends a request, and asks for the token if one is needed.
  constructor(post) {
    Object.assign(this, { post, isBusy: false });
    $('#samples-put').addEventListener('click', () => this.run(() => this.put()));
    $('#samples-send').addEventListener('click', () => this.run(() => this.send()));
  }

  show({ products, all_products, is_down }) {
    const isEmpty = !is_down && all_products === 0;
    const hasSamples = !is_down && products.some(({ product_id }) => PRODUCTS.some(sample => sample.product_id === product_id));
    $('#samples-put').hidden = !isEmpty;
    $('#samples-send').hidden = !hasSamples;
    $('#samples').hidden = !isEmpty && !hasSamples;
  }

  async run(work) {
    if (this.isBusy) return;
    this.isBusy = true;
    this.mark();
    await work();
    this.isBusy = false;
    this.mark();
  }

  // Not `disabled`, because a button that was pressed with the keyboard would lose the focus.
  mark() {
    for (const name of ['#samples-put', '#samples-send']) $(name).setAttribute('aria-disabled', String(this.isBusy));
  }

  tell(words) {
    write($('#samples-out'), words);
  }

  async put() {
    for (const product of PRODUCTS) {
      const answer = await this.post('/v1/products', product, () => this.run(() => this.put()));
      // 409: another client has created it in the meantime.
      if (answer?.status !== 201 && answer?.status !== 409) return this.tell('The products were not added.');
    }
    this.tell('');
  }

  async send() {
    const sum = { left: ORDERS, made: 0, refused: 0, failed: false };
    await Promise.all(Array.from({ length: AT_ONCE }, () => this.customer(sum)));
    const { made, refused, failed } = sum;
    this.tell(`${count(made)} made, ${count(refused)} refused${failed ? '; then the service did not take any more' : ''}.`);
  }

  async customer(sum) {
    while (sum.left > 0 && !sum.failed) {
      sum.left -= 1;
      const answer = await this.post('/v1/checkout/order', basket(), () => this.run(() => this.send()));
      if (answer?.status === 201) {
        sum.made += 1;
        const { order_id } = await answer.json();
        if (Math.random() < 0.5) await this.post(`/v1/orders/${order_id}/confirm`, {});
      } else if (answer?.status === 409 || answer?.status === 503) {
        sum.refused += 1;
      } else {
        sum.failed = true;
      }
      this.tell(`${count(ORDERS - sum.left)} of ${count(ORDERS)} sent.`);
    }
  }
}
