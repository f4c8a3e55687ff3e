// Why connections, streams, tunnels and checks are refused or closed: the reasons that the metrics and the log name.

/**
 * Of connections over a bound. `idle`: a connection without a request was closed for a new one. `total`, `per_peer`: a new one was refused unread.
 * `rate`: a new one was closed unread, because its peer opened too many in a short time.
 * `admin`: a connection to the admin listener was closed for a new one.
 */
export const connectionShedReasons = ["total", "per_peer", "rate", "idle", "admin"] as const;

export type ConnectionShedReason = (typeof connectionShedReasons)[number];

/** Of connections without a valid PROXY header. */
export const proxyHeaderRefusals = ["invalid", "incomplete", "timeout"] as const;

export type ProxyHeaderRefusal = (typeof proxyHeaderRefusals)[number];

/** Of handshakes of TLS that failed. */
export const tlsFailures = [
  "timeout",
  "not_tls", // the client sent something else, mostly plain HTTP
  "incompatible", // no version, cipher or protocol in common
  "client_certificate", // none, or none of an authority in clientCa
  "refused", // by the client with an alert, mostly because it does not trust the certificate
  "closed", // by the client before the end of the handshake, perhaps without a byte
  "other",
] as const;

export type TlsFailure = (typeof tlsFailures)[number];

/**
 * Of HTTP/2 connections that cost too much. `head_too_large`: a decoded header block would be far larger than a head may
 * be. `malformed`: it is not valid HPACK. `frames`: too many frames that carry nothing. `resets`: too many streams were
 * reset.
 */
export const http2CloseReasons = ["head_too_large", "malformed", "frames", "resets"] as const;
export type Http2CloseReason = (typeof http2CloseReasons)[number];

/**
 * Of HTTP/2 streams. `per_peer`, `total`: too many are open, and a new one was refused. `unread`: the response could not be
 * sent, because the client did not read it. `malformed`: the request breaks a rule of HTTP/2, and has no line in the log.
 */
export const http2ResetReasons = ["per_peer", "total", "unread", "malformed"] as const;
export type Http2ResetReason = (typeof http2ResetReasons)[number];

/**
 * Of checks that got no decision. `untrusted`: the caller is not a trusted one. `malformed`: the check cannot be parsed, or
 * lacks what a decision needs. `overloaded`: the connection exceeded its bound.
 */
export const checkRefusals = ["untrusted", "malformed", "overloaded"] as const;

export type CheckRefusal = (typeof checkRefusals)[number];

export type TunnelEndReason =
  | "client_closed" // the client ended its direction first
  | "client_broken" // the client's connection broke
  | "upstream_closed"
  | "upstream_broken"
  | "idle" // the idle timeout expired
  | "token_ended" // the end of its token has come
  | "over_share" // its client had the most tunnels, and a client without one needed it
  | "drain"; // the gateway is stopping

export interface TunnelOutcome {
  readonly reason: TunnelEndReason;
  readonly durationMs: number;
  /** Bytes that the client sent. */
  readonly clientBytes: number;
  readonly upstreamBytes: number;
}

export interface TunnelEnd extends TunnelOutcome {
  /** The X-Request-Id of the Upgrade request. */
  readonly id: string;
}
