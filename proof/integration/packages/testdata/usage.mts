// What a user of the package writes: tsc checks the types, and node runs what tsc makes of it.
import { Busy, Client, findCommand, lock } from "holdfast";

declare const process: { argv: string[] }; // the types of Node are a package of their own
const store = process.argv[2];
console.log(findCommand());
{
  await using guard = await lock("job", { store, wait: 10_000 });
  const signal: AbortSignal = guard.signal;
  const token: number = guard.token;
  const busy = await lock("job", { store, wait: 0 }).catch((error: unknown) => error instanceof Busy && error.token);
  console.log(token === busy, signal.aborted);
}
await using client = await Client.open({ store });
const result: string = await client.use("job", async (guard) => (await guard.store("x"), "used"));
console.log(result);
