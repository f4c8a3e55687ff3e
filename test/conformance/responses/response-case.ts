// One response as the bytes of an upstream, the section that speaks of it, and what the client must get: the response,
// a 502, or a connection that visibly breaks.

export interface Passed {
  readonly status: number;
  /** The upstream's lines that the client sees, in order; what the gateway adds is known. */
  readonly lines: readonly string[];
  readonly body: string;
  /** Interim responses before it. */
  readonly interim: readonly { readonly status: number; readonly lines: readonly string[] }[];
}

export type Expected =
  | ({ readonly kind: "passed" } & Passed)
  | { readonly kind: "failed" }
  /** The head was sound: it may have gone out, and then the body must not end as if it were whole. */
  | { readonly kind: "broken"; readonly status: number };

export interface ResponseCase {
  readonly section: string;
  readonly name: string;
  readonly method: string;
  readonly bytes: string;
  /** The upstream closes behind the bytes. */
  readonly closes: boolean;
  readonly expected: Expected;
  /** In pieces it is another response. */
  readonly isWhole?: true;
}

interface Way {
  readonly method?: string;
  readonly closes?: boolean;
}

/** A response of these bytes, with its length. */
export function response(body: string, fields = "", statusLine = "HTTP/1.1 200 OK"): string {
  return `${statusLine}\r\nContent-Length: ${body.length}\r\n${fields}\r\n${body}`;
}

export const chunked = (bytes: string, fields = ""): string =>
  `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n${fields}\r\n${bytes}`;

const caseOf = (section: string, name: string, bytes: string, expected: Expected, way: Way): ResponseCase => ({
  section,
  name,
  method: way.method ?? "GET",
  bytes,
  closes: way.closes ?? false,
  expected,
});

export function passed(section: string, name: string, bytes: string, seen: Partial<Passed> & Way = {}): ResponseCase {
  const { status = 200, lines = [], body = "", interim = [], ...way } = seen;
  return caseOf(section, name, bytes, { kind: "passed", status, lines, body, interim }, way);
}

/** A 502, and the upstream's connection is not used again. */
export const failed = (section: string, name: string, bytes: string, way: Way = {}): ResponseCase =>
  caseOf(section, name, bytes, { kind: "failed" }, way);

export const broken = (section: string, name: string, bytes: string, way: Way = {}): ResponseCase =>
  caseOf(section, name, bytes, { kind: "broken", status: 200 }, way);
