// The layout: rows from top to bottom, time from left to right.

const LEASE_ROW = 36;
const RIGHT = 10;
export const CROWD_FROM = 7;

const laneHeight = lanes => {
  const steps = [[4, 48], [6, 42], [16, 26], [60, 13], [120, 8]];
  return (steps.find(([most]) => lanes <= most) ?? [0, 5])[1];
};

const barHeight = lane => (lane >= 48 ? 22 : lane >= 40 ? 20 : lane >= 26 ? 15 : lane >= 13 ? 9 : Math.max(3, lane - 2));

export class Layout {
  constructor(model) {
    const lanes = model.lanes.length;
    this.lane = laneHeight(lanes);
    this.roomy = this.lane >= 26;
    this.leaseRows = model.leases.length ? Math.max(1, Math.min(2, model.keys.length)) : 0;
    // Two locks in one lane need a row each.
    this.twoKeys = model.keys.length > 1 && this.roomy;
    if (this.twoKeys) this.lane = Math.max(this.lane, 48);
    this.bar = this.twoKeys ? 15 : barHeight(this.lane);
    this.axis = 26;
    this.fault = model.faults.length ? 22 : 0;
    this.lease = this.leaseRows * LEASE_ROW;
    this.crowd = model.crowd ? 34 : 0;
    this.gap = lanes ? 8 : 0;
    this.register = model.ops.length ? (lanes > 16 ? 44 : 56) : 0;
    this.leaseTop = this.axis + this.fault;
    this.crowdTop = this.leaseTop + this.lease;
    this.top = this.crowdTop + this.crowd + this.gap;
    this.bottom = this.top + lanes * this.lane + this.gap;
    this.height = lanes ? this.bottom + this.register + 6 : 140;
    this.registerMiddle = this.bottom + this.register / 2;
  }

  laneTop(lane) {
    return this.top + lane.index * this.lane;
  }

  laneMiddle(lane) {
    return this.laneTop(lane) + this.lane / 2;
  }

  barTop(item) {
    const top = this.laneTop(item.lane);
    return this.twoKeys ? top + 7 + Math.min(item.key, 1) * 18 : top + (this.lane - this.bar) / 2;
  }

  barMiddle(item) {
    return this.barTop(item) + this.bar / 2;
  }

  leaseRow(key) {
    return this.leaseTop + Math.min(key, this.leaseRows - 1) * LEASE_ROW + 5;
  }

  leaseRowAt(y) {
    return Math.floor((y - this.leaseTop) / LEASE_ROW);
  }
}

export class View {
  constructor() {
    this.from = 0;
    this.to = 1;
    this.end = 1;
    this.resize(0);
  }

  resize(width) {
    this.width = width;
    this.narrow = width < 560;
    this.left = this.narrow ? 64 : 124;
    this.right = width - RIGHT;
  }

  get span() {
    return this.to - this.from;
  }

  x(t) {
    return this.left + ((t - this.from) / this.span) * (this.right - this.left);
  }

  t(x) {
    return this.from + ((x - this.left) / (this.right - this.left)) * this.span;
  }

  sees(item) {
    return item.t1 >= this.from && item.t0 <= this.to;
  }

  fit() {
    const room = Math.max(this.end * 0.03, 200);
    this.show(-room, this.end + room * 1.6);
  }

  show(from, to) {
    const least = Math.max(50, this.end * 1e-5);
    const span = Math.max(least, Math.min(to - from, this.end * 1.12 + 1000));
    const low = -this.end * 0.06 - 500;
    const high = this.end * 1.08 + 800;
    this.from = Math.max(low, Math.min((from + to - span) / 2, high - span));
    this.to = this.from + span;
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  pan(us) {
    this.show(this.from + us, this.to + us);
  }

  get isWhole() {
    return this.from <= 0 && this.to >= this.end;
  }
}

// The first item that starts at or after t.
export function firstFrom(items, t) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle].t0 < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The visible part of a lane, found by binary search.
export function* visible(lane, view) {
  for (let at = firstFrom(lane.items, view.from - lane.longest); at < lane.items.length; at++) {
    const item = lane.items[at];
    if (item.t0 > view.to) return;
    if (item.t1 >= view.from) yield item;
  }
}
