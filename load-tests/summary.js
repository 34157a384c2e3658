// Prints every threshold with the measured value, and writes all figures as JSON to the file SUMMARY.

export const TREND = ['min', 'med', 'avg', 'p(90)', 'p(95)', 'p(99)', 'max'];

function rows(metrics) {
  return Object.keys(metrics).sort().flatMap((name) => {
    const { thresholds = {}, values } = metrics[name];
    return Object.keys(thresholds).map((limit) => {
      const measured = values[limit.split(/[<>=!]/)[0].trim()];
      return { name, limit, measured, ok: thresholds[limit].ok };
    });
  });
}

export function handleSummary(data) {
  const lines = rows(data.metrics).map(({ name, limit, measured, ok }) =>
    `${ok ? 'held  ' : 'BROKEN'}  ${name}  ${limit}  measured ${measured}`);
  const files = { stdout: `${lines.join('\n')}\n` };
  if (__ENV.SUMMARY) files[__ENV.SUMMARY] = JSON.stringify(data, null, 2);
  return files;
}
