// Decodes the data of the page: events are rows of numbers, with one table of words and one of shapes for all runs.
//
// A row is [µs since the previous row, word of the actor (−1: the lab), shape, …values]. A shape is the kind of an event and the names
// of its values; `$name` is a word, `?name` a boolean.

function fields(shape, values, words) {
  const event = { kind: shape[0] };
  shape.slice(1).forEach((name, at) => {
    if (name[0] === '$') event[name.slice(1)] = words[values[at]];
    else if (name[0] === '?') event[name.slice(1)] = values[at] === 1;
    else event[name] = values[at];
  });
  return event;
}

export function decodeEvents(packed, shapes, words) {
  let t = 0;
  return packed.rows.map(([delta, who, shape, ...values], at) => {
    t += delta;
    const n = at < packed.whole ? packed.first + at : packed.named[at - packed.whole];
    return { n, t, who: who < 0 ? null : words[who], ...fields(shapes[shape], values, words) };
  });
}

export const decode = text => unpack(JSON.parse(text));

// Decodes data that has already been parsed; changes it in place.
export function unpack(data) {
  for (const run of data.runs) {
    let events = null;
    const packed = run.events;
    // Decode lazily, since most runs of a large report are never viewed.
    Object.defineProperty(run, 'events', { get: () => (events ??= decodeEvents(packed, data.shapes, data.words)) });
    run.total = packed.total;
    run.leftOut = packed.total - packed.rows.length;
    run.whole = packed.whole;
    run.check = name => run.checks.find(check => check.name === name)?.finding;
    let numbers = null;
    run.byNumber = n => (numbers ??= new Map(run.events.map(event => [event.n, event]))).get(n);
  }
  return data;
}
