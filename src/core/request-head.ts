// What can be said of a request from its head alone: who sent it, where it goes, whether it is charged, and why it
// would be refused. Knows nothing of sockets or servers, so a proxy, an ingress' question and a test get the same
// answer.
import type { AuthOutcome } from "./authenticator.ts";
import { type ClientAddressRules, type Peer, readClient } from "./client-address.ts";
import type { HeaderList } from "./header-list.ts";
import { type LocalReply, localReplies, serverOptions } from "./local-reply.ts";
import { type MessageReading, readMessage } from "./message-check.ts";
import type { Decision } from "./policy.ts";
import type { PathReading, ReadPath } from "./request-path.ts";
import { type BasePaths, type RequestTarget, readTarget, rebase } from "./request-target.ts";

export interface RequestHead {
  readonly peer: Peer;
  readonly rawHeaders: HeaderList;
  readonly method: string;
  readonly target: string;
  /** "1.0", "1.1", or "2"; "2.0" is what a text of HTTP/1 can call itself. */
  readonly httpVersion: string;
  /** Of HTTP/2, whose framing stands outside of the fields: no body follows. */
  readonly endsWithHead?: boolean;
  /** The one monotonic reading of this request. */
  readonly nowMs: number;
}

export interface RequestRules {
  readonly clientAddress: ClientAddressRules;
  readonly readPath: ReadPath;
  readonly unmatched: "reject" | "proxy";
  readonly maxBodyBytes: number;
  readonly paths: BasePaths;
}

export interface ParsedRequest {
  readonly client: string;
  readonly target: RequestTarget | undefined;
  readonly path: PathReading;
  /** The route it is under or may be under: whatever has one is charged. */
  readonly route: string | null;
  readonly message: MessageReading;
  /** What is sent to the upstream: path and query as they came, one base path in place of the other. */
  readonly upstreamTarget: string | null;
}

/** What becomes of a request. */
export interface Verdict {
  readonly parsed: ParsedRequest;
  readonly decision: Decision;
  readonly auth: AuthOutcome;
  /** What the gateway answers itself; null if the request is to be forwarded. */
  readonly localReply: LocalReply | null;
}

const nowhere: PathReading = { kind: "outside" };

/**
 * The verdict on bytes that are no request, or on a request that could not be decided: nothing is charged. `decision`:
 * the quota to show; null if it is not known.
 */
export function unchargedVerdict(
  peer: Peer,
  decision: Decision | null,
  localReply: LocalReply = localReplies.internal,
): Verdict {
  const parsed = { ...pendingVerdict.parsed, client: peer.key };
  return { parsed, decision: decision ?? pendingVerdict.decision, auth: "skipped", localReply };
}

/** What stands for a verdict until there is one. */
export const pendingVerdict: Verdict = {
  parsed: {
    client: "",
    target: undefined,
    path: nowhere,
    route: null,
    message: {
      problem: localReplies.malformed,
      flaw: localReplies.malformed,
      host: "",
      contentLength: null,
      expectsContinue: false,
      asksToLeave: false,
      endsHere: false,
    },
    upstreamTarget: null,
  },
  decision: {
    outcome: "observed",
    policy: { name: "", limit: 0, windowMs: 0, maxClients: 0 },
    remaining: 0,
    resetMs: Number.NEGATIVE_INFINITY,
  },
  auth: "skipped",
  localReply: null,
};
export function parseRequest(head: RequestHead, rules: RequestRules): ParsedRequest {
  const target = readTarget(head.target, head.method);
  // "*" is about the gateway itself, which answers it.
  const path = target === undefined || target.path === "*" ? nowhere : rules.readPath(target.path);
  return {
    client: readClient(head.peer, head.rawHeaders, rules.clientAddress),
    target,
    path,
    route: path.kind === "route" || path.kind === "ambiguous" ? path.route : null,
    message: readMessage(head),
    upstreamTarget: target === undefined ? null : rebase(target.original, rules.paths),
  };
}

/** What stands against a request before anyone asks who it is from. The quota goes first: nothing else is free. */
export function findRefusal(parsed: ParsedRequest, decision: Decision, rules: RequestRules): LocalReply | null {
  if (decision.outcome === "throttled") return localReplies.throttled;
  if (parsed.message.problem !== null) return parsed.message.problem;
  if (parsed.target === undefined) return localReplies.malformed;
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
  // The gateway itself has nothing at any path.
  if (parsed.message.endsHere) return localReplies.noRoute;
  // The base path is there, but spelled otherwise, so it cannot be taken off the original bytes.
  return parsed.upstreamTarget === null ? localReplies.ambiguousPath : null;
}

/** The size comes after the token: a stranger learns nothing of the limits. */
export function findBodyRefusal(parsed: ParsedRequest, rules: RequestRules): LocalReply | null {
  return (parsed.message.contentLength ?? 0) > rules.maxBodyBytes ? localReplies.bodyTooLarge : null;
}
