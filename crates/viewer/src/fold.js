// Folds a history into a picture, in one pass. The picture is a pure function of the events. The verdict is not made here, and
// red marks only what the verdict already calls broken.

// Fences are long and differ at their end, so the prefix that all fences of a run share is left out.
const shortener = cut => fence => (fence == null || !cut ? fence : `…${fence.slice(cut)}`);

// What a picture calls the faults of a process.
const FAULTS = {
  killed: 'SIGKILL',
  stopped: 'SIGSTOP',
  cut_off: 'cut off',
  replies_cut: 'no replies',
  requests_cut: 'unheard',
  passed_one_way: 'passes one way',
  slowed: 'slow replies',
  distant: 'far away',
  connections_dead: 'connections dead',
  vanished: 'vanished',
  reply_lost: 'reply lost',
  answered_oom: '-OOM',
  answered_read_only: '-READONLY',
  answered_loading: '-LOADING',
  answered_upstream: '-upstream failure',
  reply_arrives: 'late reply',
  reply_held: 'reply held',
  write_held: 'write delayed',
  over_released: 'released again',
  same_pid: 'same process id',
  clock_ahead: 'clock +1 h',
  clock_behind: 'clock −1 h',
  clock_fast: 'clock × 1,000',
  clock_read: 'asks the time',
  suspended: 'suspended',
};
const SIGNALS = ['killed', 'stopped'];
// Those that another event ends.
const LASTING = ['stopped', 'cut_off', 'replies_cut', 'requests_cut', 'slowed', 'distant', 'clock_ahead', 'clock_behind', 'clock_fast'];
// What these end. Several faults may last at once: a process is stopped while its road is cut.
const ENDS = {
  reconnected: ['cut_off', 'replies_cut', 'requests_cut', 'slowed', 'distant'],
  clock_right: ['clock_ahead', 'clock_behind', 'clock_fast'],
};

// Road and clock belong to a process in all of its lives: `A`, `A.2`, `A.3`.
const processOf = name => name?.replace(/\.\d+$/, '');

class Fold {
  constructor(run) {
    this.run = run;
    this.broken = run.outcome === 'BROKEN';
    this.lanes = [];
    this.byName = new Map();
    this.keys = [];
    this.waits = new Map();
    this.holds = new Map();
    this.leases = [];
    this.openLeases = new Map();
    this.faults = [];
    this.ops = [];
    this.marks = new Map();
    this.last = 0;
    this.number = null;
    this.orders = 0;
    this.initial = null;
    this.read = new Map();
    this.short = shortener(run.fence_cut);
    this.proofs = new Set(run.evidence.map(evidence => evidence.event));
  }

  lane(name) {
    let lane = this.byName.get(name);
    if (!lane) {
      lane = { name, index: this.lanes.length, items: [], longest: 0, killed: null };
      this.byName.set(name, lane);
      this.lanes.push(lane);
    }
    return lane;
  }

  key(name) {
    if (!this.keys.includes(name)) this.keys.push(name);
    return this.keys.indexOf(name);
  }

  add(item) {
    if (item.lane) item.lane.items.push(item);
    return item;
  }

  hold(event) {
    return this.holds.get(`${event.who}/${event.hold}`);
  }

  take(event) {
    this.last = Math.max(this.last, event.t);
    const handler = this[`on_${event.kind}`];
    const item = handler?.call(this, event, event.who == null ? null : this.lane(event.who));
    if (item) this.marks.set(event.n, item);
  }

  on_acquire(e, lane) {
    const wait = this.add({ type: 'wait', lane, t0: e.t, t1: null, key: this.key(e.key), keyName: e.key, event: e });
    this.waits.set(e.op, wait);
    return wait;
  }

  on_acquired(e, lane) {
    const wait = this.waits.get(e.op);
    if (wait) wait.t1 = e.t;
    this.waits.delete(e.op);
    const key = this.key(e.key);
    this.endLeaseOfOthers(key, e.t);
    const hold = this.add({ type: 'hold', lane, t0: e.t, t1: null, key, keyName: e.key, fence: this.short(e.fence), over: null, event: e });
    this.holds.set(`${e.who}/${e.hold}`, hold);
    if (this.run.ttl_us) {
      hold.lease = { type: 'lease', hold, t0: e.t, t1: null, expires: this.run.keep_alive ? null : e.t + this.run.ttl_us, key, by: e.who, fence: this.short(e.fence), event: e };
      this.leases.push(hold.lease);
      this.openLeases.set(key, [hold.lease]);
    }
    return hold;
  }

