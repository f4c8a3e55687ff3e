// `headgate start`: runs a gateway from start to drain. A start that fails prints the reason in one line and leaves nothing open. SIGHUP
// reloads. Of the other signals the first drains, the second ends the process at once.

import { createRequire } from "node:module";
import { maxApiConnections } from "../admin/connections.ts";
import type { SignInCode } from "../admin/sign-in-code.ts";
import { UnixSocketError } from "../admin/unix-socket.ts";
import { allEntries } from "../config/definition.ts";
import { FilesError } from "../config/files.ts";
import type { NamedFiles, SettingsSource } from "../config/load.ts";
import { mountedAlone } from "../config/mounts.ts";
import { schema } from "../config/schema.ts";
import { systemClock } from "../core/clock.ts";
import { asError, errorCode } from "../core/failure.ts";
import { bracketed } from "../core/ip-address.ts";
import type { Settings } from "../core/settings.ts";
import { type Gateway, ListenError, startGateway } from "../gateway/gateway.ts";
import { openDestination } from "../telemetry/destination.ts";
import { createLog, type Logger } from "../telemetry/log.ts";
import { activeSeconds } from "../telemetry/telemetry.ts";
import type { ConfigArguments } from "./arguments.ts";
import { type CommandIo, exitCodes, signalExitCodes, type TerminationSignal } from "./io.ts";
import { loadConfig, settingsSource } from "./load-config.ts";
import { saferNode } from "./safe-node.ts";

export interface BuildInfo {
  readonly version: string;
  readonly nodeVersion: string;
}

interface ServeOptions {
  readonly source: SettingsSource;
  /** What is read again when it changes: absolute paths. */
  readonly watched?: readonly string[];
  /** Otherwise SIGHUP drains. */
  readonly reloadsOnHangUp?: boolean;
  /** Of the link that `onReady` prints. */
  readonly signIn?: SignInCode;
  /** May print the addresses. */
  readonly onReady?: (gateway: Gateway) => void;
}

/** Runs the gateway with the given configuration until a signal. */
export async function run(args: ConfigArguments, io: CommandIo, build: BuildInfo): Promise<number> {
  const loaded = await loadConfig(args, io);
  if (loaded === undefined) return exitCodes.config;
  const source = settingsSource(args, loaded.file, io, loaded.input);
  return serve(loaded.settings, io, build, { source, watched: watchedFiles(loaded.files, source.file) });
}

/** Resolves with the exit code when everything is closed. */
export async function serve(
  settings: Settings,
  io: CommandIo,
  build: BuildInfo,
  { source, watched = [], reloadsOnHangUp = true, onReady = () => {}, signIn }: ServeOptions,
): Promise<number> {
  // Registered before a port is opened, so that a signal during the start is handled too.
  const signals = collectSignals(io, reloadsOnHangUp);
  const destination = openDestination({ fd: 1 });
  const { level, time } = settings.log;
  const log = createLog({ level, time, clock: systemClock, destination });
  const maxOpenFiles = io.maxOpenFiles();
  logOpenFiles(settings, maxOpenFiles, log);
  const warnOfMounts = (files: readonly string[]): void => {
    for (const file of mountedAlone(files))
      log.warn({ file }, "mounted by itself, so it never changes: mount its folder");
  };
  if (settings.reload.watch) warnOfMounts(watched);
  const lowestSafe = saferNode(build.nodeVersion);
  if (lowestSafe !== null)
    log.warn({ node: build.nodeVersion, lowestSafe }, "this version of Node has known vulnerabilities: update it");
  let gateway: Gateway;
  try {
    gateway = await startGateway(withinOpenFiles(settings, maxOpenFiles, log), {
      source: fittingSource(source, io, log),
      clock: systemClock,
      log,
      destination,
      droppedLogLines: () => destination.dropped,
      residentBytes: io.residentBytes,
      signIn,
      ...build,
    });
  } catch (error) {
    io.err(`headgate: ${explainStartFailure(error)}\n`);
    return error instanceof FilesError ? exitCodes.config : exitCodes.unavailable;
  }
  onReady(gateway);
  const endCollection = collectOnceIdle((durationMs) => log.debug({ durationMs }, "memory of the start given back"));
  signals.onReload(() => {
    void gateway.reloadFromSource("signal").then(({ changed, errors }) => {
      if (changed.length + errors.length === 0) warnOfMounts(watched);
    });
  });
  const signal = await Promise.race([signals.first, gateway.drainBegan.then(() => null)]);
  endCollection();
  log.info(signal === null ? { by: "admin call" } : { signal }, "draining");
  const code = await Promise.race([
    gateway.drain().then(() => exitCodes.ok),
    signals.second.then((signal) => signalExitCodes[signal]),
  ]);
  if (code !== exitCodes.ok) log.warn("second signal, requests in progress are broken off");
  log.info({ code }, "stopped");
  await new Promise<void>((resolve) => log.flush(() => resolve()));
  return code;
}

