// Locks on the storage that you already have: a directory, a bucket, a database.
//
//     import { lock } from "holdfast";
//
//     await using guard = await lock("jobs/nightly");
//     await work(guard.token, { signal: guard.signal });
//
// lock starts the command `holdfast hold` and takes one lock. A Client holds any number of locks with
// one command, which renews them all. If you name no `store`, the environment and holdfast.conf name
// it, as for every command. The end of the block releases the lock. The end of the program does so too,
// however it ends. holdfast.d.mts describes each function.
//
// When a lock is lost, or the command has released it without a request (a service manager has stopped
// it, for example), has ended or falls silent, guard.signal is aborted with a Lost as its reason: hand
// the signal to all that the work waits for. use is then rejected with that. If the work has not ended
// by the end of the grace, the program ends with status 76: another client can have the lock then. Work
// that never waits cannot be stopped that way: let it call guard.check() now and then.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";

const LATE = "the command has not renewed it in time";

const asyncDispose = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");

// HoldfastError is what the command could not do, in its words. kind is one of the kinds of docs/json.md.
export class HoldfastError extends Error {
  constructor(message, line = {}) {
    super(message);
    this.name = new.target.name;
    this.kind = line.kind;
  }
}

// CommandNotFound: the command holdfast is missing, or cannot be executed.
export class CommandNotFound extends HoldfastError {}

// InvalidRequest: an argument is wrong, for example the name of a lock or an option.
export class InvalidRequest extends HoldfastError {}

// Unreachable: the store did not answer.
export class Unreachable extends HoldfastError {}

// ClientEnded: the client was closed, or its command has ended. Make a new client.
export class ClientEnded extends HoldfastError {}

// Busy: another holder has the lock.
export class Busy extends HoldfastError {
  constructor(message, line) {
    super(message, line);
    this.holder = line.holder;
    this.token = line.token;
  }
}

// Lost: the lock is over although it was not released, and another client can have it.
export class Lost extends HoldfastError {}

// findCommand returns the path of the command that npm installed for this system, or else "holdfast".
export function findCommand() {
  try {
    const found = createRequire(import.meta.url).resolve(`@holdfast-go/${process.platform}-${process.arch}/package.json`);
    return join(dirname(found), "bin", process.platform === "win32" ? "holdfast.exe" : "holdfast");
  } catch {
    return "holdfast"; // from PATH
  }
}

function stop() {
  console.error("the lock is lost, and the work goes on: stopping");
  process.exit(76);
}

// Guard is a lock that is held, from lock or Client.acquire.
export class Guard {
  #client;
  #aborter = new AbortController();
  #leaving; // what release waits for
  _close; // closes the client that lock has made for this lock

  constructor(client, id, name) {
    this.#client = client;
    this.id = id;
    this.name = name;
    this.turn = Promise.resolve(); // when the line before has its answer
    this.leaving = false; // its release was asked for
    this.over = false; // released, or left after its loss
    this.slot = undefined; // of a semaphore: the number of its slot, from 1 on
    this.limit = Infinity; // for the answer to acquire or try, if the command renews no lock
    this.yieldRequest = null; // if another client asks for the lock: an object with requested_by and reason
    this.signal = this.#aborter.signal; // aborted when the lock is lost
  }

