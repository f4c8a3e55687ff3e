// Reads from a RateLimitRequest which request of which client is asked about. Anything else (another domain, several
// descriptors, an unknown entry, more than one hit) is refused with a message; nothing is admitted or charged by guessing.
import type { RateLimitRequest } from "./rate-limit-messages.ts";
import { type GrpcStatus, grpcCodes } from "./status.ts";

export interface RateLimitQuestion {
  readonly peerAddress: string;
  readonly target: string;
  readonly method: string;
}

const domain = "headgate";

export function readQuestion(request: RateLimitRequest): RateLimitQuestion | GrpcStatus {
  const [descriptor, another] = request.descriptors;
  if (request.domain !== domain) return invalid(`the domain has to be "${domain}"`);
  if (descriptor === undefined || another !== undefined) return invalid("exactly one descriptor is expected");
  // A caller that sets nothing sends 0.
  if (request.hitsAddend > 1 || descriptor.hasHits)
    return unsupported("a call is always one hit: hits_addend cannot change that");
  if (descriptor.hasOverride) return unsupported("a descriptor cannot carry its own limit");
  const entries = new Map<string, string>();
  for (const { key, value } of descriptor.entries) {
    if (!known.has(key) || entries.has(key))
      return invalid(`an entry "${key.slice(0, 64)}" is unknown or given twice: ${expected}`);
    entries.set(key, value);
  }
  const address = entries.get("remote_address");
  const target = entries.get("path");
  if (address === undefined || target === undefined) return invalid(`an entry is missing: ${expected}`);
  return { peerAddress: address, target, method: entries.get("method") ?? "GET" };
}

const known: ReadonlySet<string> = new Set(["remote_address", "path", "method"]);
const expected = "a descriptor has remote_address, path and optionally method";

const invalid = (message: string): GrpcStatus => ({ code: grpcCodes.invalidArgument, message });
const unsupported = (message: string): GrpcStatus => ({ code: grpcCodes.unimplemented, message });