  endLeaseOfOthers(key, t) {
    for (const lease of this.openLeases.get(key) ?? []) if (lease.t1 == null) lease.t1 = Math.min(t, lease.expires ?? t);
  }

  on_refused(e) {
    const wait = this.waits.get(e.op);
    if (!wait) return null;
    this.waits.delete(e.op);
    Object.assign(wait, { t1: e.t, refused: true });
    return wait;
  }

  on_lease_over(e) {
    const hold = this.hold(e);
    if (!hold) return null;
    hold.over = e.t;
    if (hold.lease) Object.assign(hold.lease, { t1: Math.min(hold.lease.t1 ?? e.t, e.t), isOver: true });
    return hold;
  }

  on_release(e) {
    const hold = this.hold(e);
    if (hold && hold.t1 == null) Object.assign(hold, { t1: e.t, end: 'released' });
    return hold;
  }

  on_released(e) {
    const hold = this.hold(e);
    if (!hold) return null;
    hold.answer = e.outcome;
    if (hold.lease && hold.lease.t1 == null) hold.lease.t1 = e.t;
    return hold;
  }

  on_lost(e) {
    const hold = this.hold(e);
    if (hold && hold.t1 == null) Object.assign(hold, { t1: e.t, end: 'lost' });
    return hold;
  }

  on_reached(e, lane) {
    const wait = this.waits.get(e.op);
    return this.add({ type: 'step', lane, t0: e.t, t1: e.t, key: wait?.key ?? 0, keyName: wait?.keyName, event: e });
  }

  on_fault(e, lane) {
    if (e.fault === 'continued') {
      const pause = lane?.items.findLast(item => item.type === 'pause' && item.t1 == null);
      if (!pause) return null;
      pause.t1 = pause.band.t1 = e.t;
      return pause;
    }
    if (ENDS[e.fault]) {
      const isOver = band => band.t1 == null && ENDS[e.fault].includes(band.event.fault) && processOf(band.lane?.name) === processOf(e.who);
      const over = this.faults.filter(isOver);
      for (const band of over) band.t1 = e.t;
      return over.at(-1);
    }
    const killed = e.fault === 'killed';
    const band = { type: 'fault', lane, t0: e.t, t1: LASTING.includes(e.fault) ? null : e.t, word: FAULTS[e.fault] ?? e.fault, event: e };
    this.faults.push(band);
    if (!lane || !SIGNALS.includes(e.fault)) return band;
    if (killed) return this.kill(lane, e);
    return this.add({ type: 'pause', lane, t0: e.t, t1: null, band, event: e });
  }

  // An outage affects everybody: from the death of a server until clients are served again.
  on_server(e) {
    const isOut = change => ['killed', 'stopped'].includes(change);
    // Another server may take over; but a server that comes back with its data ends its own outage only.
    const isItself = ['continued', 'restarted'].includes(e.change);
    const open = this.faults.findLast(band => band.server && isOut(band.change) && band.t1 == null && (!isItself || band.server === e.server));
    const isBack = isItself || ['promoted', 'restarted_empty', 'elected'].includes(e.change);
    if (isBack && open) {
      open.t1 = e.t;
      // The grants died with the server, unless a restart delay keeps the server that forgot from voting.
      const isForgotten = !isItself && e.change !== 'elected' && this.run.forgets;
      if (isForgotten) for (const lease of this.leases) if (lease.t1 == null) lease.t1 = Math.min(open.t0, lease.expires ?? open.t0);
    }
    // A server that lives on may have ended the grants it had.
    if (['clock_ahead', 'evicted', 'taken_away'].includes(e.change)) for (const lease of this.leases) if (lease.t1 == null) lease.t1 = Math.min(e.t, lease.expires ?? e.t);
    const word = {
      cut_off: 'cut off:',
      reconnected: 'back:',
      killed: 'SIGKILL',
      promoted: 'takes over:',
      lives_on: 'lives on:',
      restarted_empty: 'empty:',
      clock_ahead: 'clock +1 h:',
      clock_behind: 'clock −1 h:',
      evicted: 'evicted:',
      taken_away: 'taken away:',
      elected: 'elected:',
      stopped: 'SIGSTOP',
      silent: 'silent:',
      continued: 'SIGCONT',
      restarted: 'back:',
    }[e.change];
    const band = { type: 'fault', lane: null, server: e.server, change: e.change, t0: e.t, t1: isOut(e.change) ? null : e.t, word, event: e };
    this.faults.push(band);
    return band;
  }

