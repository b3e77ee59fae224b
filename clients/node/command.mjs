#!/usr/bin/env node
// Runs the command holdfast that npm installed for this system, and ends as the command does.
import { spawn } from "node:child_process";
import { constants } from "node:os";

import { findCommand } from "./holdfast.mjs";

const command = findCommand();
const child = spawn(command, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`holdfast: the command ${command} does not start: ${error.message}`);
  process.exit(127);
});
// The terminal sends its own signals to both processes.
const terminal = process.stdin.isTTY ? ["SIGINT", "SIGQUIT", "SIGHUP"] : [];
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]) {
  if (signal in constants.signals) process.on(signal, () => terminal.includes(signal) || child.kill(signal));
}
child.on("exit", (status, signal) => {
  if (!signal) process.exit(status);
  process.removeAllListeners(signal);
  process.exitCode = 128 + constants.signals[signal]; // Node ignores some signals, such as SIGPIPE
  process.kill(process.pid, signal);
});
