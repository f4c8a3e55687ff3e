// Parses a request head: the client, the route, whether the request is charged, and why it is refused. Independent of
// sockets and servers, so all transports get the same result.
import type { AuthDemand, AuthMode, AuthOutcome, Identity } from "./authentication.ts";
import { brokenRule } from "./broken-rule.ts";
import { type ClientAddressRules, type Peer, readClient } from "./client-address.ts";
import { CounterKey } from "./counter-key.ts";
import type { FieldNames } from "./field-names.ts";
import { type HeaderLines, type HeaderList, headerValues, type KeptText } from "./headers.ts";
import type { IpAddress } from "./ip-address.ts";
import { type LocalReply, localReplies, malformedBy, serverOptions } from "./local-reply.ts";
import {
  type BasePaths,
  hasBlankAround,
  type MessageHead,
  type MessageReading,
  type RequestLines,
  type RequestTarget,
  readMessage,
  readRequestId,
  readTarget,
  rebase,
} from "./message-check.ts";
import type { Decision } from "./policy.ts";
import type { PathReader, PathReading } from "./request-path.ts";
import type { AllowedOrigins } from "./response-fields.ts";
import type { Rule } from "./rules.ts";

export interface RequestHead extends MessageHead {
  readonly peer: Peer;
  /** Set by connections that use a head again if the same bytes come again. */
  readonly memory?: HeadMemory | null;
}

/** Returns the bytes of a head as HTTP/1 sends it with one blank after each colon; 0 if no request could be parsed. */
export function headTextBytes({ method, target, rawHeaders }: MessageHead): number {
  if (method === "") return 0;
  let bytes = method.length + target.length + "  HTTP/1.1\r\n\r\n".length;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    bytes += (rawHeaders[i] ?? "").length + (rawHeaders[i + 1] ?? "").length + ": \r\n".length;
  }
  return bytes;
}

/** What was read from headers. Requests with the same method, version, peer and headers share it. */
export class HeadersMemory {
  message: MessageReading | null = null;
  /** With which it was read. */
  messageFor: FieldNames | null = null;
  /** The headers for the upstream up to the value of X-Request-Id; null: not made yet. */
  upstreamLines: HeaderLines | null = null;
  /** The options with which they were made. */
  upstreamLinesFor: object | null = null;
}

interface LoggedRequest {
  readonly route: string | null;
  readonly client: string;
  readonly requestId: string | null;
  readonly text: string;
}

/** The head for the upstream up to the value of X-Request-Id, as made from `parsed` with these options. */
interface UpstreamStart {
  readonly parsed: ParsedRequest;
  readonly options: object;
  readonly text: KeptText;
}

/** What was read from a head. Requests with the same peer and the same bytes share it. */
export class HeadMemory {
  readonly headers: HeadersMemory;
  /** The piece of the access log's line about the request, for what the line says of the route and the client. */
  logged: LoggedRequest | null = null;
  upstream: UpstreamStart | null = null;
  /** The head was parsed for an earlier request: the client that it names is counted again. */
  isReadAgain = false;
  #parsed: ParsedRequest | null = null;
  #rules: RequestRules | null = null;

  constructor(headers: HeadersMemory) {
    this.headers = headers;
  }

  /** Returns what was parsed under these rules; null if nothing was. */
  parsedUnder(rules: RequestRules): ParsedRequest | null {
    return rules === this.#rules ? this.#parsed : null;
  }

  remember(parsed: ParsedRequest, rules: RequestRules): void {
    if (this.isReadAgain) return;
    this.#parsed = parsed;
    this.#rules = rules;
  }
}

export interface RequestRules {
  readonly clientAddress: ClientAddressRules;
  readonly fieldNames: FieldNames;
  readonly pathReader: PathReader;
  /** What happens to requests outside of all routes. `leave`: the gateway does not handle them. */
  readonly unmatched: "reject" | "proxy" | "leave";
  readonly maxBodyBytes: number;
  readonly maxTargetBytes: number;
  /** Null: every request needs its token. */
  readonly cors: AllowedOrigins | null;
  readonly paths: BasePaths;
  /** Null: nowhere. */
  readonly quota: QuotaPath | null;
  readonly readiness: ReadinessPath | null;
  /** A peer names a client which is not charged: because it may be a proxy and is not trusted, or (null) cannot be read. */
  readonly onIgnored: (peer: Peer, client: IpAddress | null) => void;
}

/** Where a load balancer is told whether to send requests: the exact path, whatever the base path is. */
export interface ReadinessPath {
  readonly path: string;
  readonly reply: { readonly current: LocalReply };
}