  kill(lane, e) {
    lane.killed = e.t;
    for (const item of lane.items) if (item.t1 == null) Object.assign(item, { t1: e.t, end: 'killed' });
    for (const [op, wait] of this.waits) if (wait.lane === lane) this.waits.delete(op);
    return this.add({ type: 'kill', lane, t0: e.t, t1: e.t, event: e });
  }

  on_register(e, lane) {
    const below = e.sign === '<' && e.fence != null;
    const isWrite = e.action === 'write';
    const overwrites = isWrite && !e.refused && this.number != null && e.value <= this.number;
    if (isWrite && !e.refused) this.number = e.value;
    const op = {
      type: 'op', isProof: this.proofs.has(e.n), by: lane, t0: e.t, t1: e.t, shape: isWrite ? 'square' : 'ring', refused: !!e.refused, below, overwrites,
      bad: this.broken && !e.refused && isWrite && (below || overwrites), event: e,
    };
    const [fence, highest] = [this.short(e.fence), this.short(e.highest)];
    const relation = `${fence ?? 'none'} ${e.sign} ${highest}`;
    if (e.refused && e.sign) op.top = [`${relation} refused`, fence ?? 'none'];
    else if (below) op.top = [relation, fence];
    else op.top = fence ? [fence] : [];
    const verb = isWrite ? 'writes' : 'reads';
    const value = `${verb} ${e.value}${op.bad && overwrites ? ' over it' : ''}`;
    op.low = e.refused ? [] : [`op ${e.serial}: ${value}`, value, `${verb[0]} ${e.value}`];
    this.ops.push(op);
    return op;
  }

  on_declined(e, lane) {
    const op = { type: 'op', by: lane, t0: e.t, t1: e.t, shape: 'ring', refused: true, declined: true, bad: false, top: ['declined'], low: [], event: e };
    this.ops.push(op);
    return op;
  }

  on_store_read(e) {
    const key = this.key(e.key);
    const look = { type: 'look', t0: e.t, t1: e.t, key, event: e };
    if (e.taken && e.ttl_left_ms == null) {
      const from = this.makerOf(key);
      const lease = this.leases.find(item => item.hold === from && from) ?? { type: 'lease', key, by: from?.lane.name, t0: from?.t0 ?? 0, event: e };
      if (!this.leases.includes(lease)) this.leases.push(lease);
      Object.assign(lease, { t1: e.t, expires: null, neverExpires: true, look });
      return lease;
    }
    this.ops.push({ ...look, type: 'op', shape: 'eye', refused: false, bad: false, top: [], low: [`${e.server ?? 'store'}: ${e.taken ? 'taken' : 'free'}`, e.taken ? 'taken' : 'free'] });
    return this.ops.at(-1);
  }

  // Which process made the record of a lock: that of the last step or hold on it, or of the last purchase.
  makerOf(key) {
    const items = this.lanes.flatMap(lane => lane.items).sort((a, b) => a.t0 - b.t0);
    const made = item => (item.type === 'step' || item.type === 'hold') && item.key === key;
    return items.findLast(made) ?? items.findLast(item => item.type === 'work');
  }

  on_gave_up(e, lane) {
    if (lane == null) {
      // The lab gave up the whole run.
      const op = { type: 'op', t0: e.t, t1: e.t, shape: 'eye', refused: false, bad: false, top: [], low: ['the lab gave up', 'ended'], event: e };
      this.ops.push(op);
      return op;
    }
    return this.add({ type: 'note', lane, t0: e.t, t1: e.t, event: e });
  }

  // The lab itself stalled, up to this event.
  on_stalled(e) {
    const op = { type: 'op', t0: e.t, t1: e.t, shape: 'eye', refused: false, bad: false, top: [], low: ['the lab stalled', 'stall'], event: e };
    this.ops.push(op);
    return op;
  }

  // The machine was suspended, up to this event.
  on_slept(e) {
    const op = { type: 'op', t0: e.t, t1: e.t, shape: 'eye', refused: false, bad: false, top: [], low: ['the machine was suspended', 'asleep'], event: e };
    this.ops.push(op);
    return op;
  }

