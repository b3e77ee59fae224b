// Locks of Holdfast for Node, in one file without dependencies.
//
//     import { Client } from "./holdfast.mjs";
//
//     const client = await Client.open();
//     await client.use("jobs/nightly", async (lock) => {
//       await work(lock.token, { signal: lock.signal });
//     });
//     await client.close();
//
// A client starts one `holdfast hold --commands`, which holds any number of locks, and renews
// them all. They are given back by close, and at the end of the program however that happens.
// The environment and holdfast.conf say where the locks lie, unless `store` does. Where the
// language has it, `await using lock = await client.acquire(name)` releases at the end of a
// block.
//
// When a lock is lost, or the helper has given it back unasked (a service manager has stopped it,
// say), has ended or falls silent, lock.signal is aborted with a Lost as its reason: hand the
// signal to all that the work waits for. use is then rejected with
// that. If the work has not ended by the end of the lock's grace, the program ends with status
// 76: another may have the lock then. Work that never waits cannot be stopped that way: let it
// call lock.check() now and then.
//
// node holdfast.mjs NAME [OPTION...] is an example: STEPS is how many steps its work has, PAUSE
// the seconds that each takes.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";

// HoldfastError is what the helper could not do: kind is one of the kinds of docs/json.md.
export class HoldfastError extends Error {
  constructor(message, line = {}) {
    super(message);
    this.name = new.target.name;
    this.kind = line.kind;
  }
}

// Busy: another holder has the lock.
export class Busy extends HoldfastError {
  constructor(message, line) {
    super(message, line);
    this.holder = line.holder;
    this.token = line.token;
  }
}

// Lost: the lock is over although it was not released, and another may have it.
export class Lost extends HoldfastError {}

function stop() {
  console.error("the lock is lost, and the work goes on: stopping");
  process.exit(76);
}

// Lock is a lock that is held, from Client.acquire.
export class Lock {
  #client;
  #aborter = new AbortController();
  #leaving; // what release waits for

  constructor(client, id, name) {
    this.#client = client;
    this.id = id;
    this.name = name;
    this.turn = Promise.resolve(); // when the line before has its answer
    this.leaving = false; // its release was asked for
    this.over = false; // released, or left after its loss
    this.slot = undefined; // of a semaphore: the number of its slot, from 1 on
    this.yieldRequest = null; // if another client asks for the lock: an object with requested_by and reason
    this.signal = this.#aborter.signal; // aborted when the lock is lost
  }

  // check throws Lost if the lock is over.
  check() {
    this.#client._look();
    this.signal.throwIfAborted();
    if (this.over) throw new Lost(`lock ${this.name} was released`);
  }

  // store stores text or bytes in the record of the lock, where every program can read it; null
  // removes it.
  async store(data) {
    const line = { command: "data", id: this.id };
    if (typeof data === "string") line.data = data;
    else if (data != null) line.data_base64 = Buffer.from(data).toString("base64");
    await this.#write(line, "stored");
  }

  // refuse answers the client that asks for the lock: it is kept, and why.
  async refuse(reason) {
    await this.#write({ command: "refuse", id: this.id, reason }, "refused");
  }

  async #write(line, done) {
    const answer = await this.#client._ask(this, line);
    if (answer.event !== done) throw errorOf(answer);
  }

  // release gives the lock back. It throws Lost if the lock was lost before.
  async release() {
    if (!this.over) await (this.#leaving ??= this.#leave());
  }

  async #leave() {
    try {
      const answer = await this.#client._ask(this, { command: "release", id: this.id });
      if (answer.event === "lost") throw errorOf(answer);
      if (answer.error) console.warn(`${this.name}: ${answer.error}`); // others may have to wait
    } finally {
      this.over = true;
    }
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.release();
  }

  _lose(why) {
    this.#aborter.abort(new Lost(`lock ${this.name} is lost: ${why}`, { kind: "lost" }));
  }
}

