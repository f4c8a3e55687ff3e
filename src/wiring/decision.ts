// The decision endpoints, made from the settings around the gateway's own pipeline: the same rules, counters and
// verifier as for the traffic.
import { randomUUID } from "node:crypto";
import { type ClientAddressRules, readPeer } from "../core/client-address.ts";
import type { Clock } from "../core/clock.ts";
import type { CounterStore } from "../core/counter-store.ts";
import type { RequestRules } from "../core/decide.ts";
import type { ResponseFields } from "../core/fields.ts";
import { coversIpv4, parseCidr } from "../core/ip-address.ts";
import type { Settings } from "../core/settings.ts";
import type { Verifier } from "../core/verifier.ts";
import { Callers } from "../decision/callers.ts";
import { createDecideCall } from "../decision/decide-call.ts";
import { type DecisionListener, startDecisionListener } from "../decision/http-listener.ts";
import { createDecide } from "../pipeline.ts";
import { trustedRequestId } from "../proxy/request-fields.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { openSecrets } from "./verifiers.ts";

export interface DecisionParts {
  readonly rules: RequestRules;
  readonly store: CounterStore;
  readonly verifier: Verifier;
  readonly fields: ResponseFields;
  readonly telemetry: Telemetry;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Every way to ask is opened, or none. */
export interface DecisionListeners {
  readonly http: { readonly host: string; readonly port: number } | null;
  announceEnd(): void;
  drain(timeoutMs: number): Promise<void>;
}

/** Rejects with a TokenFileProblem, or with the system's error when the address cannot be had. */
export async function openDecision(settings: Settings, parts: DecisionParts): Promise<DecisionListeners> {
  const { http } = settings.decision;
  if (http === null) return { http: null, announceEnd: () => {}, drain: async () => {} };
  const { telemetry, log } = parts;
  const secrets = await openSecrets(settings, log);
  const callers = createCallers(settings, secrets, log);
  const listener = await startDecisionListener({
    ...http,
    headTimeoutMs: settings.timeouts.headMs,
    keepAliveTimeoutMs: settings.timeouts.keepAliveMs,
    denyStatus: settings.decision.denyStatus,
    callers,
    decide: createDecision(settings, parts),
    onRefused: telemetry.callRefused,
    onFailure: (error) => log.error({ err: error }, "internal error"),
  }).catch((error) => {
    secrets?.close();
    throw error;
  });
  return {
    http: { host: listener.host, port: listener.port },
    announceEnd: () => listener.announceEnd(),
    drain: (timeoutMs) => drain(listener, secrets, timeoutMs),
  };
}

async function drain(listener: DecisionListener, secrets: Verifier | null, timeoutMs: number): Promise<void> {
  await listener.drain(timeoutMs);
  secrets?.close();
}

function createDecision(settings: Settings, { rules, store, verifier, fields, telemetry, clock }: DecisionParts) {
  // An ingress names its peer in X-Forwarded-For and passes a client's own Forwarded on, so that one is never believed.
  const clientAddress: ClientAddressRules = { ...rules.clientAddress, header: "x-forwarded-for" };
  const pipeline = { rules: { ...rules, clientAddress }, store };
  return createDecideCall({
    decide: createDecide({ ...pipeline, verifier }),
    decideWithoutToken: createDecide({ ...pipeline, verifier: { verify: () => "skipped" } }),
    readPeer: (address) => readPeer(address, clientAddress),
    // Only ever shown in the log, so an ingress that passes a client's own on does no harm.
    requestId: ({ rawFields, peer }) => trustedRequestId(rawFields, { ...peer, isTrusted: true }) ?? randomUUID(),
    fields,
    nowMs: clock.monotonicMs,
    denyStatus: settings.decision.denyStatus,
    onEnd: telemetry.observe,
  });
}

function createCallers({ decision }: Settings, secrets: Verifier | null, log: Logger): Callers {
  const networks = decision.callers.map((text) => {
    const cidr = parseCidr(text);
    if (cidr === undefined) throw new Error("a caller is neither an address nor a network");
    if (coversIpv4(cidr)) {
      log.warn({ caller: text }, "every IPv4 address may ask for decisions, and so spend any client's quota");
    }
    return cidr;
  });
  // A file is at hand; a verifier that has to be waited for would know nobody.
  const isSecret = (text: string): boolean => secrets?.verify({ kind: "token", token: text }) === "accepted";
  return new Callers({ networks, isSecret: secrets === null ? null : isSecret });
}
