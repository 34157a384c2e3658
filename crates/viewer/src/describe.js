// Describes a mark in words, for the tooltip, the live region and the table of events.
//
// The title of a single event is the story's phrase (words.js). A bar spans several events, and only this page has bars: their titles,
// and the labels of the figures, are written here.

import { count, duration, exactMoment, plural, signed } from './format.js';
import { WORDS, fillIn } from './words.js';

const OUTCOMES = { sold: 'sold', no_stock: 'no stock left', busy: 'the lock was taken', unknown: 'unknown', failed: 'failed, nothing bought' };
const RELEASES = { released: 'done', already_lost: 'no longer its own', unknown: 'not reported' };

const rows = (...pairs) => pairs.filter(([, value]) => value != null && value !== '');

function endOf(item) {
  if (item.open) return `${exactMoment(item.t1)}, still open`;
  return exactMoment(item.t1) + (item.end === 'killed' ? ', killed' : item.end === 'lost' ? ', told that it is lost' : '');
}

// How the lab knows that a fault took effect.
const SEEN = {
  killed: 'its death by this signal',
  stopped: 'its state in the process table',
  cut_off: 'it had taken its lock this way',
  replies_cut: 'it had taken its lock this way',
  requests_cut: 'it had taken its lock this way',
  passed_one_way: 'by the proxy, which counts what passes',
  slowed: 'in the picture: its grant came late',
  distant: 'it had taken its lock this way',
  connections_dead: 'by the proxy: the connections were open',
  vanished: 'by the proxy: it had taken its lock this way',
  reply_lost: 'by the proxy: the store had answered',
  answered_oom: 'by the proxy, which has sent it',
  answered_read_only: 'by the proxy, which has sent it',
  answered_loading: 'by the proxy, which has sent it',
  answered_upstream: 'by the proxy, which has sent it',
  reply_arrives: 'by the proxy, which hands it on',
  reply_held: 'by the proxy: the store had answered',
  write_held: 'the process had sent it',
  over_released: 'the process had answered',
  same_pid: 'by the kernel, from outside',
  clock_ahead: 'in what follows: it asks for the time',
  clock_behind: 'in what follows: it asks for the time',
  clock_fast: 'in what follows: it asks for the time',
  clock_read: 'by the library that answered',
  suspended: 'in what follows: it asks for the time',
};

