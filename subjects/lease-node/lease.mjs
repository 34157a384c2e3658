// An external lock that the lab can try: fencepost crash --lock=subjects/lease-node
//
// A lease in files that renews itself while its holder lives. Every grant has a larger number, which is its fence. A release checks that
// the lock is still its own. A holder that cannot renew in time takes no further step.
import { createHash, randomUUID } from "node:crypto";
import { existsSync, linkSync, mkdirSync, readFileSync, renameSync, unlinkSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const say = (reply) => process.stdout.write(JSON.stringify(reply) + "\n");
const now = () => Number(process.hrtime.bigint()) / 1e6; // on Linux, all processes share this clock
const holds = new Map();
let folder, ttl;

// The grants of a lock are the files 1, 2, 3, … of its folder. Each contains the time at which it ends, and only its owner changes it.
// Only the last grant counts. No file is ever removed: a process that was paused could create it again.
const folderOf = (key) => `${folder}/${createHash("sha256").update(key).digest("hex")}`;
const last = (lock) => { let number = 0; while (existsSync(`${lock}/${number + 1}`)) number += 1; return number; };
const isFree = (lock, number) => number === 0 || Number(readFileSync(`${lock}/${number}`, "utf8")) <= now();

// Puts a whole file in its place in one step: link fails if the file exists, rename replaces it.
function put(file, until, place) {
  const draft = `${folder}/${randomUUID()}`;
  writeFileSync(draft, String(until));
  place(draft, file);
}

function take(lock) {
  const number = last(lock), until = now() + ttl;
  if (!isFree(lock, number)) return undefined;
  try {
    put(`${lock}/${number + 1}`, until, (draft, file) => { try { linkSync(draft, file); } finally { unlinkSync(draft); } });
  } catch (error) {
    if (error.code === "EEXIST") return undefined; // another process was faster
    throw error;
  }
  return { file: `${lock}/${number + 1}`, fence: String(number + 1), until };
}

// Sets a new end. That counts only if it is done before the old end: after it, another process may have found the lock free.
function move(hold, until) {
  if (now() < hold.until) put(hold.file, until, renameSync);
  const inTime = now() < hold.until;
  hold.until = inTime ? until : 0;
  return inTime;
}

async function acquire({ op, key, wait_ms }) {
  const lock = folderOf(key), giveUp = now() + wait_ms;
  mkdirSync(lock, { recursive: true });
  let hold, contended = false;
  while ((hold = take(lock)) === undefined) {
    contended = true;
    if (now() >= giveUp) return say({ type: "refused", op });
    await sleep(5);
  }
  const id = holds.size + 1;
  holds.set(id, hold);
  hold.renewal = setInterval(() => {
    if (move(hold, now() + ttl)) return;
    clearInterval(hold.renewal);
    say({ type: "lost", hold: id });
  }, ttl / 4);
  say({ type: "acquired", op, hold: id, fence: hold.fence, contended });
}

const answers = {
  init({ endpoints, ttl_ms, resource }) {
    const [, path] = endpoints[0].match(/^sqlite:(.*)$/) ?? [];
    if (!path) return say({ type: "error", definite: true, message: "this lock lives beside the file of --store sqlite" });
    if (resource !== "number") return say({ type: "error", definite: true, message: "this lock cannot buy: use crash, deadlock or trial" });
    [folder, ttl] = [`${path}.locks`, ttl_ms];
    mkdirSync(folder, { recursive: true });
    say({ type: "init_ok" }); // its claims are in subject.toml
  },
  acquire,
  step: ({ op, hold }) => say({ type: now() < holds.get(hold).until ? "stepped" : "declined", op }),
  release({ op, hold }) {
    clearInterval(holds.get(hold).renewal);
    say({ type: "released", op, outcome: move(holds.get(hold), 0) ? "released" : "already_lost" });
  },
  shutdown: () => process.exit(),
};

for await (const line of createInterface({ input: process.stdin })) {
  const ask = JSON.parse(line);
  const answer = answers[ask.type] ?? (({ op }) => say({ type: "error", op, definite: true, message: `cannot do: ${ask.type}` }));
  await answer(ask);
}
process.exit(); // the end of the input means shutdown, also while a lock is held
