// Says why a store did not do what it was asked: the kind by which the limiter decides, and a line for the log that
// contains neither a password nor a key of a client.
import type { CallFailure, CallFailureKind } from "../core/shared-store.ts";

/** What a promise within this folder rejects with. */
export class StoreError extends Error {
  readonly failure: CallFailure;

  constructor(failure: CallFailure) {
    super(failure.detail);
    this.failure = failure;
  }
}

export function unreachable(detail: string): CallFailure {
  return { kind: "unreachable", detail };
}

const kinds: Readonly<Record<string, CallFailureKind>> = {
  WRONGPASS: "refused",
  NOAUTH: "refused",
  NOPERM: "refused",
  DENIED: "refused",
  OOM: "full",
  READONLY: "unready",
  LOADING: "unready",
  MASTERDOWN: "unready",
  CLUSTERDOWN: "unready",
  TRYAGAIN: "unready",
  NOREPLICAS: "unready",
  MOVED: "unready",
  ASK: "unready",
};

/** The message of an error reply begins with its code. */
export function errorReplyFailure(message: string): CallFailure {
  return { kind: kindOf(message), detail: oneLine(message) };
}

function kindOf(message: string): CallFailureKind {
  const [, code = ""] = /^([A-Z]+)/.exec(message) ?? [];
  const kind = kinds[code];
  if (kind !== undefined) return kind;
  // Redis 6 reports what a command within a script was answered as "ERR Error running script (…): -OOM command …".
  const [, inner = ""] = /[ :]-([A-Z]+) /.exec(message) ?? [];
  if (kinds[inner] !== undefined) return kinds[inner];
  // A command within a script that the user may not use: Redis 6 and 7.0, then later ones and Valkey.
  if (/^ERR (?:The user executing the script can't|ACL failure in script)/.test(message)) return "refused";
  if (/^ERR (?:invalid password|AUTH |Client sent AUTH)/.test(message)) return "refused";
  return message.startsWith("ERR max number of clients") ? "unready" : "failed";
}

const maxDetail = 200;

/** An unknown command is reported with its arguments, and some errors name the key. */
function oneLine(message: string): string {
  return message
    .replace(/, with args beginning with.*$/s, "")
    .replace(/\S*\{[^}]*\}\S*/g, "(key)")
    .replace(/[^\x20-\x7e]+/g, " ")
    .slice(0, maxDetail)
    .trimEnd();
}
