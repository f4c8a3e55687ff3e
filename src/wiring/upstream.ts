// Opens the upstream of the settings, and makes what forwards requests to it.
import type { SecureContext } from "node:tls";
import type { ClientBytes } from "../core/client-share.ts";
import type { Clock } from "../core/clock.ts";
import type { Watched } from "../core/file-group.ts";
import type { Settings } from "../core/settings.ts";
import { upstreamTargets } from "../core/upstream.ts";
import type { Runtime } from "../exchange/exchange.ts";
import { createFileLog } from "../telemetry/file-log.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { createUpstreamEventLog } from "../telemetry/upstream-events.ts";
import { Forwarding } from "../upstream/forward.ts";
import type { ForwardingOptions } from "../upstream/forwarding-options.ts";
import { type NameOptions, namesBySystem } from "../upstream/name-lookup.ts";
import { openUpstream, type Upstream, type UpstreamOptions } from "../upstream/upstream.ts";
import type { FilesAndLog } from "./authenticators.ts";

export interface UpstreamParts extends Pick<UpstreamOptions, "onEnd" | "onShareExceeded" | "textWrites"> {
  readonly clock: Clock;
  readonly log: Logger;
  readonly names: NameOptions | undefined;
  /** Of each kind of event. */
  readonly linesPerSecond: number;
}

/** The settings of the upstream: a reload that changes none of them keeps it. */
export function upstreamSettings({ upstream, upgrade }: Settings) {
  const { maxTunnels, idleTimeoutMs } = upgrade;
  return { upstream, limits: { maxTunnels, idleTimeoutMs } };
}

/** Null: the upstream's URL is plain http. Rejects with a FilesError. */
export async function openUpstreamTls(
  { upstream }: Pick<Settings, "upstream">,
  { files, log }: FilesAndLog,
): Promise<Watched<SecureContext> | null> {
  if (!upstreamTargets(upstream).isTls) return null;
  const { clientTlsFiles } = await import("../config/tls-files.ts");
  return files.open(
    clientTlsFiles("upstream.tls", upstream.tls),
    createFileLog<SecureContext>(log, "files of upstream.tls"),
  );
}

export async function createUpstream(
  settings: Settings,
  tlsFiles: Watched<SecureContext> | null,
  parts: UpstreamParts,
): Promise<Upstream> {
  const { upstream, limits } = upstreamSettings(settings);
  const { log, clock, names = namesBySystem, onEnd, onShareExceeded, textWrites } = parts;
  const options = { ...limits, nowMs: clock.monotonicMs, names, tlsFiles, onEnd, onShareExceeded, textWrites };
  return openUpstream(upstream, options, createUpstreamEventLog(log, clock, parts.linesPerSecond));
}

export function createForward(
  settings: Settings,
  { connections, tunnels }: Upstream,
  parts: { readonly waitingBodies: ClientBytes; readonly clock: Clock; readonly telemetry: Telemetry },
): Runtime["forward"] {
  const options: ForwardingOptions = {
    connections,
    tunnels,
    waitingBodies: parts.waitingBodies,
    maxBodyBytes: settings.maxBodyBytes,
    forwardingHeader: settings.clientAddress.header,
    upstreamHost: new URL(settings.upstream.url).host,
    bodyTimeoutMs: settings.timeouts.bodyMs,
    nowMs: parts.clock.monotonicMs,
    onError: parts.telemetry.upstreamFailed,
    onAnswer: parts.telemetry.upstreamAnswered,
  };
  return (exchange) => new Forwarding(exchange, options).start();
}
