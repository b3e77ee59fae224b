// The tests of holdfast.mjs: node --test, with holdfast in PATH.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";

import { Busy, Client, ClientEnded, CommandNotFound, HoldfastError, InvalidRequest, lock, Lost, Unreachable, use } from "./holdfast.mjs";

const run = promisify(execFile);

// under runs a test with a store of its own, and closes its clients.
function under(name, body) {
  test(name, { timeout: 60_000 }, async () => {
    const place = await mkdtemp(join(tmpdir(), "holdfast-"));
    process.env.HOME = place;
    const clients = [];
    const t = { store: `file:${place}/store`, stuck: 0 };
    t.open = async (settings) => {
      const client = await Client.open({ store: t.store, ttl: "30s", onStuck: () => t.stuck++, ...settings });
      clients.push(client);
      return client;
    };
    t.show = async (lock) => JSON.parse((await run("holdfast", ["--store", t.store, "show", "--json", lock])).stdout);
    try {
      await body(t);
    } finally {
      await Promise.all(clients.map((client) => client.close()));
      await rm(place, { recursive: true, force: true });
    }
  });
}

under("many locks", async (t) => {
  const client = await t.open({ holder: "ada" });
  const locks = await Promise.all(Array.from({ length: 50 }, (_, i) => client.acquire(`l/${i}`)));
  assert.equal((await t.show("l/7")).holder, "ada");
  for (const lock of locks) lock.check();
  assert.equal(await client.tryAcquire("l/7"), null);
  await assert.rejects(client.acquire("l/7", { wait: 1000 }), (error) => {
    return error instanceof Busy && error.holder === "ada" && error.token === locks[7].token;
  });
  await locks[7].store("step 1");
  assert.equal((await t.show("l/7")).data, "step 1");
  await locks[7].store(Uint8Array.of(255));
  assert.equal((await t.show("l/7")).data_base64, "/w==");
  await locks[7].store(null);
  assert.equal((await t.show("l/7")).data, undefined);
  await assert.rejects(locks[7].store("x".repeat(40_000)), HoldfastError);
  await Promise.all(locks.map((lock) => lock.release()));
  assert.equal((await t.show("l/7")).state, "free");
  assert.throws(() => locks[7].check(), Lost);
  await locks[7].release(); // once more changes nothing
});

under("too much for one line is an error", async (t) => {
  const client = await t.open();
  const usage = (error) => error instanceof HoldfastError && error.kind === "usage" && /262144/.test(error.message);
  await assert.rejects(client.acquire("x".repeat(300_000)), usage);
  await client.use("job", async (lock) => {
    await assert.rejects(lock.store("x".repeat(1_000_000)), usage);
    await lock.store("\u0001".repeat(32_768)); // the most that fits, and the longest form of it
  });
});

under("an ask is refused", async (t) => {
  const client = await t.open();
  await client.use("job", async (lock) => {
    await assert.rejects(lock.refuse("why"), (error) => error.kind === "condition_not_met"); // what no client has asked
    await run("holdfast", ["--store", t.store, "ask", "job"]);
    while (!lock.yieldRequest) await lock.store("a write meets the ask");
    await lock.refuse("the backup runs");
    assert.equal((await t.show("job")).yield_request.refusal, "the backup runs");
    lock.check();
  });
});

under("readers and slots", async (t) => {
  const client = await t.open();
  const readers = [await client.acquire("doc", { shared: true }), await client.tryAcquire("doc", { shared: true })];
  assert.equal(readers[0].token, readers[1].token);
  assert.equal(await client.tryAcquire("doc"), null);
  for (const reader of readers) await reader.release();
  await client.use("doc", () => assert.rejects(client.acquire("doc", { wait: 1000, shared: true }), Busy), { fair: true });
  const slots = [await client.acquire("pool", { slots: 2 }), await client.tryAcquire("pool", { slots: 2 })];
  assert.deepEqual(slots.map((lock) => lock.slot), [1, 2]);
  assert.equal(await client.tryAcquire("pool", { slots: 2 }), null);
  await assert.rejects(client.acquire("pool", { slots: 3 }), (error) => {
    return error.kind === "condition_not_met" && /has 2 slots/.test(error.message);
  });
  await assert.rejects(client.acquire("pool", { slots: 0 }), /slots/);
});

under("an ask is no answer", async (t) => {
  const client = await t.open();
  await client.use("job", async (lock) => {
    assert.equal(lock.yieldRequest, null);
    await run("holdfast", ["--store", t.store, "ask", "job", "--reason", "noon", "--holder", "bob"]);
    await lock.store("step 1"); // this write meets the ask
    while (!lock.yieldRequest) await pause(10);
    assert.deepEqual([lock.yieldRequest.requested_by, lock.yieldRequest.reason], ["bob", "noon"]);
    await lock.store("step 2");
  });
  assert.equal((await t.show("job")).state, "free");
});

