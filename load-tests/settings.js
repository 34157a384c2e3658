// The settings that all scripts share.
//
// TOKEN      the admin token, if the service requires one
// QUICK=1    seconds instead of a minute, and no time limits, which would mean nothing then

export const IS_QUICK = __ENV.QUICK === '1';

export function headers() {
  const all = { 'Content-Type': 'application/json' };
  if (__ENV.TOKEN) all.Authorization = `Bearer ${__ENV.TOKEN}`;
  return all;
}