// Client holds locks through one helper.
export class Client {
  #locks = new Map();
  #ids = 0;
  #ended; // why there are no locks any more
  #closing = false;
  #deadline = { steady: 0, wall: 0 };

  // open starts the helper. store, ttl and holder are those of the command's options, and
  // options are further ones. stopWithin is how many milliseconds the work has to stop in after
  // a loss where the lock leaves no grace: its helper was killed, say, or the lock was broken
  // with --now. Then onStuck is called, which ends the program.
  static async open(settings = {}) {
    const client = new Client();
    await client.#open(settings);
    return client;
  }

  async #open({ store, ttl, holder, options = [], program = "holdfast", stopWithin = 1000, onStuck = stop }) {
    Object.assign(this, { stopWithin, onStuck });
    const args = ["hold", "--commands", ...options];
    for (const [name, value] of Object.entries({ store, ttl, holder })) {
      if (value !== undefined) args.push(`--${name}=${value}`);
    }
    // A signal from the terminal is for this program, which ends the helper when it is ready
    // to: so that gets a process group of its own.
    this.helper = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"], detached: true, windowsHide: true });
    this.helper.stdin.on("error", () => {}); // it has ended: the end of its output tells
    this.exited = once(this.helper, "close");
    const ready = new Promise((resolve) => {
      createInterface({ input: this.helper.stdout })
        .on("line", (text) => {
          let line;
          try {
            line = JSON.parse(text);
          } catch {
            return this.#end(); // the output ended in the middle of it
          }
          if (line.event === "ready") resolve(line);
          if (line.event === "closed") this.#end();
          else this.#hear(line);
        })
        .on("close", () => this.#end());
    });
    const first = await Promise.race([ready, this.exited]); // which is rejected if it cannot start
    if (first.event !== "ready") throw new HoldfastError(`${program} does not start: exit status ${first[0]}`);
    this.grace = first.grace_ms ?? 0;
    this.watch = setInterval(() => this._look(), Math.min(500, first.ttl_ms / 20));
    this.watch.unref();
  }

  // acquire takes a lock, and waits for it: at most wait milliseconds, then it throws Busy.
  // shared (true) takes it beside other readers, slots (a number) takes one of that many slots,
  // whose number is lock.slot, and fair (true) waits in line.
  acquire(name, { wait, shared, slots, fair } = {}) {
    return this.#take(name, { command: "acquire", lock: name, wait_ms: wait, shared, slots, fair });
  }

  // tryAcquire takes a lock if it is free now, or returns null.
  async tryAcquire(name, { shared, slots } = {}) {
    try {
      return await this.#take(name, { command: "try", lock: name, shared, slots });
    } catch (error) {
      if (error instanceof Busy) return null;
      throw error;
    }
  }

  // use runs work under a lock. It is rejected as soon as the lock is lost.
  async use(name, work, options) {
    const lock = await this.acquire(name, options);
    const lost = new Promise((_, reject) => {
      lock.signal.addEventListener("abort", () => reject(lock.signal.reason));
      if (lock.signal.aborted) reject(lock.signal.reason);
    });
    lost.catch(() => {});
    // The lock is left when the work has ended, also if that is after the loss.
    const working = (async () => work(lock))().finally(() => lock.release());
    working.catch(() => {});
    return Promise.race([lost, working]);
  }

  // close gives all locks back, and ends the helper.
  async close() {
    this.#closing = true;
    this.helper.stdin.end();
    await this.exited;
    clearInterval(this.watch);
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.close();
  }

