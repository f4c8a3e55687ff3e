// Writes the head of an app's response. Of the app's headers, whether they were given with the head or set before and in
// whatever form, none goes out that headgate sends itself.
import { type ServerResponse, STATUS_CODES } from "node:http";
import type { FastifyReply } from "fastify";
import type { HeaderList } from "../core/headers.ts";
import { type AppHeaders, appHeaders, replacedNames, valuesIn, withoutNames } from "./app-headers.ts";

export type WriteHead = (status: number, first?: unknown, second?: unknown) => ServerResponse;

export class HeadWriter {
  readonly #raw: ServerResponse;
  readonly #isHttp2: boolean;
  /** What was there before: Node's, or that of another plugin. */
  readonly #writeHead: WriteHead;

  constructor(raw: ServerResponse, isHttp2: boolean) {
    this.#raw = raw;
    this.#isHttp2 = isHttp2;
    this.#writeHead = raw.writeHead as WriteHead;
  }

  /** `given`: the app's headers. `own`: what goes out in the place of those of the same names. */
  write(status: number, reason: string, given: AppHeaders, own: HeaderList): void {
    const replaced = replacedNames(own);
    for (const name of this.#raw.getHeaderNames()) if (replaced.has(name)) this.#raw.removeHeader(name);
    const headers = [...withoutNames(given, replaced), ...own];
    if (this.#isHttp2) this.#writeHead.call(this.#raw, status, headers);
    else this.#writeHead.call(this.#raw, status, reason, headers);
  }

  /** Writes what the app gave, as it is. */
  pass(status: number, first: unknown, second: unknown): void {
    this.#writeHead.call(this.#raw, status, first, second);
  }

  reasonOf(status: number): string {
    // HTTP/2 has none, and Node warns of whoever asks.
    const given = this.#isHttp2 ? "" : this.#raw.statusMessage;
    return given || STATUS_CODES[status] || "unknown";
  }

  retryAfter(given: AppHeaders): HeaderList {
    const values = valuesIn(given, "retry-after");
    const set = this.#raw.getHeader("retry-after");
    return values.length > 0 || set === undefined ? values : [set].flat().map(String);
  }

  /**
   * Keeps the app from answering as well. Of what its hooks have set so far, returns only what lets a browser read a
   * refusal: the rest may speak of another response.
   */
  takeOver(reply: FastifyReply): AppHeaders {
    const kept = Object.entries(reply.getHeaders()).filter(([name]) => /^(?:access-control-.*|vary)$/.test(name));
    reply.hijack();
    for (const name of this.#raw.getHeaderNames()) this.#raw.removeHeader(name);
    return appHeaders(kept);
  }
}
