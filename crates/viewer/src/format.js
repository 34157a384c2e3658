// Formats numbers for people. Times are microseconds since the start of the run.

export const count = n => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ',').replace('-', '−');

export const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many}`;

const grouped = (value, digits) => {
  const [whole, rest] = Math.abs(value).toFixed(digits).split('.');
  return (value < 0 ? '−' : '') + whole.replace(/\B(?=(\d{3})+$)/g, ',') + (rest ? '.' + rest : '');
};

// Formats a moment: in milliseconds below ten seconds, as everywhere in the lab.
export const moment = us => (us < 1e7 ? `${grouped(us / 1e3, 1)} ms` : `${grouped(us / 1e6, 2)} s`);

// Formats a moment with enough digits to tell neighbours apart.
export const exactMoment = us => (us < 1e7 ? `${grouped(us / 1e3, 3)} ms` : `${grouped(us / 1e6, 4)} s`);

export function duration(us) {
  if (us < 1000) return `${us.toFixed(0)} µs`;
  return us < 1e7 ? `${grouped(us / 1e3, 1)} ms` : `${grouped(us / 1e6, 2)} s`;
}

// A step of 1, 2 or 5 times a power of ten, at least as large as asked for.
export function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map(k => k * power).find(step => step >= least * 0.999) ?? least;
}

// The unit in which an axis with this step is labelled.
export function axisUnit(step) {
  if (step >= 1e6) return { us: 1e6, word: 's', digits: 0 };
  if (step >= 1e5) return { us: 1e6, word: 's', digits: 1 };
  if (step >= 1e3) return { us: 1e3, word: 'ms', digits: 0 };
  if (step >= 100) return { us: 1e3, word: 'ms', digits: 1 };
  return { us: 1, word: 'µs', digits: 0 };
}

export const axisLabel = (us, unit) => `${grouped(us / unit.us, unit.digits)} ${unit.word}`;

export const signed = n => String(n).replace('-', '−');
