#!/usr/bin/env node
// Runs the command line and sets the exit code. The only file that uses `process`. Imports only the command that was
// given. An older Node links these imports before it can be refused, so only default exports of Node's modules are
// imported.
import "./oldest-node.js";
import fs from "node:fs";
import nodeModule from "node:module";
import path from "node:path";
import type { ParsedArguments } from "./commands/arguments.ts";
import {
  type CommandIo,
  exitCodes,
  signalExitCodes,
  type TerminalSize,
  type TerminationSignal,
  usageError,
} from "./commands/io.ts";
import type { BuildInfo } from "./commands/start.ts";

const signals = Object.keys(signalExitCodes) as TerminationSignal[];

// Without a listener, Node opens its inspector on SIGUSR1, a port on which every local user can run code in this
// process.
process.on("SIGUSR1", () => {});

// A SIGHUP would end the start until the command handles signals, and a supervisor may send one at once.
let isHungUpEarly = false;
if (process.argv[2] === "start") {
  process.on("SIGHUP", () => {
    isHungUpEarly = true;
  });
}
let handlesSignals = false;

// Compiled code is cached beside the installation, never in the system's temporary folder, where another user could put
// code. Where the folder cannot be written there is no cache, and a start takes a little longer.
nodeModule.enableCompileCache(path.join(import.meta.dirname, "../node_modules/.cache/headgate"));

// For each import, Node looks on the disk for the file and for its package, although each import of ours names the path
// relative to the importing file. Without this hook, a start takes 40 ms more of 300, and the process 2 MiB more: V8 loads
// its optimizing compiler for the path functions of Node. The files of the YAML parser are CommonJS.
const ownFolder = new URL(".", import.meta.url).href;
const inYaml = /\/node_modules\/yaml\/dist\/[^?]*$/;
nodeModule.registerHooks({
  resolve(specifier, context, next) {
    const { parentURL } = context;
    if (parentURL === undefined || !/^\..*\.[jt]s$/.test(specifier)) return next(specifier, context);
    const isOwn = parentURL.startsWith(ownFolder);
    if (!isOwn && !inYaml.test(parentURL)) return next(specifier, context);
    const format = isOwn ? (specifier.endsWith(".ts") ? "module-typescript" : "module") : "commonjs";
    return { url: new URL(specifier, parentURL).href, format, shortCircuit: true };
  },
});

let isOutputRead = true;

const io: CommandIo = {
  env: process.env,
  cwd: process.cwd(),
  maxOpenFiles,
  residentBytes: () => process.memoryUsage.rss(),
  readInput,
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  isOutputRead: () => isOutputRead,
  onSignal: (handler) => {
    handlesSignals = true;
    for (const signal of signals) process.on(signal, () => handler(signal));
    if (isHungUpEarly) handler("SIGHUP");
  },
  terminalSize,
};

// A reader may leave early (`headgate check | head -1`), and a terminal may be closed (EIO), which is no error.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE" && error.code !== "EIO") throw error;
    if (stream === process.stdout) isOutputRead = false;
  });
}

process.exitCode = await main(process.argv.slice(2));
// Without an exit, Node would first remove the signal handlers: a signal then would end the process with another code.
// After a second signal the process must not wait for open requests. In all other cases nothing is left open.
if (handlesSignals) process.exit();

async function readInput(maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of process.stdin) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > maxBytes) break;
  }
  return Buffer.concat(chunks).subarray(0, maxBytes + 1);
}

function terminalSize(): TerminalSize | null {
  const { isTTY, columns, rows } = process.stdout;
  if (!isTTY || ["", "dumb"].includes(process.env["TERM"] ?? "")) return null;
  // A terminal that does not know its size says 0.
  return { columns: columns || 80, rows: rows || 24 };
}

/** Node raises the soft limit to the hard one at its start. */
function maxOpenFiles(): number | null {
  const [, ofLinux] = /^Max open files +(\d+)/m.exec(limitsOfLinux()) ?? [];
  return ofLinux === undefined ? maxOpenFilesReported() : Number(ofLinux);
}

/** Empty on other systems. */
function limitsOfLinux(): string {
  try {
    return fs.readFileSync("/proc/self/limits", "utf8");
  } catch {
    // There is no such file.
    return "";
  }
}

/** On every system; takes several milliseconds. */
function maxOpenFilesReported(): number | null {
  // Otherwise Node looks up the names of all network addresses, which takes as long as the name server does.
  Object.assign(process.report, { excludeNetwork: true });
  const report: object = process.report.getReport();
  const limits = "userLimits" in report ? (report.userLimits as { open_files?: { soft?: unknown } }) : {};
  const soft = limits.open_files?.soft;
  return typeof soft === "number" ? soft : null;
}

async function main(argv: readonly string[]): Promise<number> {
  try {
    const { parseArguments } = await import("./commands/arguments.ts");
    return await runCommand(parseArguments(argv));
  } catch (cause) {
    const stack = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
    io.err(`headgate: internal error, please report it: ${stack}\n`);
    return exitCodes.internal;
  }
}

async function runCommand(parsed: ParsedArguments): Promise<number> {
  if (!parsed.ok) {
    io.err(usageError(parsed.topic, parsed.message));
    return exitCodes.usage;
  }
  const { invocation } = parsed;
  switch (invocation.command) {
    case "help": {
      const { helpText } = await import("./commands/help.ts");
      io.out(helpText(invocation.topic));
      return exitCodes.ok;
    }
    case "version":
      io.out(`headgate ${await readVersion()}${await readCommit()}\n`);
      return exitCodes.ok;
    case "start":
      return (await import("./commands/start.ts")).run(invocation.args, io, await readBuild());
    case "check":
      return (await import("./commands/check.ts")).run(invocation.args, io);
    case "check-diff":
      return (await import("./commands/check.ts")).runDiff(invocation.args, io);
    case "demo":
      return (await import("./commands/demo/demo.ts")).run(invocation.args, io, await readBuild());
    case "token":
      return (await import("./commands/token.ts")).run(invocation.args, io);
    case "finance-backend":
      return (await import("./commands/finance-backend.ts")).run(invocation.args, io);
    case "completions":
      return (await import("./commands/completions.ts")).run(invocation.args, io);
    case "admin":
      return (await import("./commands/admin/run.ts")).run(invocation.args, io, await readVersion());
  }
}

async function readBuild(): Promise<BuildInfo> {
  return { version: await readVersion(), nodeVersion: process.versions.node };
}

/** From package.json, which has the same relative path from src/ and from dist/. */
async function readVersion(): Promise<string> {
  const { readFile } = await import("node:fs/promises");
  const manifest: unknown = JSON.parse(await readFile(new URL("../package.json", import.meta.url), "utf8"));
  const isManifest = typeof manifest === "object" && manifest !== null && "version" in manifest;
  return isManifest ? String(manifest.version) : "unknown";
}

/** In brackets; empty where the sources run, and for a build of sources that are no clone. A build writes it beside this file. */
async function readCommit(): Promise<string> {
  const { readFile } = await import("node:fs/promises");
  const commit = await readFile(new URL("commit", import.meta.url), "utf8").catch(() => "");
  return commit.trim() === "" ? "" : ` (${commit.trim()})`;
}
