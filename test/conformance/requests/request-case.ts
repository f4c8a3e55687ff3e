// One request as bytes, the section that speaks of it, and what must become of it: refused with nothing forwarded,
// broken off, or forwarded as exactly these lines.

export interface Forwarded {
  /** The request line that the upstream sees. */
  readonly line: string;
  readonly host: string;
  /** The client's lines that the upstream sees, in order; what the gateway adds is known. */
  readonly lines: readonly string[];
  readonly body: string;
}

export type Expected =
  | { readonly kind: "refused"; readonly status: number; readonly closes: boolean }
  /** The head was sound: the upstream may see a beginning, never a whole request. */
  | { readonly kind: "broken"; readonly status: number }
  | { readonly kind: "forwarded"; readonly requests: readonly Forwarded[]; readonly closes: boolean };

export interface RequestCase {
  /** RFC and section, or what else asks for it. */
  readonly section: string;
  readonly name: string;
  readonly bytes: string;
  readonly expected: Expected;
  /** The client has no quota left. */
  readonly isExhausted?: true;
  /** What it may be answered as well when it does not come at once. */
  readonly statusInPieces?: number;
}

export const token = "Authorization: Bearer t";

/** A request with Host and token; `fields` are whole lines. */
export function message(fields = "", line = "GET /v2/x HTTP/1.1", body = ""): string {
  return `${line}\r\nHost: a\r\n${token}\r\n${fields}\r\n${body}`;
}

export const post = (fields = "", body = ""): string => message(fields, "POST /v2/x HTTP/1.1", body);
export const chunked = (bytes: string, fields = ""): string => post(`Transfer-Encoding: chunked\r\n${fields}`, bytes);

/** Answered by the gateway, which then ends the connection and reads nothing behind the message. */
export const refused = (section: string, name: string, status: number, bytes: string): RequestCase => ({
  section,
  name,
  bytes,
  expected: { kind: "refused", status, closes: true },
});

export const malformed = (section: string, name: string, bytes: string): RequestCase =>
  refused(section, name, 400, bytes);

/** Answered by the gateway; the connection goes on with the next request. */
export const declined = (section: string, name: string, status: number, bytes: string): RequestCase => ({
  section,
  name,
  bytes,
  expected: { kind: "refused", status, closes: false },
});

export const throttled = (section: string, name: string, bytes: string, closes: boolean): RequestCase => ({
  section,
  name,
  bytes,
  expected: { kind: "refused", status: 429, closes },
  isExhausted: true,
});

export const broken = (section: string, name: string, status: number, bytes: string): RequestCase => ({
  section,
  name,
  bytes,
  expected: { kind: "broken", status },
});

export function forwarded(
  section: string,
  name: string,
  bytes: string,
  seen: Partial<Forwarded> & { closes?: boolean } = {},
): RequestCase {
  const { closes = false, ...request } = seen;
  const [line = ""] = bytes.split("\r\n");
  const requests = [{ line, host: "a", lines: [token], body: "", ...request }];
  return { section, name, bytes, expected: { kind: "forwarded", requests, closes } };
}

/** Fields that arrive as they were sent. */
export const kept = (section: string, name: string, ...lines: string[]): RequestCase =>
  forwarded(section, name, message(lines.map((line) => `${line}\r\n`).join("")), { lines: [token, ...lines] });

/** Fields that do not arrive. */
export const dropped = (section: string, name: string, ...lines: string[]): RequestCase =>
  forwarded(section, name, message(lines.map((line) => `${line}\r\n`).join("")));