const DESCRIBERS = {
  hold(item, model) {
    const others = model.overlaps.filter(overlap => overlap.holders.includes(item)).flatMap(overlap => overlap.holders);
    const names = [...new Set(others.filter(other => other !== item).map(other => other.lane.name))];
    const isOver = item.over != null && item.over < item.t1;
    return {
      title: `${item.lane.name} holds ${item.keyName}`,
      rows: rows(
        ['from', exactMoment(item.t0)], ['to', endOf(item)], ['held at least', duration(item.t1 - item.t0)], ['fence', item.event.fence],
        ['lease over by', isOver ? exactMoment(item.over) : null], ['believed on for', isOver ? duration(item.t1 - item.over) : null],
        ['at the same time', names.length > 4 ? `${names.length} others` : names.join(', ') || 'nobody else'], ['release', RELEASES[item.answer]],
      ),
    };
  },
  wait(item) {
    const ended = item.refused ? (item.sale ? 'the lock was taken' : 'refused') : item.open ? 'still waiting' : item.end === 'killed' ? 'killed; outcome unknown' : 'granted';
    return {
      title: `${item.lane.name} ${item.sale ? 'waits for its turn' : `asks for ${item.keyName}`}`,
      rows: rows(['from', exactMoment(item.t0)], ['to', exactMoment(item.t1)], ['for', duration(item.t1 - item.t0)], ['then', ended], ['why', item.answer?.message]),
    };
  },
  work(item) {
    const e = item.event;
    return {
      title: `${item.lane.name}: ${OUTCOMES[item.outcome]}`,
      rows: rows(
        ['asked', exactMoment(item.asked)], ['answered', exactMoment(item.t1)], ['waited', item.t0 > item.asked ? duration(item.t0 - item.asked) : null],
        ['at work', duration(item.t1 - item.t0)], ['it read', e.before == null ? null : signed(e.before)], ['it wrote', e.after == null ? null : signed(e.after)],
        ['order', item.order ? `${item.order}${item.beyond ? ', beyond the stock' : ''}` : null],
        ['same number as', item.twin], ['fence', e.fence], ['why', e.message],
      ),
    };
  },
  lease(item) {
    if (item.neverExpires) return { title: 'A key that never expires', rows: rows(['since', exactMoment(item.t0)], ['seen', exactMoment(item.t1)], ['made by', item.by], ['expiry', 'none']) };
    const end = item.isOver ? 'over by now' : item.expires == null ? 'renewed until here' : item.open ? 'still there' : 'ended or released';
    return {
      title: `Lease of ${item.by}`,
      rows: rows(['from', exactMoment(item.t0)], ['until', `${exactMoment(item.t1)}, ${end}`], ['TTL ends at most', item.expires == null ? null : exactMoment(item.expires)], ['fence', item.event.fence]),
    };
  },
  op(item) {
    const e = item.event;
    if (e.kind === 'stock_read') return { title: fillIn(WORDS.stock_read, { units: signed(e.units) }), rows: rows(['at', exactMoment(item.t0)]) };
    if (e.kind === 'store_read') return { title: WORDS.store_read, rows: rows(['at', exactMoment(item.t0)], ['server', e.server], ['lock', e.key], ['taken', e.taken ? 'yes' : 'no'], ['lasts', e.ttl_left_ms == null ? null : duration(e.ttl_left_ms * 1000)]) };
    if (e.kind === 'stalled') return { title: fillIn(WORDS.stalled, { for_ms: count(e.for_ms) }), rows: rows(['until', exactMoment(item.t0)], ['effect', 'what was said meanwhile was read late']) };
    if (e.kind === 'slept') return { title: fillIn(WORDS.slept, { for_ms: count(e.for_ms) }), rows: rows(['until', exactMoment(item.t0)], ['effect', 'the run proves nothing: leases went on, and the lab\'s clock stood still']) };
    if (e.kind === 'declined') return { title: fillIn(WORDS.declined, e), rows: rows(['at', exactMoment(item.t0)]) };
    if (item.answer) return { title: fillIn(WORDS.bought[e.outcome] ?? `{who}: ${e.outcome}`, e), rows: rows(['at', exactMoment(item.t0)], ['order', item.work?.order], ['it read', e.before == null ? null : signed(e.before)], ['it wrote', e.after == null ? null : signed(e.after)]) };
    return {
      title: `${fillIn(WORDS.register[e.action], e)}${e.refused ? ': refused' : ''}`,
      rows: rows(['at', exactMoment(item.t0)], ['operation', `op ${e.serial}`], ['fence', e.fence ?? 'none'], ['highest seen', e.highest], ['effect', item.bad && item.overwrites ? 'an earlier update is gone' : e.refused ? 'nothing changed' : null]),
    };
  },
  fault(item) {
    if (item.server) return { title: fillIn(WORDS.server[item.change], item), rows: rows(['at', exactMoment(item.t0)], ['nobody is served until', item.t1 > item.t0 ? exactMoment(item.t1) : null], ['for', item.t1 > item.t0 ? duration(item.t1 - item.t0) : null]) };
    const { fault } = item.event;
    const isSignal = fault === 'killed' || fault === 'stopped';
    const title = fillIn(WORDS.fault[fault] ?? `{who}: ${item.word}`, { who: item.lane?.name });
    return { title, rows: rows(['at', exactMoment(item.t0)], ['until', item.t1 > item.t0 ? exactMoment(item.t1) : null], ['lasted', item.t1 > item.t0 ? duration(item.t1 - item.t0) : null], ['signal', isSignal ? item.word : null], ['seen', SEEN[fault]]) };
  },
  pause: item => DESCRIBERS.fault(item.band),
  kill: item => ({ title: fillIn(WORDS.fault.killed, { who: item.lane.name }), rows: rows(['at', exactMoment(item.t0)], ['signal', 'SIGKILL'], ['seen', 'its death by this signal']) }),
  step: item => ({ title: fillIn(WORDS.reached, item.event), rows: rows(['at', exactMoment(item.t0)], ['step', item.event.what]) }),
  note: item => ({ title: WORDS.gave_up, rows: rows(['at', exactMoment(item.t0)], ['why', item.event.why]) }),
};

export const describe = (item, model) => DESCRIBERS[item.type]?.(item, model) ?? null;

export const spoken = ({ title, rows: pairs }) => `${title}: ${pairs.map(pair => pair.join(' ')).join(', ')}.`;

export function summary(model) {
  const { run } = model;
  if (!run.total) return 'Nothing was recorded.';
  const size = `${plural(model.lanes.length, 'process', 'processes')}, ${plural(run.total, 'event', 'events')}, ${duration(model.end)}. `;
  if (model.isSale) {
    const of = outcome => model.ops.filter(op => op.answer && op.event.outcome === outcome).length;
    const met = model.ops.filter(op => op.answer && op.event.contended).length;
    const locked = run.claims_exclusion ? ` ${count(met)} found the lock taken.` : '';
    return `${size}${count(of('sold'))} sold, ${count(of('no_stock'))} found no stock, ${count(of('busy'))} turned away.${locked} Bars end when the answer arrives, so they are longer than the work.`;
  }
  const most = Math.max(1, ...model.overlaps.map(overlap => overlap.holders.length));
  const isDamaged = ['no_lost_update', 'exclusion_at_resource'].some(name => run.check(name) === 'violated');
  if (most > 1) return `${size}Up to ${most} ${model.broken ? 'held' : 'believed they held'} one lock at the same time${model.broken || isDamaged ? '.' : '; nothing was damaged.'}`;
  return `${size}Never more than one holder.`;
}

// The remaining values of an event, for the table.
export function detail(event) {
  const skip = new Set(['kind', 'n', 't', 'who']);
  return Object.entries(event).filter(([name, value]) => !skip.has(name) && value !== false).map(([name, value]) => `${name.replaceAll('_', ' ')} ${value === true ? 'yes' : value}`).join(', ');
}