/** `file`: that of the configuration; null if it was read from standard input. */
function watchedFiles({ path }: NamedFiles, file: string | null): readonly string[] {
  const entries = allEntries(schema).filter(({ node }) => node.kind === "leaf" && node.isPath);
  const keys = entries.map((entry) => entry.path.join("."));
  // The gateway makes these two itself.
  const read = keys.filter((key) => key !== "counters.snapshot.path" && key !== "admin.socket");
  return [file, ...read.map(path)].filter((each) => each !== null);
}

function fittingSource({ file, load }: SettingsSource, io: CommandIo, log: Logger): SettingsSource {
  return {
    file,
    load(isStart) {
      const loaded = load(isStart);
      if (!loaded.ok) return loaded;
      // At the start the settings have been fitted, and the log says so.
      const settings = withinOpenFiles(loaded.settings, io.maxOpenFiles(), isStart === true ? null : log);
      return { ...loaded, settings };
    },
  };
}

function logOpenFiles(settings: Settings, maxOpenFiles: number | null, log: Logger): void {
  if (maxOpenFiles === null) return;
  const { needed } = fitOpenFiles(maxOpenFiles, settings);
  if (needed <= maxOpenFiles) log.info({ maxOpenFiles, needed }, "open files");
}

function withinOpenFiles(settings: Settings, maxOpenFiles: number | null, log: Logger | null): Settings {
  if (maxOpenFiles === null) return settings;
  const { needed, maxConnections } = fitOpenFiles(maxOpenFiles, settings);
  if (needed <= maxOpenFiles) return settings;
  log?.warn(
    { maxOpenFiles, needed, maxConnections },
    "the connection limits need more open files than the system allows, so fewer connections are accepted",
  );
  return { ...settings, listen: { ...settings.listen, maxConnections } };
}

/** One Ctrl-C can arrive twice: from the terminal and, forwarded, from npm. The copy is not a second signal. */
const sameSignalMs = 300;

interface Signals {
  readonly first: Promise<TerminationSignal>;
  readonly second: Promise<TerminationSignal>;
  /** Calls back for each SIGHUP that reloads; for those from before once, now. */
  onReload(reload: () => void): void;
}

function collectSignals(io: CommandIo, hupReloads: boolean): Signals {
  const first = Promise.withResolvers<TerminationSignal>();
  const second = Promise.withResolvers<TerminationSignal>();
  let firstAtMs: number | null = null;
  let isReloadWanted = false;
  let reload = (): void => {
    isReloadWanted = true;
  };
  io.onSignal((signal) => {
    if (signal === "SIGHUP" && hupReloads) {
      reload();
      return;
    }
    const nowMs = systemClock.monotonicMs();
    firstAtMs ??= nowMs;
    first.resolve(signal);
    if (nowMs - firstAtMs >= sameSignalMs) second.resolve(signal);
  });
  const onReload = (then: () => void): void => {
    reload = then;
    if (isReloadWanted) reload();
  };
  return { first: first.promise, second: second.promise, onReload };
}

function explainStartFailure(error: unknown): string {
  if (error instanceof FilesError)
    return `the files of ${error.errors.map(({ key }) => key).join(", ")} cannot be used`;
  if (error instanceof UnixSocketError) return `cannot listen on ${error.path} (admin.socket): ${error.message}`;
  if (!(error instanceof ListenError)) throw error;
  const { host, port } = error.address;
  return `cannot listen on ${bracketed(host)}:${port} (${error.listener}): ${explainListenFailure(error.cause)}`;
}

function explainListenFailure(cause: unknown): string {
  return listenFailures.get(errorCode(cause) ?? "") ?? asError(cause).message;
}

