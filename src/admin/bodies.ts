// The bodies of the admin listener are JSON, in requests and in answers; only metrics and events are other text.
import type { IncomingHttpHeaders } from "node:http";

export const jsonType = "application/json; charset=utf-8";

export function isJson(contentType: string | undefined): boolean {
  return /^application\/json *(?:; *charset *= *"?utf-8"? *)?$/i.test(contentType ?? "");
}

/** Whether the head announces a body. */
export function hasBody(headers: IncomingHttpHeaders): boolean {
  return (headers["content-length"] ?? "0") !== "0" || headers["transfer-encoding"] !== undefined;
}

/** Of a call of the API. */
export const maxBodyBytes = 64 * 1024;
