// Measures the longest turn of the event loop of the process that loads it (`node --import`), and names its step. CPU
// time of the main thread, because elapsed time is noisy where other processes run. Every microsecond belongs to one
// turn: a turn begins where the one before ended, so it contains the native work that led to its callback (reading,
// TLS, nghttp2), the callback, and the ticks and promises that follow. Answers the message `{ read: true }` over IPC.
import { createHook, executionAsyncResource } from "node:async_hooks";

export interface TurnFigures {
  /** User and system time of the process since its start, all threads. */
  readonly cpuUs: number;
  readonly rssBytes: number;
  /** Since the last read. */
  readonly longestTurnUs: number;
  /** The type of the resource whose callback it was, and the name of the callback if it has one. */
  readonly longestTurnStep: string;
  /** All turns of one iteration of the event loop, which others wait for. */
  readonly longestIterationUs: number;
}

interface Resource {
  /** Of timers. */
  readonly _onTimeout?: { readonly name: string } | null;
  readonly _onImmediate?: { readonly name: string } | null;
}

let depth = 0;
/** When the last callback ended, where the next turn begins. */
let endedUs = cpuUs();
let turn = turnOf(null);
let longest = { us: 0, turn };
let iteratedUs = endedUs;
let longestIterationUs = 0;

createHook({ before, after, trackPromises: false }).enable();
// An unreferenced immediate runs once in every iteration, and does not keep the loop from waiting. It ends a turn of
// native work that called nothing back.
setImmediate(function endOfIteration() {
  const nowUs = cpuUs();
  longestIterationUs = Math.max(longestIterationUs, nowUs - iteratedUs);
  iteratedUs = nowUs;
  setImmediate(endOfIteration).unref();
}).unref();
if (process.send !== undefined) {
  process.on("message", (message) => {
    if (typeof message === "object" && message !== null && "read" in message) process.send?.(read());
  });
  // The channel must not keep a process alive that has ended its work.
  process.channel?.unref();
}

function before(): void {
  depth += 1;
  const resource: Resource = executionAsyncResource();
  // A tick runs in the turn of the callback that queued it.
  if (depth > 1 || isTick(resource)) return;
  turn = turnOf(resource);
}

function turnOf(resource: Resource | null) {
  // The callback is read now, because Node forgets it when it has run.
  const callback = resource?._onTimeout ?? resource?._onImmediate;
  return { beganUs: endedUs, nativeUs: cpuUs() - endedUs, resource, callback };
}

function after(): void {
  depth -= 1;
  if (depth > 0) return;
  endedUs = cpuUs();
  const us = endedUs - turn.beganUs;
  if (us > longest.us) longest = { us, turn };
}

function read(): TurnFigures {
  const { user, system } = process.cpuUsage();
  const figures = {
    cpuUs: user + system,
    rssBytes: process.memoryUsage.rss(),
    longestTurnUs: longest.us,
    longestTurnStep: stepOf(longest.turn),
    longestIterationUs,
  };
  longest = { us: 0, turn };
  longestIterationUs = 0;
  return figures;
}

/** Whether the callback is one of `process.nextTick` or `queueMicrotask`. */
function isTick(resource: object): boolean {
  return resource.constructor === Object || (resource.constructor?.name === "AsyncResource" && "callback" in resource);
}

function stepOf({ resource, nativeUs, callback }: typeof turn): string {
  if (resource === null) return "start";
  const name = callback == null ? "" : ` ${callback.name}`;
  return `${resource.constructor?.name}${name}${portOf(resource)}, ${nativeUs} µs of it before the callback`;
}

/** Tells which listener it was, or that it was a connection to the upstream. */
function portOf(resource: object): string {
  const symbol = Object.getOwnPropertySymbols(resource).find(({ description }) => description === "owner_symbol");
  const members = resource as Record<PropertyKey, { localPort?: unknown } | undefined>;
  const socket = members["socket"] ?? (symbol === undefined ? undefined : members[symbol]);
  return typeof socket?.localPort === "number" ? ` of local port ${socket.localPort}` : "";
}

/**
 * The CPU time of the main thread. The kernel updates it only at each tick, unless that of the process is read.
 */
function cpuUs(): number {
  process.cpuUsage();
  const { user, system } = process.threadCpuUsage();
  return user + system;
}