  on_stock_set(e) {
    if (this.initial == null) this.initial = e.units;
    return null;
  }

  on_stock_read(e) {
    const bad = this.broken && this.proofs.has(e.n);
    const op = { type: 'op', t0: e.t, t1: e.t, shape: 'eye', refused: false, bad, top: [], low: [`the lab reads ${e.units}`, `${e.units}`], event: e };
    this.ops.push(op);
    return op;
  }

  on_purchase(e, lane) {
    const wait = this.add({ type: 'wait', sale: true, lane, t0: e.t, t1: null, key: 0, event: e });
    this.waits.set(e.op, wait);
    return wait;
  }

  on_purchased(e, lane) {
    const wait = this.waits.get(e.op);
    if (!wait) return null;
    this.waits.delete(e.op);
    if (e.outcome === 'busy') {
      Object.assign(wait, { t1: e.t, refused: true, answer: e });
      this.answer(e, lane, 'cross', null);
      return wait;
    }
    const from = Math.min(e.t, wait.t0 + Math.round((e.waited_ms ?? 0) * 1000));
    wait.t1 = from;
    if (from === wait.t0) lane.items.splice(lane.items.indexOf(wait), 1);
    const work = this.add({ type: 'work', lane, t0: from, t1: e.t, key: 0, asked: wait.t0, outcome: e.outcome, fence: e.fence, event: e });
    this.marks.set(wait.event.n, work);
    if (e.outcome === 'sold') this.judgeOrder(work, e);
    this.answer(e, lane, e.outcome === 'sold' ? 'square' : 'ring', work);
    return work;
  }

  // The orders that are part of the proof: those beyond the stock, and those based on a number that was already read by another.
  judgeOrder(work, e) {
    this.orders += 1;
    work.order = this.orders;
    const beyond = this.orders > (this.initial ?? Infinity) && this.run.check('no_oversell') === 'violated';
    const twin = e.before == null ? undefined : this.read.get(e.before);
    if (twin === undefined) this.read.set(e.before, work.lane.name);
    else work.twin = twin;
    const again = twin !== undefined && this.run.check('no_lost_update') === 'violated';
    work.beyond = beyond;
    work.bad = this.broken && (beyond || again || this.proofs.has(e.n));
  }

  answer(e, lane, shape, work) {
    const label = work?.order ? `order ${work.order}` : '';
    this.ops.push({ type: 'op', answer: true, by: lane, t0: e.t, t1: e.t, shape, refused: false, bad: !!work?.bad, top: label ? [label] : [], low: [], event: e, work });
  }

  on_failed(e, lane) {
    const wait = this.waits.get(e.op);
    if (!wait) return null;
    this.waits.delete(e.op);
    if (!wait.sale) {
      Object.assign(wait, { t1: e.t, refused: true, answer: e });
      return wait;
    }
    lane.items.splice(lane.items.indexOf(wait), 1);
    return this.add({ type: 'work', lane, t0: wait.t0, t1: e.t, key: 0, asked: wait.t0, outcome: e.definite ? 'failed' : 'unknown', event: e });
  }

  finish() {
    const { last } = this;
    for (const lane of this.lanes) {
      for (const item of lane.items) if (item.t1 == null) Object.assign(item, { t1: last, open: true });
      lane.items.sort((a, b) => a.t0 - b.t0 || a.t1 - b.t1);
      lane.longest = lane.items.reduce((most, item) => Math.max(most, item.t1 - item.t0), 0);
      lane.count = lane.items.length;
    }
    for (const lease of this.leases) if (lease.t1 == null) Object.assign(lease, { t1: Math.min(last, lease.expires ?? last), open: true });
    for (const band of this.faults) if (band.t1 == null) band.t1 = last;
    this.ops.sort((a, b) => a.t0 - b.t0);
    const holds = [...this.holds.values()];
    const isSale = this.run.kind === 'sale';
    return {
      run: this.run, lanes: this.lanes, keys: this.keys, leases: this.leases, faults: this.faults, ops: this.ops, holds, isSale,
      works: isSale ? this.lanes.flatMap(lane => lane.items.filter(item => item.type === 'work')) : [],
      overlaps: overlapsOf(this.run.overlaps, this.marks), cycles: cyclesOf(this.lanes),
      marks: this.marks, end: Math.max(last, 1), broken: this.broken,
      items: this.lanes.reduce((sum, lane) => sum + lane.items.length, 0),
    };
  }
}

