// Hold a lock from Node: node hold.mjs NAME
//
// `holdfast hold` holds the lock as long as its standard input is open, and tells on
// its standard output, one JSON object per line, when it has it and when it is lost. The
// end of its output is the end of the lock as well: then it was killed, say.
//
// STEPS is how many steps the work has, PAUSE the seconds that each takes.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";

async function hold(name, ...options) {
  const child = spawn("holdfast", ["hold", ...options, name], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.on("error", () => {}); // it has gone: the end of its output tells
  const exited = once(child, "exit");
  const lost = new AbortController();
  let releasing = false;
  const held = new Promise((resolve, reject) => {
    const lines = createInterface({ input: child.stdout });
    lines.on("line", (line) => {
      if (line.includes('"event":"held"')) resolve(JSON.parse(line));
      if (line.includes('"event":"lost"')) lost.abort();
    });
    lines.on("close", () => {
      if (!releasing) lost.abort();
    });
    exited.then(([status]) => reject(new Error(`no lock: exit status ${status}`)));
  });
  const { token } = await held;
  return {
    token,
    signal: lost.signal, // aborted when the lock is lost: hand it to all that waits
    async release() {
      releasing = true;
      child.stdin.end(); // the end of input releases the lock
      const [status] = await exited;
      if (status !== 0) lost.abort();
    },
  };
}

const [name, ...options] = process.argv.slice(2);
const { STEPS = "3", PAUSE = "0" } = process.env;
const lock = await hold(name, ...options);
lock.signal.addEventListener("abort", () => {
  // At once, whatever this program is waiting for: the lock may be another's.
  console.error("the lock is lost: stopping");
  process.exit(76);
});
if (lock.signal.aborted) process.exit(76);
try {
  for (let step = 0; step < Number(STEPS); step++) {
    console.log(`step ${step} under token ${lock.token}`);
    await setTimeout(Number(PAUSE) * 1000);
  }
} finally {
  await lock.release();
}
console.log("released");
