// Hold a lock from Node: node hold.mjs NAME
//
// `holdfast hold` holds the lock as long as its standard input is open, and tells on
// its standard output, one JSON object per line, when it has it and when it is lost.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

async function hold(name, ...options) {
  const child = spawn("holdfast", ["hold", ...options, name], { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(child, "exit");
  const lost = new AbortController();
  const held = new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      const event = JSON.parse(line);
      if (event.event === "held") resolve(event);
      if (event.event === "lost") lost.abort(new Error(event.error));
    });
    exited.then(([status]) => reject(new Error(`no lock: exit status ${status}`)));
  });
  const { token } = await held;
  return {
    token,
    signal: lost.signal, // aborted when the lock is lost
    async release() {
      child.stdin.end(); // the end of input releases the lock
      await exited;
    },
  };
}

const [name, ...options] = process.argv.slice(2);
const lock = await hold(name, ...options);
try {
  for (let step = 0; step < 3; step++) {
    lock.signal.throwIfAborted();
    console.log(`step ${step} under token ${lock.token}`);
  }
} finally {
  await lock.release();
}
console.log("released");
