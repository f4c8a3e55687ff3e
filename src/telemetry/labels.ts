// The closed sets of label values. What a client can choose is mapped into one of them, so the number of series is fixed at
// the start. The records make the compiler fail when a union in core gains a member.

import type { AuthOutcome } from "../core/authenticator.ts";
import type { CheckRefusal } from "../core/check-refusal.ts";
import type { ConnectionShedReason } from "../core/connection-bounds.ts";
import type { RefusalReason } from "../core/local-reply.ts";
import type { Outcome } from "../core/policy.ts";
import type { ProxyHeaderRefusal } from "../core/proxy-header.ts";
import type { TlsFailure } from "../core/tls.ts";
import type { UpstreamErrorReason, UpstreamHealth } from "../core/upstream.ts";

/** The label of requests under no configured route. */
export const noRoute = "none";

export const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"] as const;

/** Indexed by the first digit of the status. `none`: the client left before there was a status. */
const classes = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"] as const;
export type StatusClass = (typeof classes)[number];
export const statusClasses: readonly StatusClass[] = classes;

/** A status of 600 and above counts as 5xx (RFC 9110, section 15). */
export function statusClass(status: number): StatusClass {
  return classes[Math.floor(status / 100)] ?? "5xx";
}

export const outcomes = keysOf<Outcome>({ admitted: 0, throttled: 0, observed: 0 });

export const authOutcomes = keysOf<AuthOutcome>({ accepted: 0, missing: 0, invalid: 0, skipped: 0 });

export const proxyHeaderRefusals = keysOf<ProxyHeaderRefusal>({ invalid: 0, incomplete: 0, timeout: 0 });

export const connectionShedReasons = keysOf<ConnectionShedReason>({ total: 0, per_peer: 0, idle: 0 });

export const tlsFailures = keysOf<TlsFailure>({
  timeout: 0,
  not_tls: 0,
  incompatible: 0,
  client_certificate: 0,
  refused: 0,
  closed: 0,
  other: 0,
});

export const callOutcomes = keysOf<"admitted" | "denied" | CheckRefusal>({
  admitted: 0,
  denied: 0,
  untrusted: 0,
  malformed: 0,
  overloaded: 0,
});

export const upstreamStates = keysOf<UpstreamHealth["state"]>({ unknown: 0, up: 0, down: 0 });

export const upstreamErrorReasons = keysOf<UpstreamErrorReason>({
  refused: 0,
  unreachable: 0,
  connect_timeout: 0,
  certificate: 0,
  tls: 0,
  reset: 0,
  closed_early: 0,
  malformed: 0,
  head_too_large: 0,
  response_timeout: 0,
  body_timeout: 0,
  overloaded: 0,
  other: 0,
});

export const refusalReasons = keysOf<RefusalReason>({
  malformed: 0,
  ambiguous_path: 0,
  bad_host: 0,
  bad_field_name: 0,
  no_token: 0,
  invalid_token: 0,
  no_route: 0,
  slow_request: 0,
  body_too_large: 0,
  target_too_long: 0,
  head_too_large: 0,
  unsupported_expect: 0,
  unsupported_encoding: 0,
  unsupported_method: 0,
  throttled: 0,
  upstream_failed: 0,
  upstream_timeout: 0,
  overloaded: 0,
  internal: 0,
});

function keysOf<K extends string>(members: Record<K, 0>): readonly K[] {
  return Object.keys(members) as K[];
}
