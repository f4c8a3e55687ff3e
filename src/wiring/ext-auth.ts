// The decision endpoints, made from the settings around the gateway's own pipeline: the same rules, counters and
// authenticator as for the traffic.
import { randomUUID } from "node:crypto";
import type { TokenList } from "../auth/token-list.ts";
import type { Authenticator } from "../core/authenticator.ts";
import { type ClientAddressRules, readPeer } from "../core/client-address.ts";
import type { Clock } from "../core/clock.ts";
import type { ResponseFields } from "../core/fields.ts";
import type { Watched } from "../core/file-group.ts";
import { coversIpv4, parseCidr } from "../core/ip-address.ts";
import type { Limiter } from "../core/limiter.ts";
import type { RequestRules } from "../core/request-head.ts";
import type { ExtAuthListenerSettings, Settings } from "../core/settings.ts";
import { createChecker } from "../ext-auth/check.ts";
import type { ExtAuthGrpc, ExtAuthGrpcOptions } from "../ext-auth/grpc/start.ts";
import { startExtAuthHttp } from "../ext-auth/http/http-listener.ts";
import { TrustedCallers } from "../ext-auth/trusted-callers.ts";
import { createDecide } from "../pipeline.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { trustedRequestId } from "../upstream/request-fields.ts";
import { openSecrets } from "./authenticators.ts";

export interface ExtAuthParts {
  readonly rules: RequestRules;
  readonly store: Limiter;
  readonly authenticator: Authenticator;
  readonly fields: ResponseFields;
  readonly telemetry: Telemetry;
  readonly clock: Clock;
  readonly log: Logger;
  readonly ListenFailed: new (listener: "ext-auth" | "grpc", address: Address, cause: unknown) => Error;
}

type Address = Pick<ExtAuthListenerSettings, "host" | "port">;

/** Every way to ask that is configured is opened, or none. */
export interface ExtAuthListeners {
  readonly http: Address | null;
  readonly grpc: Address | null;
  /** The gateway is ready: whoever asks how it is may know. */
  announceStart(): void;
  announceEnd(): void;
  drain(timeoutMs: number): Promise<void>;
}

/** Rejects with a FilesError or a ListenFailed. */
export async function openExtAuth(settings: Settings, parts: ExtAuthParts): Promise<ExtAuthListeners> {
  const { http: httpSettings, grpc: grpcSettings } = settings.extAuth;
  if (httpSettings === null && grpcSettings === null) return none;
  const { telemetry, log, ListenFailed } = parts;
  const secrets = await openSecrets(settings, log);
  const common = {
    headTimeoutMs: settings.timeouts.headMs,
    keepAliveTimeoutMs: settings.timeouts.keepAliveMs,
    denyStatus: settings.extAuth.denyStatus,
    callers: createCallers(settings, secrets, log),
    decide: createDecision(settings, parts),
    nowMs: parts.clock.monotonicMs,
    onRefused: telemetry.callRefused,
    onFailure: (error: unknown) => log.error({ err: error }, "internal error"),
  };
  const http =
    httpSettings === null
      ? null
      : await startExtAuthHttp({ ...httpSettings, ...common }).catch((error) => {
          secrets?.close();
          throw new ListenFailed("ext-auth", httpSettings, error);
        });
  const grpc =
    grpcSettings === null
      ? null
      : await openGrpc({ ...grpcSettings, ...common }).catch(async (error) => {
          await http?.drain(0);
          secrets?.close();
          throw new ListenFailed("grpc", grpcSettings, error);
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
      if (calls > 0) log.warn({ calls }, "drain timeout over, calls for decisions broken off");
      secrets?.close();
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

/** Loaded only where it is configured: nobody else pays for it. */
async function openGrpc(options: ExtAuthGrpcOptions): Promise<ExtAuthGrpc> {
  const { startExtAuthGrpc } = await import("../ext-auth/grpc/start.ts");
  return startExtAuthGrpc(options);
}

function addressOf(listener: Address | null): Address | null {
  return listener === null ? null : { host: listener.host, port: listener.port };
}

function createDecision(settings: Settings, { rules, store, authenticator, fields, telemetry, clock }: ExtAuthParts) {
  // An ingress names its peer in X-Forwarded-For and passes a client's own Forwarded on, so that one is never believed.
  const clientAddress: ClientAddressRules = { ...rules.clientAddress, header: "x-forwarded-for" };
  const pipeline = { rules: { ...rules, clientAddress }, store };
  return createChecker({
    decide: createDecide({ ...pipeline, authenticator }),
    decideWithoutToken: createDecide({ ...pipeline, authenticator: { verify: () => "skipped" } }),
    readPeer: (address) => readPeer(address, clientAddress),
    // Only ever shown in the log, so an ingress that passes a client's own on does no harm.
    requestId: ({ rawHeaders, peer }) => trustedRequestId(rawHeaders, { ...peer, isTrusted: true }) ?? randomUUID(),
    fields,
    nowMs: clock.monotonicMs,
    denyStatus: settings.extAuth.denyStatus,
    onEnd: telemetry.observe,
  });
}

const firstCallsRefused = "the first calls were all refused as untrusted: does the configuration list this caller?";

function createCallers({ extAuth }: Settings, secrets: Watched<TokenList> | null, log: Logger): TrustedCallers {
  const networks = extAuth.trustedCallers.map((text) => {
    const cidr = parseCidr(text);
    if (cidr === undefined) throw new Error("a caller is neither an address nor a network");
    if (coversIpv4(cidr)) {
      log.warn({ caller: text }, "every IPv4 address may ask for decisions, and so spend any client's quota");
    }
    return cidr;
  });
  return new TrustedCallers({
    networks,
    isSecret: secrets === null ? null : (text) => secrets.value.has(text),
    onFirstCallsRefused(caller, calls) {
      const keys = ["extAuth.trustedCallers", "extAuth.secretsFile"];
      log.warn({ keys, caller, calls }, firstCallsRefused);
    },
  });
}