  async #take(name, line) {
    const lock = new Lock(this, String(++this.#ids), name);
    const answer = await this._ask(lock, { ...line, id: lock.id });
    if (answer.event !== "held") throw errorOf(answer);
    return lock;
  }

  // _ask sends a line about a lock, and returns what answers it: one line at a time.
  _ask(lock, line) {
    const answer = lock.turn.then(() => this.#send(lock, line));
    lock.turn = answer.catch(() => {});
    return answer;
  }

  #send(lock, line) {
    if (lock.token) lock.check();
    if (this.#ended || this.#closing) throw new HoldfastError(this.#ended ?? "the client is closed");
    const text = JSON.stringify(line) + "\n";
    const size = Buffer.byteLength(text);
    if (size > 262144) { // the helper's answer would have no id
      throw new HoldfastError(`${size} bytes for one line, at most 262144 are allowed`, { kind: "usage" });
    }
    this.#locks.set(lock.id, lock);
    lock.leaving = line.command === "release";
    return new Promise((resolve) => {
      lock.answer = resolve;
      this.helper.stdin.write(text);
    });
  }

  #hear(line) {
    const lock = this.#locks.get(line.id);
    if (["held", "stored", "renewed"].includes(line.event)) {
      const wall = Date.parse(line.deadline);
      const steady = performance.now() + wall - Date.now();
      if (steady > this.#deadline.steady) this.#deadline = { steady, wall };
    }
    if (line.event === "at_risk") console.warn(`the locks are at risk: ${line.error ?? ""}`);
    // A release of what had just been lost has its answer.
    if (!lock || (line.event === "failed" && line.command === "release")) return;
    if (line.event === "released" && lock.token && !lock.leaving && !this.#closing) {
      line = { event: "lost", error: "the helper has given it back unasked" };
    }
    if (line.event === "held") Object.assign(lock, { token: line.token, slot: line.slot });
    if (line.event === "released") lock.over = true;
    if (line.event === "yield_requested") {
      lock.yieldRequest = line;
      return; // it answers nothing
    }
    if (["busy", "lost", "released"].includes(line.event) || !lock.token) this.#locks.delete(lock.id);
    if (line.event === "lost") this.#lose([lock], line.error, line.grace_ms ?? 0);
    lock.answer(line);
  }

  // _look ends all locks if their deadline has passed: the helper was stopped, say.
  _look() {
    const late = performance.now() > this.#deadline.steady || Date.now() > this.#deadline.wall;
    if (!late || this.#ended || ![...this.#locks.values()].some((lock) => lock.token)) return;
    this.helper.kill("SIGKILL"); // so that it does not go on
    this.#end("the helper has not renewed it in time", this.grace);
  }

  #end(why = this.#closing ? "it was given back" : "the helper has ended", grace = 0) {
    if (this.#ended) return;
    this.#ended = why;
    const locks = [...this.#locks.values()];
    this.#locks.clear();
    this.#lose(locks.filter((lock) => lock.token), why, grace);
    for (const lock of locks) lock.answer({ event: "lost", error: `lock ${lock.name}: ${why}` });
  }

  #lose(locks, why, grace) {
    locks = locks.filter((lock) => !lock.over);
    for (const lock of locks) lock._lose(why);
    if (this.#closing || locks.length === 0) return;
    const stuck = () => locks.every((lock) => lock.over) || this.onStuck();
    setTimeout(stuck, Math.max(grace, this.stopWithin)).unref();
  }
}

function errorOf(answer) {
  const kind = { busy: Busy, lost: Lost }[answer.event] ?? HoldfastError;
  return new kind(answer.error ?? "the lock was released", answer);
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [name, ...options] = process.argv.slice(2);
  const { STEPS = "3", PAUSE = "0" } = process.env;
  try {
    const client = await Client.open({ options });
    await client.use(name, async (lock) => {
      for (let step = 0; step < Number(STEPS); step++) {
        console.log(`step ${step} under token ${lock.token}`);
        await pause(Number(PAUSE) * 1000, undefined, { signal: lock.signal });
      }
    });
    await client.close();
    console.log("released");
  } catch (error) {
    console.error(error instanceof Lost ? "the lock is lost: stopping" : error.message);
    process.exit(error instanceof Lost ? 76 : error instanceof Busy ? 75 : 1);
  }
}