const noAddress = "the host name has no address";

const listenFailures: ReadonlyMap<string, string> = new Map([
  ["EADDRINUSE", "the port is in use"],
  ["EACCES", "not permitted (ports below 1024 need a privilege)"],
  ["EADDRNOTAVAIL", "this machine has no such address"],
  ["EAFNOSUPPORT", "this system has no IPv6, so listen on an IPv4 address, such as 0.0.0.0 in place of ::"],
  ["ENOTSUP", "this system cannot share a port among threads, so set workers to 1"],
  ["ENOTFOUND", noAddress],
  ["EAI_AGAIN", noAddress],
]);

// Fits the bounds on connections into the maximum of open files of the process, since each connection is an open file.
// If they do not fit, the bound on client connections is lowered, so that clients get a 503 instead of no answer.

/** Open files of the process itself, of the admin listener, and of refused connections that are still open. */
const ownFiles = 100;
/** Open files of each thread, if there are several: its listeners, and what its event loop needs. */
const threadFiles = 10;

/** Returns the sum of all bounds as `needed`, and `listen.maxConnections` or less. */
export function fitOpenFiles(maxOpenFiles: number, settings: Settings) {
  const { listen, admin, upstream, upgrade, extAuth, workers } = settings;
  // A tunnel has a connection to the upstream besides the client's.
  const callers = (extAuth.http?.maxConnections ?? 0) + (extAuth.grpc?.maxConnections ?? 0);
  const hasApi = admin.tokensFile !== null || admin.socket !== null;
  const own = ownFiles + (hasApi ? maxApiConnections : 0) + (workers > 1 ? workers * threadFiles : 0);
  const others = upstream.maxConnections + upgrade.maxTunnels + callers + own;
  // The others rarely reach their bounds, so clients get at least half of the files.
  const fitting = Math.max(maxOpenFiles - others, Math.floor(maxOpenFiles / 2));
  return { needed: listen.maxConnections + others, maxConnections: Math.min(listen.maxConnections, fitting) };
}

// Gives memory that the start has used back to the system: about 10 MiB of 95. V8's young generation grows while
// modules are loaded, and only a full garbage collection that is asked to reduce memory makes it small again. The
// collection stops the thread for some 40 ms, so there is only one, after half a second without work in the first
// minute.

const checkMs = 500;
/** For a minute. Later the heap of a gateway that has carried traffic is larger, and the collection takes longer. */
const checks = 120;
/** Without requests, the timers of the gateway take up to 1 % of the time; with 50 requests a second, 2.5 % are used. */
const idleShare = 0.02;

/** Waits in the background. `onCollected` gets how long it took. Returns the function that ends the wait. */
export function collectOnceIdle(
  onCollected: (durationMs: number) => void,
  collect = collectGarbage,
  activeSecondsSoFar = activeSeconds,
): () => void {
  let before = activeSecondsSoFar();
  let left = checks;
  const timer = setInterval(() => {
    const now = activeSecondsSoFar();
    const activeMs = (now - before) * 1000;
    before = now;
    left -= 1;
    const isIdle = activeMs <= idleShare * checkMs;
    if (isIdle || left === 0) clearInterval(timer);
    if (!isIdle) return;
    const beganMs = systemClock.monotonicMs();
    collect();
    onCollected(Math.round(systemClock.monotonicMs() - beganMs));
  }, checkMs).unref();
  return () => clearInterval(timer);
}

type Collect = (options: { readonly type: "major"; readonly flavor: "last-resort" }) => void;

/**
 * V8 gives a function that collects garbage to contexts that are created while the flag is set, so the code of the gateway
 * never sees it. Does nothing if a version of V8 gives none.
 */
function collectGarbage(): void {
  const require = createRequire(import.meta.url);
  const { setFlagsFromString } = require("node:v8") as typeof import("node:v8");
  const { runInNewContext } = require("node:vm") as typeof import("node:vm");
  setFlagsFromString("--expose-gc");
  const collect: Collect | undefined = runInNewContext("globalThis.gc");
  // With another flag, the compiled code in Node's cache would not be used for modules that are loaded later.
  setFlagsFromString("--no-expose-gc");
  collect?.({ type: "major", flavor: "last-resort" });
}