/** Where callers are told what they have left. */
export interface QuotaPath {
  /** With the base path. No other spelling of it is this path. */
  readonly path: string;
  /** What is asked of a token that is given. Without one, the answer is about the address alone. */
  readonly mode: AuthMode;
  readonly routes: readonly string[];
  /** Whether other gateways share the counters: what they have admitted last is not known here. */
  readonly areCountersShared: boolean;
}

export interface ParsedRequest extends ChargedRequest {
  readonly path: PathReading;
  /** The route of the path, or of one reading of an ambiguous path. A request with a route is charged. */
  readonly route: string | null;
  /** The target for the upstream: path and query unchanged, except for the base path; null if it cannot be replaced. */
  readonly upstreamTarget: string | null;
}

/** Returns what is asked of the token of a request under a route. */
export type DemandReader = (request: ParsedRequest, head: RequestHead) => AuthDemand;

export interface Verdict {
  readonly parsed: ParsedRequest;
  readonly decision: Decision;
  readonly auth: AuthOutcome;
  /** Whom its token stands for; null if that was not verified. */
  readonly identity: Identity | null;
  /** Null: the request is forwarded. */
  readonly localReply: LocalReply | null;
  /** Only if the request is blocked: by which rule. */
  readonly blockedBy?: Rule;
}

const outside: PathReading = { kind: "outside" };

/** Makes the verdict on bytes that are not a request, or after a failure. `decision`: the quota to show, if it is known. */
export function unchargedVerdict(
  { peer, rawHeaders }: RequestHead,
  decision: Decision | null,
  localReply: LocalReply = localReplies.internal,
): Verdict {
  const requestId = readRequestId(headerValues(rawHeaders, "x-request-id"));
  const message = { ...pendingVerdict.parsed.message, requestId };
  const parsed = { ...pendingVerdict.parsed, client: peer.key, counterKey: peer.counterKey, message };
  return { parsed, decision: decision ?? pendingVerdict.decision, auth: "skipped", identity: null, localReply };
}

const noKey = new CounterKey(0, 0, 0, 0, true);

/** The verdict of an exchange until it is decided. */
export const pendingVerdict: Verdict = {
  parsed: {
    client: "",
    counterKey: noKey,
    target: undefined,
    path: outside,
    route: null,
    message: {
      unparsable: null,
      problem: localReplies.malformed,
      host: "",
      contentLength: null,
      expectsContinue: false,
      asksToUpgrade: false,
      isLastHop: false,
      logsInConnection: false,
      requestId: null,
    },
    upstreamTarget: null,
  },
  decision: {
    outcome: "observed",
    policy: {
      name: "",
      rate: { kind: "sliding", windowMs: 0 },
      limit: 0,
      cost: 1,
      key: [],
      match: { paths: [], methods: [] },
      who: null,
      chargeStatuses: null,
      mode: "enforce",
      exempt: [],
      overrides: [],
    },
    key: noKey,
    client: noKey,
    limit: 0,
    remaining: 0,
    resetMs: Number.NEGATIVE_INFINITY,
    held: null,
    lasting: null,
    others: null,
  },
  auth: "skipped",
  identity: null,
  localReply: null,
};

/** What is read of every request, because it costs little. */
interface ChargedRequest {
  /** The address or network to charge, as a text. */
  readonly client: string;
  /** The same as a key for counters; that of the peer if the client is the peer. */
  readonly counterKey: CounterKey;
  readonly target: RequestTarget | undefined;
  readonly message: MessageReading;
}

export interface RequestOrigin extends ChargedRequest {
  /** Undefined for a path in an unusual spelling, which costs more to read. */
  readonly plainPath: PathReading | undefined;
}

export function readOrigin(head: RequestHead, rules: RequestRules): RequestOrigin {
  const { maxTargetBytes } = rules;
  const isTooLong = head.target.length > maxTargetBytes;
  // The rest of a target that is refused is not read: reading a path costs more than receiving it.
  const target = readTarget(isTooLong ? head.target.slice(0, maxTargetBytes) : head.target, head.method);
  // Requests with other targets share what was read from the headers.
  const message = messageOf(head, rules.fieldNames);
  const { client, isUnread, ignored } = readClient(head.peer, head.rawHeaders, rules.clientAddress);
  if (isUnread || ignored !== null) {
    rules.onIgnored(head.peer, ignored);
    if (head.memory) head.memory.isReadAgain = true;
  }
  return {
    client: client.key,
    counterKey: client.counterKey,
    target,
    // "*" is about the server as a whole; the gateway answers it.
    plainPath: target === undefined || target.path === "*" ? outside : rules.pathReader.readPlain(target.path),
    message: isTooLong && message.problem === null ? { ...message, problem: localReplies.targetTooLong } : message,
  };
}

