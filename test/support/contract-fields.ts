// What sections 4 and 7 of the contract say of every response, as one check over the bytes that came.
import { expect } from "vitest";
import type { ErrorFormat } from "../../src/core/local-reply.ts";
import { valuesOf } from "./raw-client.ts";
import type { FramedResponse } from "./raw-connection.ts";

export const sixFields = [
  "RateLimit-Limit",
  "RateLimit-Remaining",
  "RateLimit-Reset",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
] as const;

export interface ExpectedQuota {
  readonly limit: number;
  readonly remaining: number;
}

/**
 * Each of the six and Date once, in the contract's spelling (in lower case, where HTTP/2 wants it), with the gateway's
 * values; nothing structured. `sentMs`: when it was sent; default: what Date says, which is the gateway's clock too.
 */
export function expectContractFields(
  response: Pick<FramedResponse, "rawHeaders">,
  quota: ExpectedQuota,
  spelling: (name: string) => string = (name) => name,
  sentMs = Date.parse(valuesOf(response.rawHeaders, "Date")[0] ?? ""),
): void {
  const { rawHeaders } = response;
  const names = rawHeaders.filter((_, i) => i % 2 === 0);
  for (const name of [...sixFields, "Date"]) {
    expect(names.filter((other) => other.toLowerCase() === name.toLowerCase())).toEqual([spelling(name)]);
  }
  for (const prefix of ["RateLimit", "X-RateLimit"]) {
    expect(valuesOf(rawHeaders, `${prefix}-Limit`)).toEqual([`${quota.limit}`]);
    expect(valuesOf(rawHeaders, `${prefix}-Remaining`)).toEqual([`${quota.remaining}`]);
  }
  const [reset = ""] = valuesOf(rawHeaders, "RateLimit-Reset");
  expect(reset).toMatch(/^\d{10}$/);
  expect(valuesOf(rawHeaders, "X-RateLimit-Reset")).toEqual([reset]);
  const untilReset = Number(reset) - sentMs / 1000;
  // Both are rounded, the reset up and the date down.
  expect(untilReset).toBeGreaterThan(0);
  expect(untilReset).toBeLessThanOrEqual(61);
  expect(valuesOf(rawHeaders, "RateLimit")).toEqual([]);
  expect(valuesOf(rawHeaders, "RateLimit-Policy")).toEqual([]);
}

/**
 * For a response with the Date of an ingress or a backend, which may be behind the gateway's clock. The gateway rounds the
 * time up, by at most two milliseconds.
 */
export function sentByNow(): number {
  return Date.now() + 2;
}

/** Body and Content-Type of an error in each format. */
export function errorContent(format: ErrorFormat, status: number, message: string, errMsg: string): [string, string] {
  switch (format) {
    case "v2":
      return [JSON.stringify({ message, errors: [{ errMsg }] }), "application/json; charset=utf-8"];
    case "problem":
      return [
        JSON.stringify({ type: "about:blank", title: message, status, detail: errMsg }),
        "application/problem+json",
      ];
    case "plain":
      return [`${errMsg}\n`, "text/plain; charset=utf-8"];
  }
}

/** A whole answer of the gateway's own: body to the byte, and nothing in it of what is behind the gateway. */
export function expectOwnAnswer(
  response: FramedResponse,
  message: string,
  errMsg: string,
  method = "GET",
  format: ErrorFormat = "v2",
): void {
  const { status, reason, rawHeaders } = response;
  const [body, type] = errorContent(format, status, message, errMsg);
  expect(reason).toBe(message);
  expect(response.body).toBe(method === "HEAD" ? "" : body);
  expect(valuesOf(rawHeaders, "Content-Type")).toEqual([type]);
  expect(valuesOf(rawHeaders, "Cache-Control")).toEqual(["no-store"]);
  expect(valuesOf(rawHeaders, "Content-Length")).toEqual([`${body.length}`]);
  expect(valuesOf(rawHeaders, "Retry-After")).toHaveLength(status === 429 ? 1 : 0);
  expect(valuesOf(rawHeaders, "WWW-Authenticate")).toHaveLength(status === 401 ? 1 : 0);
  const everything = `${rawHeaders.join("\n")}\n${body}`;
  expect(everything).not.toMatch(/127\.0\.0\.1|::1|\/[a-z]+\/[a-z]+\.ts|\bat .*:\d+|E[A-Z]{6,}|secret-token/);
}
