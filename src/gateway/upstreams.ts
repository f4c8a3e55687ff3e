// Opens the upstream of the settings, and makes what forwards requests to it. The upstreams that a reload has replaced are
// kept until their last request or tunnel has ended.
import type { SecureContext } from "node:tls";
import type { Watched } from "../core/file-group.ts";
import type { Settings } from "../core/settings.ts";
import type {
  AddressFigures,
  AddressState,
  ConnectionFigures,
  TunnelFigures,
  UpstreamErrorReason,
} from "../core/upstream.ts";
import type { Runtime } from "../exchange/exchange.ts";
import { createUpstreamEventLog } from "../telemetry/upstream-log.ts";
import { Forwarding, type ForwardingOptions } from "../upstream/forward.ts";
import { openUpstream, type Upstream } from "../upstream/open-upstream.ts";
import { upstreamSettings } from "./configured-files.ts";
import type { ThreadContext } from "./thread-context.ts";

export async function createUpstream(
  settings: Settings,
  tlsFiles: Watched<SecureContext> | null,
  context: ThreadContext,
): Promise<Upstream> {
  const { upstream, limits } = upstreamSettings(settings);
  const { log, clock, names, telemetry, textWrites } = context;
  const options = {
    ...limits,
    ...{ names, tlsFiles, textWrites },
    nowMs: clock.monotonicMs,
    onEnd(end: Parameters<typeof telemetry.tunnelEnded>[0]) {
      if (context.settings.current.log.access) telemetry.tunnelEnded(end);
    },
    onShareExceeded: telemetry.shareExceeded,
  };
  return openUpstream(upstream, options, createUpstreamEventLog(log, clock, telemetry.linesPerSecond));
}

export function createForward(
  settings: Settings,
  { connections, tunnels }: Upstream,
  { waitingBodies, clock, telemetry }: ThreadContext,
): Runtime["forward"] {
  const options: ForwardingOptions = {
    connections,
    tunnels,
    waitingBodies,
    maxBodyBytes: settings.maxBodyBytes,
    forwardingHeader: settings.clientAddress.header,
    upstreamHost: new URL(settings.upstream.url).host,
    bodyTimeoutMs: settings.timeouts.bodyMs,
    nowMs: clock.monotonicMs,
    onError: telemetry.upstreamFailed,
    onAnswer: telemetry.upstreamAnswered,
  };
  return (exchange) => new Forwarding(exchange, options).start();
}

/** Adds up the figures of all, so that no counter goes back when an upstream is replaced. */
export class Upstreams {
  #current: Upstream;
  #retired: readonly Upstream[] = [];
  /** Of the upstreams that are closed. */
  #closed: Totals = { ejections: 0, failovers: new Map(), failedLookups: 0 };

  constructor(first: Upstream) {
    this.#current = first;
  }

  /** The old upstream gets no new requests, closes its idle connections, and serves the requests that it has. */
  replace(next: Upstream): void {
    if (next === this.#current) return;
    this.#current.retire();
    this.#retired = [...this.#retired, this.#current];
    this.#current = next;
    this.#closeUnused();
  }

  stopChecking(): void {
    this.#current.stopChecking();
  }

  connections(): ConnectionFigures {
    this.#closeUnused();
    return this.#all
      .map(({ connections }) => connections.figures())
      .reduce((a, b) => ({ active: a.active + b.active, idle: a.idle + b.idle, waiting: a.waiting + b.waiting }));
  }

  tunnels(): TunnelFigures {
    return this.#all
      .map(({ tunnels }) => tunnels.figures())
      .reduce((a, b) => ({ opening: a.opening + b.opening, open: a.open + b.open }));
  }

  addresses(): AddressFigures {
    const totals = [this.#closed, ...this.#all.map((upstream) => upstream.addresses())].reduce(sum);
    return { ...this.#current.addresses(), ...totals };
  }

  /** Of the upstream in use. */
  addressStates(): AddressState[] {
    return this.#current.addressStates();
  }

  /** Closes all connections, those with a request too. */
  close(): void {
    for (const upstream of this.#all) upstream.close();
  }

  get #all(): readonly Upstream[] {
    return [this.#current, ...this.#retired];
  }

  #closeUnused(): void {
    const unused = this.#retired.filter((upstream) => upstream.isUnused());
    if (unused.length === 0) return;
    this.#closed = [this.#closed, ...unused.map((upstream) => upstream.addresses())].reduce(sum);
    this.#retired = this.#retired.filter((upstream) => !unused.includes(upstream));
    for (const upstream of unused) upstream.close();
  }
}

type Totals = Pick<AddressFigures, "ejections" | "failovers" | "failedLookups">;

function sum(a: Totals, b: Totals): Totals {
  const reasons = new Set<UpstreamErrorReason>([...a.failovers.keys(), ...b.failovers.keys()]);
  return {
    ejections: a.ejections + b.ejections,
    failovers: new Map(
      [...reasons].map((reason) => [reason, (a.failovers.get(reason) ?? 0) + (b.failovers.get(reason) ?? 0)]),
    ),
    failedLookups: a.failedLookups + b.failedLookups,
  };
}
