// Opens the listeners for checks of an ingress.
import type { Clock } from "../core/clock.ts";
import type { HostPort } from "../core/host-port.ts";
import type { Settings } from "../core/settings.ts";
import type { Replaceable } from "../core/traffic-settings.ts";
import type { RuntimeRef } from "../exchange/exchange.ts";
import type { SharedReads } from "../exchange/shared-reads.ts";
import type { TextWrites } from "../exchange/text-writes.ts";
import { Checks } from "../ext-auth/check.ts";
import type { CheckSettings } from "../ext-auth/check-settings.ts";
import type { ExtAuthGrpc, ExtAuthGrpcOptions } from "../ext-auth/grpc/start.ts";
import type { ExtAuthHttp, ExtAuthHttpOptions } from "../ext-auth/http/http-listener.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { ListenError } from "./listen-error.ts";

/** All configured listeners are open. */
export interface ExtAuthListeners {
  readonly http: HostPort | null;
  readonly grpc: HostPort | null;
  /** Makes the health check of gRPC report that the gateway is ready. */
  announceStart(): void;
  announceEnd(): void;
  /** Resolves with the number of calls that were broken off. */
  drain(timeoutMs: number): Promise<number>;
}

/** What a reload replaces. */
export interface CheckRefs {
  readonly runtime: RuntimeRef;
  readonly quotaRuntime: RuntimeRef;
  readonly settings: Replaceable<CheckSettings>;
}

export interface ExtAuthParts {
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly log: Logger;
  /** Whether other threads open the same ports. */
  readonly isShared: boolean;
  /** Null: connections are read as streams. */
  readonly reads: SharedReads | null;
  readonly textWrites: TextWrites;
}

/** `refs` is null if the settings have no listener for checks. Rejects with a ListenError, with all listeners closed. */
export async function openExtAuth(
  { extAuth }: Pick<Settings, "extAuth">,
  refs: CheckRefs | null,
  { clock, telemetry, log, isShared, reads, textWrites }: ExtAuthParts,
): Promise<ExtAuthListeners> {
  const { http: httpSettings, grpc: grpcSettings } = extAuth;
  if (refs === null) return none;
  const common = {
    isShared,
    reads,
    textWrites,
    settings: refs.settings,
    checks: new Checks(refs),
    nowMs: clock.monotonicMs,
    onRefused: telemetry.checkRefused,
    onHttp2Closed: telemetry.http2Closed,
    onHttp2Reset: telemetry.metrics.http2Reset,
    onFailure: (error: unknown) => log.error({ err: error }, "internal error"),
  };
  const http =
    httpSettings === null
      ? null
      : await openHttp({ ...httpSettings, ...common }).catch((error) => {
          throw new ListenError("ext-auth", httpSettings, error);
        });
  const grpc =
    grpcSettings === null
      ? null
      : await openGrpc({ ...grpcSettings, ...common }).catch(async (error) => {
          await http?.drain(0);
          throw new ListenError("grpc", grpcSettings, error);
        });
  return {
    http: addressOf(http),
    grpc: addressOf(grpc),
    announceStart: () => grpc?.setServing(true),
    announceEnd() {
      http?.announceEnd();
      grpc?.setServing(false);
    },
    async drain(timeoutMs) {
      const [calls = 0] = await Promise.all([grpc?.drain(timeoutMs), http?.drain(timeoutMs)]);
      refs.runtime.waiting.abortAll();
      refs.quotaRuntime.waiting.abortAll();
      return calls;
    },
  };
}

const none: ExtAuthListeners = {
  http: null,
  grpc: null,
  announceStart: () => {},
  announceEnd: () => {},
  drain: async () => 0,
};

// Imported only if they are configured, because a start without them is faster.

async function openHttp(options: ExtAuthHttpOptions): Promise<ExtAuthHttp> {
  const { startExtAuthHttp } = await import("../ext-auth/http/http-listener.ts");
  return startExtAuthHttp(options);
}

async function openGrpc(options: ExtAuthGrpcOptions): Promise<ExtAuthGrpc> {
  const { startExtAuthGrpc } = await import("../ext-auth/grpc/start.ts");
  return startExtAuthGrpc(options);
}

function addressOf(listener: HostPort | null): HostPort | null {
  return listener === null ? null : { host: listener.host, port: listener.port };
}
