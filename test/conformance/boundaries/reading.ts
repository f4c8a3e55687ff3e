// What a reader of HTTP/1.1 made of the bytes of a connection, and whether two of them saw the same messages.

export interface ReadRequest {
  readonly target: string;
  /** As far as it came; null if the reader does not tell. */
  readonly body: string | null;
  /** Null if the reader does not tell. */
  readonly isWhole: boolean | null;
}

export interface Reading {
  readonly requests: readonly ReadRequest[];
  /** Behind the requests. `waiting`: for more bytes. `ended`: nothing more is read, as the last request asked. */
  readonly ending: "waiting" | "refused" | "ended";
}

/** `we refuse`, `they refuse`: up to there, they are the same. `they refuse sooner`: what we have not read to its end. */
export type Verdict = "same" | "we refuse" | "they refuse" | "they refuse sooner" | "different";

export function compare(ours: Reading, theirs: Reading): Verdict {
  const both = Math.min(ours.requests.length, theirs.requests.length);
  for (let i = 0; i < both; i += 1) {
    const [own, other] = [ours.requests[i], theirs.requests[i]];
    if (own === undefined || other === undefined || !isSame(own, other)) return "different";
    // One that is not whole is the last one of its reader.
    if (other.isWhole !== null && own.isWhole !== other.isWhole) return stops(own, ours, theirs);
  }
  if (ours.requests.length > both) {
    // Of that message we have told the head, and not more.
    const isBegun = ours.requests.length === both + 1 && !ours.requests[both]?.isWhole;
    if (isBegun && (ours.ending === theirs.ending || ours.ending === "refused")) return "same";
    return theirs.ending === "waiting" ? "different" : "they refuse";
  }
  if (theirs.requests.length > both) return ours.ending === "waiting" ? "different" : "we refuse";
  if (ours.ending === theirs.ending) return "same";
  return ours.ending === "waiting" ? "they refuse sooner" : "we refuse";
}

/** The readers disagree about whether a body is whole: whoever has not read it to its end must have refused it. */
function stops(own: ReadRequest, ours: Reading, theirs: Reading): Verdict {
  if (own.isWhole) return theirs.ending === "waiting" ? "different" : "they refuse";
  return ours.ending === "waiting" ? "different" : "we refuse";
}

function isSame(own: ReadRequest, other: ReadRequest): boolean {
  if (own.target !== other.target) return false;
  if (own.body === null || other.body === null) return true;
  if (own.isWhole && other.isWhole) return own.body === other.body;
  return own.body.startsWith(other.body) || other.body.startsWith(own.body);
}