  // check throws Lost if the lock is over, or if this program has read no renewal since its deadline. Work that
  // never waits reads none.
  check() {
    this._checkOver();
    if (this.#client._late()) throw new Lost(`lock ${this.name} is lost: ${LATE}`, { kind: "lost" });
  }

  _checkOver() {
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

  // release releases the lock. It throws Lost if the lock was lost before.
  async release() {
    try {
      if (!this.over) await (this.#leaving ??= this.#leave());
    } finally {
      await this._close?.();
    }
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

  async [asyncDispose]() {
    await this.release();
  }

  _lose(why) {
    this.#aborter.abort(new Lost(`lock ${this.name} is lost: ${why}`, { kind: "lost" }));
  }
}

// Client holds locks through one command, `holdfast hold`.
export class Client {
  #locks = new Map();
  #ids = 0;
  #ended; // why there are no locks any more
  #closing = false;
  #failure; // the last error that the command printed
  #deadline = { steady: 0, wall: 0 };
  #looks = 0; // how often the deadline was found to have passed since the last renewal
  storeTimeout = 30_000; // of the command, in milliseconds: then it reports that the store does not answer

  // open starts the command. stopWithin is how many milliseconds the work has to stop in after a loss
  // without a grace: the command was killed, for example, or the lock was broken with --now. Then onStuck
  // is called, which by default ends the program.
  static async open(settings = {}) {
    const client = new Client();
    await client.#open(settings);
    return client;
  }

  async #open({ store, ttl, holder, options = [], command = findCommand(), stopWithin = 1000, onStuck = stop }) {
    Object.assign(this, { stopWithin, onStuck });
    const args = ["hold", "--commands", "--json", ...options];
    for (const [name, value] of Object.entries({ store, ttl, holder })) {
      if (value !== undefined) args.push(`--${name}=${value}`);
    }
    // A signal from the terminal is for this program, which ends the command when it is ready to. So
    // the command gets a process group of its own.
    this.helper = spawn(command, args, { detached: true, windowsHide: true });
    this.helper.stdin.on("error", () => {}); // it has ended: the end of its output tells
    createInterface({ input: this.helper.stderr }).on("line", (text) => this.#note(text));
    this.exited = once(this.helper, "close");
    let started = false;
    const ready = new Promise((resolve) => {
      createInterface({ input: this.helper.stdout })
        .on("line", (text) => {
          let line;
          try {
            line = JSON.parse(text);
          } catch {} // the output ended in the middle of it, or it is that of another program
          if (line?.event === "ready") {
            started = true;
            resolve(line);
          } else if (!started) this.helper.kill("SIGKILL");
          else if (!line || line.event === "closed") this.#end(line?.error);
          else this.#hear(line);
        })
        .on("close", () => this.#end());
    });
    const first = await Promise.race([ready, this.exited]).catch((error) => {
      throw new CommandNotFound(`the command ${command} does not start: ${error.message}`, { kind: "command_not_found" });
    });
    if (first.event !== "ready") {
      throw errorOf(this.#failure ?? { error: `${command} hold does not start: exit status ${first[0] ?? first[1]}` });
    }
    this.grace = first.grace_ms ?? 0;
    this.ttl = first.ttl_ms;
    this.patience = this.ttl + 5000; // with the end of the command
    // If this program stood still, timers run before Node reads the renewals. What setImmediate calls runs later.
    this.watch = setInterval(() => setImmediate(() => this.#look()), Math.min(150, this.ttl / 60));
    this.watch.unref();
  }

  // acquire takes a lock, and waits for it: at most wait milliseconds, then it throws Busy.
  // shared (true) takes it beside other readers, slots (a number) takes one of that many slots,
  // whose number is guard.slot, and fair (true) waits in the queue.
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

  // close releases all locks, and ends the command.
  async close() {
    this.#closing = true;
    this.helper.stdin.end();
    const late = setTimeout(() => this.helper.kill("SIGKILL"), this.patience); // it is stopped, for example
    await this.exited;
    clearTimeout(late);
    clearInterval(this.watch);
  }

  async [asyncDispose]() {
    await this.close();
  }

  async #take(name, line) {
    const lock = new Guard(this, String(++this.#ids), name);
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
    if (lock.token) lock._checkOver(); // after the deadline, the command knows better
    if (this.#ended || this.#closing) throw new ClientEnded(this.#ended ?? "the client was closed");
    const text = JSON.stringify(line) + "\n";
    const size = Buffer.byteLength(text);
    if (size > 262144) { // the answer would have no id
      throw new InvalidRequest(`${size} bytes for one line, at most 262144 are allowed`, { kind: "usage" });
    }
    this.#locks.set(lock.id, lock);
    lock.leaving = line.command === "release";
    if (line.command === "try" || line.wait_ms !== undefined) {
      lock.limit = performance.now() + (line.wait_ms ?? 0) + this.storeTimeout + this.patience;
    }
    return new Promise((resolve) => {
      lock.answer = resolve;
      this.helper.stdin.write(text);
    });
  }

  #hear(line) {
    const lock = this.#locks.get(line.id);
    if (["held", "stored", "renewed"].includes(line.event)) {
      // Not later than a TTL from now: the clock may have been set back since the command has written the line.
      const wall = Math.min(Date.parse(line.deadline), Date.now() + this.ttl);
      const steady = performance.now() + wall - Date.now();
      if (steady > this.#deadline.steady) {
        this.#deadline = { steady, wall };
        this.#looks = 0;
      }
    }
    if (line.event === "at_risk") console.warn(`the locks are at risk: ${line.error ?? ""}`);
    // A release of what had just been lost has its answer.
    if (!lock || (line.event === "failed" && line.command === "release")) return;
    if (line.event === "released" && lock.token && !lock.leaving && !this.#closing) {
      line = { event: "lost", error: "the command has released it without a request" };
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

  // _late tells whether the deadline has passed: the command was stopped, for example.
  _late() {
    return performance.now() > this.#deadline.steady || Date.now() > this.#deadline.wall;
  }

  // #look ends all locks after their deadline, and all waits if one of them gets no answer in time. Only the third
  // look does so: the command can still be writing what did not fit into the pipe.
  #look() {
    if (this.#ended || !this._late() || ++this.#looks < 3) return;
    const locks = [...this.#locks.values()];
    const held = locks.some((lock) => lock.token);
    if (!held && !locks.some((lock) => lock.limit < performance.now())) return;
    this.helper.kill("SIGKILL"); // so that it does not go on
    this.#end(held ? LATE : "the command has not answered in time", this.grace);
  }

  #end(error, grace = 0) {
    if (this.#ended) return;
    const why = error ? `the command holdfast hold has ended: ${error}` : "the command holdfast hold has ended";
    this.#ended = this.#closing ? "the client was closed" : why;
    const locks = [...this.#locks.values()];
    this.#locks.clear();
    this.#lose(locks.filter((lock) => lock.token), this.#ended, grace);
    for (const lock of locks) {
      lock.answer({ event: lock.token ? "lost" : "ended", error: `lock ${lock.name}: ${this.#ended}` });
    }
  }

  // #note takes a line of the messages of the command.
  #note(text) {
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      message = { message: text }; // of a crash, for example
    }
    if (message.level !== "error") return console.warn(`holdfast: ${message.message}`);
    this.#failure = { kind: message.kind, error: [message.message, ...(message.hints ?? [])].join("\n") };
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
  const ofEvent = { busy: Busy, lost: Lost, ended: ClientEnded, released: ClientEnded }[answer.event];
  const ofKind = { busy: Busy, lost: Lost, usage: InvalidRequest, unreachable: Unreachable }[answer.kind];
  return new (ofEvent ?? ofKind ?? HoldfastError)(answer.error ?? "the client was closed, or its command has ended", answer);
}

// lock takes a lock with a client of its own, which ends with the lock. The options are those of
// Client.open and Client.acquire.
export async function lock(name, options = {}) {
  const client = await Client.open(options);
  try {
    const guard = await client.acquire(name, options);
    guard._close = () => client.close();
    return guard;
  } catch (error) {
    await client.close();
    throw error;
  }
}

// use runs work under a lock of a client of its own, as Client.use does.
export async function use(name, work, options = {}) {
  const client = await Client.open(options);
  try {
    return await client.use(name, work, options);
  } finally {
    await client.close();
  }
}
