// node redlock as a contender of the Redis benchmark, with its default pauses; it asks until it has the lock. Arguments: URLs,
// one for each server.
//
// Reads one request per line and answers each with one line; player.rs of the benchmark says what they mean.
const readline = require("readline");
const Redis = require("ioredis");
const Redlock = require("redlock").default;

const clients = process.argv.slice(2).map((url) => new Redis(url));
const redlock = new Redlock(clients, { retryCount: -1 });

const now = () => process.hrtime.bigint();
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const acquire = (number) => redlock.acquire([`redlock:${number}`], 2000);
// Once, and no more: to try until it works means for ever where the lease has ended meanwhile.
const release = (lock) => redlock.release(lock, { retryCount: 0 }).catch(() => {});
const allAtOnce = (count, work) => Promise.all(Array.from({ length: count }, (_, seat) => work(seat)));

async function pairs(count, name = 1000) {
  const started = now();
  for (let pair = 0; pair < count; pair++) {
    const lock = await acquire(name);
    await release(lock);
  }
  return now() - started;
}

async function many(tasks, count) {
  const started = now();
  await allAtOnce(tasks, (seat) => pairs(count, 1000 + seat));
  return now() - started;
}

async function turns(tasks, milliseconds) {
  const end = now() + BigInt(milliseconds) * 1000000n;
  const seen = [];
  await allAtOnce(tasks, async (seat) => {
    while (now() < end) {
      const lock = await acquire(1);
      seen.push(`${now()} ${seat}`);
      await release(lock);
    }
  });
  return seen.join(" ");
}

async function queue(waiters) {
  const served = [];
  const first = await acquire(2);
  const all = allAtOnce(waiters, async (seat) => {
    const lock = await acquire(2);
    served.push(seat);
    await sleep(1);
    await release(lock);
  });
  await sleep(100);
  const started = now();
  await release(first);
  await all;
  return `${now() - started} ${served.join(" ")}`;
}

async function hold(number) {
  const parent = process.ppid;
  const lock = await acquire(2000 + number);
  console.log("held");
  while (process.ppid === parent) await sleep(100);
  await release(lock);
}

const requests = { pairs, many, turns, queue, hold };

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [request, ...numbers] = line.split(" ");
    console.log(String(await requests[request](...numbers.map(Number))));
  }
  clients.forEach((client) => client.disconnect());
})();
