// A job under a lock: node job.mjs NAME [OPTION OF holdfast hold...], with the package holdfast.
//
// STEPS is how many steps the work has, PAUSE the seconds that each takes.
import { setTimeout as pause } from "node:timers/promises";

import { Busy, Lost, use } from "holdfast";

const [name, ...options] = process.argv.slice(2);
const { STEPS = "3", PAUSE = "0" } = process.env;
const work = async (guard) => {
  for (let step = 0; step < Number(STEPS); step++) {
    console.log(`step ${step} under token ${guard.token}`);
    await pause(Number(PAUSE) * 1000, undefined, { signal: guard.signal });
  }
};
try {
  await use(name, work, { options });
  console.log("released");
} catch (error) {
  console.error(error instanceof Lost ? "the lock is lost: stopping" : error.message);
  process.exit(error instanceof Lost ? 76 : error instanceof Busy ? 75 : 1);
}
