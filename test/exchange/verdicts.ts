// What the matrices of exchanges have in common: a check of the token that ends at once or when it is told to, and
// what an upstream does with a request.
import type { Authenticator, AuthOutcome } from "../../src/core/authentication.ts";

export const whens = ["at once", "later"] as const;
export type When = (typeof whens)[number];

/** What the upstream does: answers, nothing, or begins an answer of ten bytes and stops after five. */
export const upstreams = {
  answers: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
  holds: "",
  begins: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf.",
} as const;

export interface TokenCheck {
  readonly authenticator: Authenticator;
  /** Requests whose token is being checked, or has been. */
  readonly asked: () => number;
  /** Ends the check of the token. */
  readonly decide: () => void;
}

export function createTokenCheck(when: When, outcome: () => AuthOutcome): TokenCheck {
  let asked = 0;
  const decided = Promise.withResolvers<void>();
  return {
    authenticator: {
      authenticate() {
        asked += 1;
        return when === "at once" ? outcome() : decided.promise.then(outcome);
      },
      isKnown: () => false,
      tokens: () => null,
      close: () => {},
    },
    asked: () => asked,
    decide: () => decided.resolve(),
  };
}
