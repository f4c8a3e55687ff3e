// The real gateway on free loopback ports, with the packaged defaults and whatever a test changes.
import type { SignInCode } from "../../src/admin/sign-in-code.ts";
import { loadSettings, packagedConfigFile, type SettingsSource } from "../../src/config/load.ts";
import type { Authenticator } from "../../src/core/authentication.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import type { Settings } from "../../src/core/settings.ts";
import { type Gateway, startGateway } from "../../src/gateway/gateway.ts";
import { minTableBytes } from "../../src/limits/table/layout.ts";
import { createLog } from "../../src/telemetry/log.ts";
import type { NameOptions } from "../../src/upstream/name-lookup.ts";
import { sharesReads } from "./reads.ts";

export type Overrides = {
  readonly [K in keyof Settings]?: Settings[K] extends readonly unknown[]
    ? Settings[K]
    : Settings[K] extends object
      ? Partial<Settings[K]>
      : Settings[K];
};

export interface TestGateway extends Gateway {
  /** http://127.0.0.1:port */
  readonly url: string;
  readonly adminUrl: string;
  /** Of the decision listener; empty if there is none. */
  readonly extAuthUrl: string;
  /** What was logged so far. */
  readonly logLines: readonly Record<string, unknown>[];
  close(): Promise<void>;
}

export interface TestGatewayOptions {
  readonly upstreamUrl: string;
  readonly overrides?: Overrides;
  readonly clock?: Clock;
  readonly names?: NameOptions;
  readonly authenticator?: Authenticator;
  /** Default: short, so that a test need not wait long for the end of a connection. */
  readonly http2LingerMs?: number;
  readonly source?: SettingsSource;
  readonly signIn?: SignInCode | undefined;
  readonly threadEntry?: URL;
}

/** What answers the cases of a corpus: the gateway, or what is compared with it. */
export type Serving = Pick<TestGateway, "url" | "adminUrl" | "traffic" | "close">;
export type StartServing<S extends Serving = Serving> = (
  options: Pick<TestGatewayOptions, "upstreamUrl" | "overrides">,
) => Promise<S>;

export async function startTestGateway(options: TestGatewayOptions): Promise<TestGateway> {
  const logLines: Record<string, unknown>[] = [];
  const destination = {
    write(lines: string) {
      for (const line of lines.trimEnd().split("\n")) logLines.push(JSON.parse(line));
    },
    flush: (done?: () => void) => done?.(),
  };
  const clock = options.clock ?? systemClock;
  const settings = testSettings(options.upstreamUrl, options.overrides);
  const log = createLog({ level: "debug", time: settings.log.time, clock, destination });
  const gateway = await startGateway(settings, {
    clock,
    log,
    destination,
    droppedLogLines: () => 0,
    version: "0.0.0-test",
    nodeVersion: process.versions.node,
    residentBytes: process.memoryUsage.rss,
    ...(options.names === undefined ? {} : { names: options.names }),
    ...(options.authenticator === undefined ? {} : { authenticator: options.authenticator }),
    ...(options.threadEntry === undefined ? {} : { threadEntry: options.threadEntry }),
    sharedReads: sharesReads,
    http2LingerMs: options.http2LingerMs ?? 250,
    rereadMs: 20,
    // Tests read them again and again, until something has happened.
    maxScrapePauseMs: 5,
    ...(options.source === undefined ? {} : { source: options.source }),
    signIn: options.signIn,
  });
  return {
    ...gateway,
    url: `http://127.0.0.1:${gateway.traffic.port}`,
    adminUrl: `http://127.0.0.1:${gateway.admin.port}`,
    extAuthUrl: gateway.extAuth === null ? "" : `http://127.0.0.1:${gateway.extAuth.port}`,
    logLines,
    close: () => gateway.drain(),
  };
}

export function testSettings(upstreamUrl: string, overrides: Overrides = {}): Settings {
  const packaged = packagedSettings();
  const base: Settings = {
    ...packaged,
    // All clients of a test have one address.
    listen: { ...packaged.listen, host: "127.0.0.1", port: 0, newConnectionsPerPeer: 1_000_000 },
    // To make room for refusals takes a millisecond for each thousand: many gateways are made in one process.
    admin: { ...packaged.admin, host: "127.0.0.1", port: 0, recent: { ...packaged.admin.recent, refusals: 1_000 } },
    drain: { delayMs: 0, timeoutMs: 2_000 },
    // Room for the clients of a test.
    counters: { memoryBytes: minTableBytes, snapshot: null, redis: null },
    // Corpora send thousands of requests that are refused.
    refusals: { perSecond: 1_000_000, burst: 1_000_000 },
  };
  // A process that stands still for the two seconds of the default must not look like an upstream that does not accept.
  const withUpstream = { ...base, upstream: { ...base.upstream, url: upstreamUrl, connectTimeoutMs: 30_000 } };
  const merged: Record<string, unknown> = { ...withUpstream };
  for (const [key, value] of Object.entries(overrides)) {
    const isSection = typeof value === "object" && !Array.isArray(value);
    merged[key] = isSection ? { ...(withUpstream[key as keyof Settings] as object), ...value } : value;
  }
  return merged as unknown as Settings;
}

let packaged: Settings | undefined;

/** Read once, because most tests start a gateway. */
function packagedSettings(): Settings {
  packaged ??= readPackagedSettings();
  return packaged;
}

function readPackagedSettings(): Settings {
  const loaded = loadSettings({ file: packagedConfigFile, env: {}, cwd: ".", overrides: [] });
  if (!loaded.ok) throw new Error("the packaged configuration is not valid");
  return loaded.settings;
}
