// What sections 4 and 7 of the contract say of every response, as one check over the bytes that came.
import { expect } from "vitest";
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
 * values; nothing structured.
 */
export function expectContractFields(
  response: Pick<FramedResponse, "rawFields">,
  quota: ExpectedQuota,
  spelling: (name: string) => string = (name) => name,
): void {
  const { rawFields } = response;
  const names = rawFields.filter((_, i) => i % 2 === 0);
  for (const name of [...sixFields, "Date"]) {
    expect(names.filter((other) => other.toLowerCase() === name.toLowerCase())).toEqual([spelling(name)]);
  }
  for (const prefix of ["RateLimit", "X-RateLimit"]) {
    expect(valuesOf(rawFields, `${prefix}-Limit`)).toEqual([`${quota.limit}`]);
    expect(valuesOf(rawFields, `${prefix}-Remaining`)).toEqual([`${quota.remaining}`]);
  }
  const [reset = ""] = valuesOf(rawFields, "RateLimit-Reset");
  expect(reset).toMatch(/^\d{10}$/);
  expect(valuesOf(rawFields, "X-RateLimit-Reset")).toEqual([reset]);
  const dateMs = Date.parse(valuesOf(rawFields, "Date")[0] ?? "");
  const untilReset = Number(reset) - dateMs / 1000;
  // Both are rounded, the reset up and the date down.
  expect(untilReset).toBeGreaterThan(0);
  expect(untilReset).toBeLessThanOrEqual(61);
  expect(valuesOf(rawFields, "RateLimit")).toEqual([]);
  expect(valuesOf(rawFields, "RateLimit-Policy")).toEqual([]);
}

/** A whole answer of the gateway's own: body to the byte, and nothing in it of what is behind the gateway. */
export function expectOwnAnswer(response: FramedResponse, message: string, errMsg: string, method = "GET"): void {
  const { status, reason, rawFields } = response;
  const body = JSON.stringify({ message, errors: [{ errMsg }] });
  expect(reason).toBe(message);
  expect(response.body).toBe(method === "HEAD" ? "" : body);
  expect(valuesOf(rawFields, "Content-Type")).toEqual(["application/json; charset=utf-8"]);
  expect(valuesOf(rawFields, "Cache-Control")).toEqual(["no-store"]);
  expect(valuesOf(rawFields, "Content-Length")).toEqual([`${body.length}`]);
  expect(valuesOf(rawFields, "Retry-After")).toHaveLength(status === 429 ? 1 : 0);
  expect(valuesOf(rawFields, "WWW-Authenticate")).toHaveLength(status === 401 ? 1 : 0);
  const everything = `${rawFields.join("\n")}\n${body}`;
  expect(everything).not.toMatch(/127\.0\.0\.1|::1|\/[a-z]+\/[a-z]+\.ts|\bat .*:\d+|E[A-Z]{6,}|secret-token/);
}
