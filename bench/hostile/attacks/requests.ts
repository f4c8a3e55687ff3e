// Requests as bytes, from which most attacks are built.
import { text } from "../attack.ts";

/** Fields that an ordinary request has. */
export const usual = "Host: api.test\r\nAuthorization: Bearer attacker\r\n";

/** `more`: further fields, each with its line end. */
export function requestHead(method: string, target: string, more = ""): Buffer {
  return text(`${method} ${target} HTTP/1.1\r\n${usual}${more}\r\n`);
}

export const get = (target = "/v1/ok", more = ""): Buffer => requestHead("GET", target, more);

export const chunkedPost = (target = "/v1/ok", more = ""): Buffer =>
  requestHead("POST", target, `Transfer-Encoding: chunked\r\n${more}`);

/** As many fields as fit, each with another name. */
export function fieldLines(count: number, value = "x"): string {
  return Array.from({ length: count }, (_, i) => `x${i.toString(36)}: ${value}\r\n`).join("");
}

/** A piece that is the same `count` times. */
export function repeated(unit: string | Buffer, count: number): Buffer {
  return Buffer.concat(Array.from({ length: count }, () => (typeof unit === "string" ? text(unit) : unit)));
}

/** A limit so high that the quota does not stop the attack. */
export const unlimited = { policies: [{ name: "bench", limit: 1_000_000, window: "1s" }] };