export function parseRequest(origin: RequestOrigin, rules: RequestRules): ParsedRequest {
  const { client, counterKey, target, message } = origin;
  const path = origin.plainPath ?? (target === undefined ? outside : rules.pathReader.read(target.path));
  return {
    client,
    counterKey,
    target,
    path,
    route: path.kind === "route" || path.kind === "ambiguous" ? path.route : null,
    message,
    upstreamTarget: target === undefined ? null : rebase(target.original, rules.paths),
  };
}

function messageOf(head: RequestHead, names: FieldNames): MessageReading {
  const headers = head.memory?.headers;
  if (headers === undefined) return readMessage(head, names);
  if (headers.message === null || headers.messageFor !== names) {
    headers.message = readMessage(head, names);
    headers.messageFor = names;
  }
  return headers.message;
}

/** Parses a request that is refused whatever its path is, without reading the path. */
export function parseWithoutPath(origin: RequestOrigin): ParsedRequest {
  const { client, counterKey, target, message } = origin;
  return { client, counterKey, target, path: outside, route: null, message, upstreamTarget: null };
}

/** Returns the refusal of the limiter. */
export function findQuotaRefusal({ outcome }: Decision): LocalReply | null {
  if (outcome === "throttled") return localReplies.throttled;
  return outcome === "unavailable" ? localReplies.storeUnavailable : null;
}

/** Returns the refusal that needs no token. The quota is checked first, so that no refusal is free of charge. */
export function findRefusal(parsed: ParsedRequest, decision: Decision, rules: RequestRules): LocalReply | null {
  const refusal = findQuotaRefusal(decision);
  if (refusal !== null) return refusal;
  if (parsed.message.problem !== null) return parsed.message.problem;
  if (parsed.target === undefined) return malformedBy(brokenRule("a target of another form", 1));
  if (parsed.target.path === "*") return serverOptions;
  switch (parsed.path.kind) {
    case "ambiguous":
      return localReplies.ambiguousPath;
    case "outside":
      return localReplies.noRoute;
    case "unmatched":
      if (rules.unmatched === "reject") return localReplies.noRoute;
      break;
    case "route":
      break;
  }
  // The gateway itself serves no path.
  if (parsed.message.isLastHop) return localReplies.noRoute;
  // The base path is there in another spelling, so it cannot be replaced in the original bytes.
  return parsed.upstreamTarget === null ? localReplies.ambiguousPath : null;
}

/** Checked after the token, so that a client without one does not learn the limit. */
export function findBodyRefusal(parsed: ParsedRequest, rules: RequestRules): LocalReply | null {
  return (parsed.message.contentLength ?? 0) > rules.maxBodyBytes ? localReplies.bodyTooLarge : null;
}

/**
 * Converts the head of an HTTP/2 request to the form of HTTP/1.1: pseudo-headers become the request line and Host, and
 * cookie headers are joined (RFC 9113, 8.2.3), without empty ones. Repairs nothing: a contradiction is kept, and
 * core/message-check.ts refuses it. Pseudo-headers must come first (RFC 9113, 8.3). `path` replaces the one in the head.
 */
export function readHttp2Head(rawHead: HeaderList, path?: string): RequestLines {
  let method = "";
  let target = "";
  let scheme = "";
  let authority: string | null = null;
  const rawHeaders: string[] = [];
  let cookieAt = -1;
  for (let i = 0; i < rawHead.length; i += 2) {
    const name = rawHead[i] ?? "";
    const value = rawHead[i + 1] ?? "";
    if (name === ":method") method = value;
    else if (name === ":path") target = path ?? value;
    else if (name === ":authority") {
      authority = value;
      rawHeaders.push("host", value);
    } else if (name === ":scheme") scheme = value;
    else if (name.startsWith(":")) continue;
    // A Host that repeats the authority is dropped; with another one there are two, which is refused.
    else if (name === "host" && authority !== null && isSameHost(value, authority, scheme)) authority = null;
    else if (name !== "cookie" || hasBlankAround(value)) rawHeaders.push(name, value);
    else if (cookieAt === -1) {
      cookieAt = rawHeaders.length + 1;
      rawHeaders.push(name, value);
    } else if (value !== "") {
      const before = rawHeaders[cookieAt] ?? "";
      rawHeaders[cookieAt] = before === "" ? value : `${before}; ${value}`;
    }
  }
  // Another scheme makes the target one of the absolute form, which is refused as it is over HTTP/1.1.
  const isHttp = scheme === "" || /^https?$/i.test(scheme);
  return { method, target: isHttp ? target : `${scheme}:${target}`, rawHeaders };
}

/** Case and the scheme's own port make no difference (RFC 9113, 8.3.1; RFC 3986, 6.2). The upstream gets the authority. */
function isSameHost(host: string, authority: string, scheme: string): boolean {
  const port = scheme.toLowerCase() === "http" ? /:80$/ : /:443$/;
  return host.toLowerCase().replace(port, "") === authority.toLowerCase().replace(port, "");
}