// Joins the pairs of holds that the lab found to overlap into times with two holders or more. The picture looks for no others: a bar is
// longer than what its process certainly believed. A pair is the events with both grants, from when, and until when.
export function overlapsOf(pairs, marks) {
  const ends = new Map();
  for (const [first, second, t0, t1] of pairs) {
    const holds = [marks.get(first), marks.get(second)];
    if (holds.some(hold => hold?.type !== 'hold')) continue;
    const { key } = holds[0];
    if (!ends.has(key)) ends.set(key, []);
    ends.get(key).push([t0, 1, holds], [t1, 0, holds]);
  }
  return [...ends].flatMap(([key, all]) => [...crowded(key, all)]);
}

function* crowded(key, ends) {
  ends.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const now = new Set();
  let since = 0;
  for (const [t, starts, pair] of ends) {
    if (now.size && t > since) yield { type: 'overlap', key, t0: since, t1: t, holders: [...new Set([...now].flat())] };
    if (starts) now.add(pair);
    else now.delete(pair);
    since = t;
  }
}

// Finds two processes that wait for each other's lock, by a sweep over waits and holds.
export function cyclesOf(lanes) {
  const ends = [];
  for (const item of lanes.flatMap(lane => lane.items)) {
    if (item.type === 'hold' || (item.type === 'wait' && item.keyName != null)) ends.push([item.t0, 1, item], [item.t1, 0, item]);
  }
  ends.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const holding = new Map();
  const waiting = new Map();
  const cycles = [];
  for (const [t, starts, item] of ends) {
    const place = item.type === 'hold' ? holding : waiting;
    const key = item.type === 'hold' ? item.key : item.lane;
    if (!starts) place.get(key).delete(item);
    else if (place.set(key, place.get(key) ?? new Set()).get(key).add(item) && item.type === 'wait') cycles.push(...closedBy(item, t, holding, waiting));
  }
  return cycles;
}

function* closedBy(wait, t0, holding, waiting) {
  for (const theirs of holding.get(wait.key) ?? []) {
    for (const other of waiting.get(theirs.lane) ?? []) {
      const mine = [...(holding.get(other.key) ?? [])].find(hold => hold.lane === wait.lane);
      if (theirs.lane === wait.lane || !mine) continue;
      yield { type: 'cycle', t0, t1: Math.min(wait.t1, other.t1, mine.t1, theirs.t1), lanes: [theirs.lane, wait.lane] };
    }
  }
}

// How many processes are inside at once, as steps [t, n].
export function crowdOf(spans) {
  const ends = spans.flatMap(span => [[span.t0, 1], [span.t1, -1]]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let n = 0;
  const steps = [];
  for (const [t, change] of ends) {
    n += change;
    if (steps.length && steps.at(-1)[0] === t) steps.at(-1)[1] = n;
    else steps.push([t, n]);
  }
  return { steps, peak: steps.reduce((most, step) => Math.max(most, step[1]), 0) };
}

// Sorts lanes by their first event, so that a crowd looks like a staircase.
export function orderLanes(model, byFirst) {
  const first = lane => lane.items.find(item => item.type === 'hold' || item.type === 'work')?.t0 ?? Infinity;
  const start = lane => lane.items[0]?.t0 ?? 0;
  const natural = (a, b) => a.name.localeCompare(b.name, 'en', { numeric: true });
  const rank = new Map(model.lanes.map(lane => [lane, [first(lane), start(lane)]]));
  // Two processes that never got in are both at infinity; then the first request decides.
  const byTime = (a, b) => {
    const [[inA, askedA], [inB, askedB]] = [rank.get(a), rank.get(b)];
    return (inA === inB ? askedA - askedB : inA - inB) || natural(a, b);
  };
  model.lanes.sort(byFirst ? byTime : natural);
  model.lanes.forEach((lane, index) => { lane.index = index; });
}

// Open intervals end with the last event, or now if the run is still going.
export function fold(run, now = 0) {
  const picture = new Fold(run);
  for (const event of run.events) picture.take(event);
  picture.last = Math.max(picture.last, now);
  return picture.finish();
}
