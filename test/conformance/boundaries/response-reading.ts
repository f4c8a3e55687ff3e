// What a reader of HTTP/1.1 made of an upstream's bytes as the response to one request.

import type { Verdict } from "./reading.ts";

export interface ReadResponse {
  /** Of the final response; 0 if there is none. */
  readonly status: number;
  /** As far as it came. */
  readonly body: string;
  readonly outcome: "whole" | "waiting" | "refused";
  /** How many bytes belong to it, with interim responses, if it is whole. */
  readonly ownBytes: number;
}

export function compareResponses(ours: ReadResponse, theirs: ReadResponse): Verdict {
  if (ours.outcome === "refused") return theirs.outcome === "refused" ? "same" : "we refuse";
  if (theirs.outcome === "refused") return ours.outcome === "waiting" ? "they refuse sooner" : "they refuse";
  const isSame = ours.outcome === theirs.outcome && ours.status === theirs.status && ours.body === theirs.body;
  return isSame && (ours.outcome === "waiting" || ours.ownBytes === theirs.ownBytes) ? "same" : "different";
}