under("uses of one lock exclude each other", async (t) => {
  const client = await t.open();
  let counter = 0;
  await Promise.all(
    Array.from({ length: 10 }, () =>
      client.use("job", async () => {
        const n = counter;
        await pause(1);
        counter = n + 1;
      }),
    ),
  );
  assert.equal(counter, 10);
});

under("the work's result and its error are those of use", async (t) => {
  const client = await t.open();
  assert.equal(await client.use("job", () => 7), 7);
  await assert.rejects(client.use("job", () => Promise.reject(new Error("mine"))), /mine/);
  assert.equal((await t.show("job")).state, "free");
});

under("bad names are errors, and end nothing", async (t) => {
  const client = await t.open();
  for (const name of ["../job", "", "a//b", "\ud800", "a\0b", "x".repeat(5000)]) {
    await assert.rejects(client.acquire(name), (error) => error instanceof InvalidRequest && /name|string/.test(error.message));
  }
  await (await client.acquire("job")).release();
});

under("no helper", async (t) => {
  const missing = (error) => error instanceof CommandNotFound && /no-such-program.*ENOENT/.test(error.message);
  await assert.rejects(t.open({ command: "no-such-program" }), missing);
  const wrong = (error) => error instanceof InvalidRequest && /no-such-flag/.test(error.message);
  await assert.rejects(t.open({ options: ["--no-such-flag"] }), wrong);
  const other = join(process.env.HOME, "other");
  for (const script of ["echo 'usage: other'", "echo '{}'; exit", "exit 3", "echo 'usage'; exec sleep 600", "echo '[]'; exec sleep 600"]) {
    await writeFile(other, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    await assert.rejects(t.open({ command: other }), /other hold does not start/);
  }
});

under("a store that is away", async () => {
  await assert.rejects(Client.open({ store: "nats://127.0.0.1:1/locks", ttl: "2s" }), (error) => {
    return error instanceof Unreachable && /127\.0\.0\.1:1/.test(error.message);
  });
});

under("lock and use", async (t) => {
  const guard = await lock("job", { store: t.store, holder: "ada" });
  assert.equal((await t.show("job")).holder, "ada");
  await assert.rejects(lock("job", { store: t.store, wait: 0 }), Busy);
  await assert.rejects(use("job", () => assert.fail("two holders"), { store: t.store, wait: 0 }), Busy);
  await guard[dispose]();
  assert.equal(await use("job", (guard) => guard.token, { store: t.store }), guard.token + 1);
  assert.equal((await t.show("job")).state, "free");
});

const dispose = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");

under("the end of the client or of its command ends a wait", async (t) => {
  const holder = await t.open();
  await holder.acquire("job");
  for (const end of [(client) => client.close(), (client) => client.helper.kill("SIGTERM")]) {
    const client = await t.open();
    await Promise.all([assert.rejects(client.acquire("job"), ClientEnded), pause(300).then(() => end(client))]);
  }
});

under("dispose and close give back", async (t) => {
  const client = await t.open();
  const lock = await client.acquire("a");
  await lock[dispose]();
  assert.equal((await t.show("a")).state, "free");
  await client.acquire("b");
  await client[dispose]();
  assert.equal((await t.show("b")).state, "free");
  await assert.rejects(client.acquire("c"), ClientEnded);
});

// loses checks that work under a lock is stopped when the cause has taken the lock away.
async function loses(client, cause, why) {
  let reason;
  const work = async (lock) => {
    setTimeout(() => cause(lock), 100);
    await pause(40_000, undefined, { signal: lock.signal }).catch(() => (reason = lock.signal.reason));
  };
  await assert.rejects(client.use("job", work), why);
  await pause(10);
  assert.ok(reason instanceof Lost);
}

under("the loss of one lock stops its work", async (t) => {
  const client = await t.open();
  const other = await client.acquire("other");
  await loses(
    client,
    async (lock) => {
      await run("holdfast", ["--store", t.store, "break", "--now", "job", "--token", String(lock.token)]);
      lock.store("x").catch(() => {}); // its holder writes, and hears of it at once
    },
    /broken/,
  );
  other.check();
  await other.release();
  assert.equal(t.stuck, 0);
});

under("the end of the helper stops the work", async (t) => {
  const client = await t.open();
  await loses(client, () => client.helper.kill("SIGKILL"), /has ended/);
  await assert.rejects(client.acquire("job"), ClientEnded);
});

under("a stop of the helper stops the work", async (t) => {
  const client = await t.open();
  const late = await client.acquire("late");
  await loses(client, () => client.helper.kill("SIGTERM"), /without a request/); // it gives all locks back
  while (!late.signal.aborted) await pause(10);
  await assert.rejects(late.release(), Lost);
  await (await t.open()).use("job", () => {}, { wait: 20_000 });
});

under("a release beside a stop of the helper ends", async (t) => {
  for (let i = 0; i < 5; i++) {
    const client = await t.open();
    const lock = await client.acquire("job");
    client.helper.kill("SIGTERM");
    await lock.release().catch((error) => assert.ok(error instanceof Lost));
    assert.throws(() => lock.check(), Lost);
  }
  assert.equal(t.stuck, 0);
});

under("what ends the output stops the work", async (t) => {
  const lasts = ['{"event":"closed"}\n', '{"event":"released","id":"1","token":7}\n', "no JSON\n", '{"event":"rel'];
  for (const last of lasts) {
    // It does not end by itself where the line is whole: the line alone is the end.
    const command = join(process.env.HOME, "helper");
    const lines = ['{"event":"ready","ttl_ms":30000}', '{"event":"held","id":"1","token":7,"deadline":"2999-01-01T00:00:00Z"}'];
    const end = last.endsWith("\n") ? "cat >/dev/null" : "exit";
    const text = ["#!/bin/sh", `echo '${lines[0]}'`, "read line", `echo '${lines[1]}'`, "sleep 0.1", `printf '%s' '${last}'`, end, ""];
    await writeFile(command, text.join("\n"), { mode: 0o755 });
    await loses(await t.open({ command }), () => {}, /without a request|has ended/);
  }
});

under("two releases, and one beside a write, all end", async (t) => {
  const client = await t.open();
  const lock = await client.acquire("job");
  await Promise.all([lock.store("x"), lock.release(), lock.release()]);
  assert.equal((await t.show("job")).state, "free");
});

under("the silence of the helper stops the work", async (t) => {
  const client = await t.open({ ttl: "3s" });
  await loses(client, () => client.helper.kill("SIGSTOP"), /has not renewed/);
});

under("a deadline is at most a TTL away", async (t) => {
  // The clock was set back after the command had written the line.
  const command = join(process.env.HOME, "helper");
  const held = '{"event":"held","id":"1","token":7,"deadline":"2999-01-01T00:00:00Z"}';
  await writeFile(command, `#!/bin/sh\necho '{"event":"ready","ttl_ms":2000}'\nread line\necho '${held}'\nexec sleep 10\n`, { mode: 0o755 });
  await loses(await t.open({ command }), () => {}, /has not renewed/);
});

under("a command that is stopped keeps no caller", async (t) => {
  for (const call of [
    (client) => assert.rejects(client.acquire("job", { wait: 500 }), /not answered in time/),
    (client) => assert.rejects(client.tryAcquire("job"), /not answered in time/),
    (client) => client.close(),
    (client) => Promise.all([assert.rejects(client.acquire("job"), ClientEnded), pause(1).then(() => client.close())]),
  ]) {
    const client = await t.open();
    Object.assign(client, { patience: 500, storeTimeout: 0 });
    client.helper.kill("SIGSTOP");
    let late = false;
    const timer = setTimeout(() => (late = client.helper.kill("SIGKILL")), 10_000);
    await call(client);
    clearTimeout(timer);
    assert.ok(!late);
  }
});

under("a standstill of the program is no loss", async (t) => {
  const client = await t.open({ ttl: "3s" });
  const lock = await client.acquire("job");
  const standStill = () => assert.throws(() => { for (;;) lock.check(); }, Lost); // until the deadline has passed
  standStill();
  await pause(500);
  lock.check();
  standStill();
  await lock.store("x"); // the line leaves before the renewals are read
  lock.check();
  standStill();
  await lock.release();
  assert.equal((await t.show("job")).state, "free");
  assert.equal(t.stuck, 0);
});

under("work that does not stop ends the program", async (t) => {
  const client = await t.open({ stopWithin: 50 });
  const lock = await client.acquire("job");
  client.helper.kill("SIGKILL");
  while (t.stuck === 0) await pause(10);
  assert.throws(() => lock.check(), Lost);
  await assert.rejects(lock.release(), Lost);
});

under("the command of npm ends as holdfast does", async () => {
  const bin = process.env.HOME;
  await writeFile(join(bin, "holdfast"), "#!/bin/sh\nkill -s $1 $$\n", { mode: 0o755 });
  const env = { ...process.env, PATH: `${bin}:${process.env.PATH}` };
  const command = new URL("command.mjs", import.meta.url).pathname;
  for (const [signal, code] of [["PIPE", 141], ["XFSZ", 153]]) { // Node ignores both
    await assert.rejects(run(process.execPath, [command, signal], { env }), { code });
  }
});
