// What can be said of a request from its head alone: who sent it, where it goes, whether it is charged, and why it
// would be refused. Knows nothing of sockets or servers, so a proxy, an ingress' question and a test get the same
// answer.

import type { AuthOutcome } from "./authenticator.ts";
import { type ClientAddressRules, type Peer, readClient } from "./client-address.ts";
import { type LocalReply, localReplies } from "./local-reply.ts";
import { type MessageReading, readMessage } from "./message-check.ts";
import type { Decision } from "./policy.ts";
import type { PathReading, ReadPath } from "./request-path.ts";
import { type BasePaths, type RequestTarget, readTarget, rebase } from "./request-target.ts";

export interface RequestHead {
  readonly peer: Peer;
  /** Names and values alternating, as they came. */
  readonly rawHeaders: readonly string[];
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

export interface Verdict {
  readonly reading: ParsedRequest;
  readonly decision: Decision;
  readonly auth: AuthOutcome;
  /** Why the gateway answers itself; null if the request is to be forwarded. */
  readonly problem: LocalReply | null;
}

const nowhere: PathReading = { kind: "outside" };

export function parseRequest(facts: RequestHead, rules: RequestRules): ParsedRequest {
  const target = readTarget(facts.target, facts.method);
  // "*" speaks of the gateway itself, and behind the gateway there is nothing of that name.
  const path = target === undefined || target.path === "*" ? nowhere : rules.readPath(target.path);
  return {
    client: readClient(facts.peer, facts.rawHeaders, rules.clientAddress),
    target,
    path,
    route: path.kind === "route" || path.kind === "ambiguous" ? path.route : null,
    message: readMessage(facts),
    upstreamTarget: target === undefined ? null : rebase(target.original, rules.paths),
  };
}

/** What stands against a request before anyone asks who it is from. The quota goes first: nothing else is free. */
export function findRefusal(reading: ParsedRequest, decision: Decision, rules: RequestRules): LocalReply | null {
  if (decision.outcome === "throttled") return localReplies.throttled;
  if (reading.message.problem !== null) return reading.message.problem;
  if (reading.target === undefined) return localReplies.malformed;
  switch (reading.path.kind) {
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
  if (reading.message.endsHere) return localReplies.noRoute;
  // The base path is there, but spelled otherwise, so it cannot be taken off the original bytes.
  return reading.upstreamTarget === null ? localReplies.ambiguousPath : null;
}

/** The size comes after the token: a stranger learns nothing of the limits. */
export function findBodyRefusal(reading: ParsedRequest, rules: RequestRules): LocalReply | null {
  return (reading.message.contentLength ?? 0) > rules.maxBodyBytes ? localReplies.bodyTooLarge : null;
}
