// Opens the listeners for checks of an ingress, with the same rules, counters and authenticator as the traffic.
import type { TokenList } from "../auth/token-list.ts";
import { readPeer } from "../core/client-address.ts";
import type { Watched } from "../core/file-group.ts";
import type { HostPort } from "../core/host-port.ts";
import type { Settings } from "../core/settings.ts";
import { Checks } from "../ext-auth/check.ts";
import type { ExtAuthGrpc, ExtAuthGrpcOptions } from "../ext-auth/grpc/start.ts";
import { startExtAuthHttp } from "../ext-auth/http/http-listener.ts";
import { TrustedCallers } from "../ext-auth/trusted-callers.ts";
import type { Logger } from "../telemetry/log.ts";
import { openSecrets } from "./authenticators.ts";
import { ListenError } from "./listen-error.ts";
import { parseNetworks } from "./networks.ts";
import { type CheckRuntimes, createCheckRuntimes, type RuntimeParts } from "./runtime.ts";

/** All configured listeners are open. */
export interface ExtAuthListeners {
  readonly http: HostPort | null;
  readonly grpc: HostPort | null;
  /** Logs the listeners, and makes the health check of gRPC report that the gateway is ready. */
  announceStart(): void;
  announceEnd(): void;
  drain(timeoutMs: number): Promise<void>;
}

/**
 * Rejects with a FilesError or a ListenError, with all listeners closed. Adds to `open` what is closed after the drain.
 */
export async function openExtAuth(
  settings: Settings,
  parts: RuntimeParts,
  open: AsyncDisposableStack,
): Promise<ExtAuthListeners> {
  const { http: httpSettings, grpc: grpcSettings } = settings.extAuth;
  if (httpSettings === null && grpcSettings === null) return none;
  const { telemetry, log } = parts;
  const secrets = await openSecrets(settings, log);
  open.defer(() => secrets?.close());
  const runtimes = createCheckRuntimes(parts);
  const common = {
    headTimeoutMs: settings.timeouts.headMs,
    keepAliveTimeoutMs: settings.timeouts.keepAliveMs,
    callers: createCallers(settings, secrets, log),
    peerKey: (address: string | undefined) => readPeer(address, runtimes.clientAddress).key,
    checks: createChecks(settings, parts, runtimes),
    nowMs: parts.clock.monotonicMs,
    onRefused: telemetry.checkRefused,
    onHttp2Closed: telemetry.http2Closed,
    onFailure: (error: unknown) => log.error({ err: error }, "internal error"),
  };
  const http =
    httpSettings === null
      ? null
      : await startExtAuthHttp({ ...httpSettings, ...common }).catch((error) => {
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
    announceStart() {
      if (http !== null) log.info({ listener: "ext-auth", ...addressOf(http) }, "listening");
      if (grpc !== null) log.info({ listener: "grpc", ...addressOf(grpc) }, "listening");
      grpc?.setServing(true);
    },
    announceEnd() {
      http?.announceEnd();
      grpc?.setServing(false);
    },
    async drain(timeoutMs) {
      const [calls = 0] = await Promise.all([grpc?.drain(timeoutMs), http?.drain(timeoutMs)]);
      runtimes.runtime.abortWaiting();
      runtimes.quotaRuntime.abortWaiting();
      if (calls > 0) log.warn({ calls }, "drain timeout over, ext-auth checks broken off");
    },
  };
}

const none: ExtAuthListeners = {
  http: null,
  grpc: null,
  announceStart: () => {},
  announceEnd: () => {},
  drain: async () => {},
};

/** Imports gRPC only if it is configured, because a start without it is faster. */
async function openGrpc(options: ExtAuthGrpcOptions): Promise<ExtAuthGrpc> {
  const { startExtAuthGrpc } = await import("../ext-auth/grpc/start.ts");
  return startExtAuthGrpc(options);
}

function addressOf(listener: HostPort | null): HostPort | null {
  return listener === null ? null : { host: listener.host, port: listener.port };
}

function createChecks(settings: Settings, { clock }: RuntimeParts, runtimes: CheckRuntimes): Checks {
  return new Checks({
    ...runtimes,
    readPeer: (address) => readPeer(address, runtimes.clientAddress),
    nowMs: clock.monotonicMs,
    denyStatus: settings.extAuth.denyStatus,
  });
}

function createCallers({ extAuth }: Settings, secrets: Watched<TokenList> | null, log: Logger): TrustedCallers {
  const networks = parseNetworks(extAuth.trustedCallers, (caller) => {
    log.warn(
      { caller },
      "extAuth.trustedCallers contains every IPv4 address, so anyone can spend the quota of any client",
    );
  });
  return new TrustedCallers({
    networks,
    isSecret: secrets === null ? null : (text) => secrets.value.has(text),
    onFirstCallsRefused(caller, calls) {
      const keys = ["extAuth.trustedCallers", "extAuth.secretsFile"];
      log.warn(
        { keys, caller, calls },
        "every ext-auth call so far was refused: extAuth.trustedCallers and extAuth.secretsFile do not allow this caller",
      );
    },
  });
}
