// node redlock: adds to a number that nothing else protects. Arguments: URLs with commas between, name of the lock, turns.
const Redis = require("ioredis");
const Redlock = require("redlock").default;

const [urls, name, turns] = process.argv.slice(2);

(async () => {
  const clients = urls.split(",").map((url) => new Redis(url));
  const redlock = new Redlock(clients, { retryCount: -1, retryDelay: 10, retryJitter: 5 });
  for (let turn = 0; turn < Number(turns); turn++) {
    const lock = await redlock.acquire([name], 30000);
    const number = Number(await clients[0].get("count"));
    await clients[0].set("count", number + 1);
    await lock.release();
  }
  clients.forEach((client) => client.disconnect());
})();
