// node redlock: adds to a number that nothing else protects. Arguments: URLs with commas between, name of the lock, turns.
const Redis = require("ioredis");
const Redlock = require("redlock").default;

const [urls, name, turns] = process.argv.slice(2);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Its own retries keep the keys of a minority, and two that do so wait for each other until a TTL ends; an attempt that
// has failed gives them back.
async function acquire(redlock) {
  for (;;) {
    try {
      return await redlock.acquire([name], 10000, { retryCount: 0 });
    } catch (error) {
      await pause(5 + Math.random() * 15);
    }
  }
}

(async () => {
  const clients = urls.split(",").map((url) => new Redis(url));
  const redlock = new Redlock(clients);
  for (let turn = 0; turn < Number(turns); turn++) {
    const lock = await acquire(redlock);
    const number = Number(await clients[0].get("count"));
    await clients[0].set("count", number + 1);
    await lock.release();
  }
  clients.forEach((client) => client.disconnect());
})();
