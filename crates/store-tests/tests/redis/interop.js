// node redlock: adds to a number that nothing else protects. Arguments: URL, name of the lock, turns.
const Redis = require("ioredis");
const Redlock = require("redlock").default;

const [url, name, turns] = process.argv.slice(2);

(async () => {
  const client = new Redis(url);
  const redlock = new Redlock([client], { retryCount: -1, retryDelay: 10, retryJitter: 5 });
  for (let turn = 0; turn < Number(turns); turn++) {
    const lock = await redlock.acquire([name], 30000);
    const number = Number(await client.get("count"));
    await client.set("count", number + 1);
    await lock.release();
  }
  client.disconnect();
})();
