// Writes the head of an app's response. Whatever of the app's headers was given with the head or set before, in whatever
// form, headgate's take the place of those with the same names.
import { type ServerResponse, STATUS_CODES } from "node:http";
import type { FastifyReply } from "fastify";
import type { HeaderList } from "../core/header-list.ts";
import { type AppHeaders, groupByName, isList, isReplaced, replaceHeaders, valuesIn } from "./app-headers.ts";

export type WriteHead = (status: number, first?: unknown, second?: unknown) => ServerResponse;

export interface Head {
  readonly status: number;
  readonly reason: string;
  /** What the app gave. */
  readonly given: AppHeaders;
  /** headgate's, in the place of the app's. */
  readonly own: HeaderList;
  /** The connection ends behind the response. */
  readonly isLast: boolean;
}

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

  write({ status, reason, given, own, isLast }: Head): void {
    const replaced = { status, isLast };
    for (const name of this.#raw.getHeaderNames()) if (isReplaced(name, replaced)) this.#raw.removeHeader(name);
    const headers = this.#grouped(replaceHeaders(given, own, replaced));
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
    return Object.fromEntries(kept);
  }

  /** Of a list with several lines of one name, Node keeps only the last if any header was set before. */
  #grouped(headers: AppHeaders): AppHeaders {
    const wasSet = this.#raw.getHeaderNames().length > 0 || "isLightMyRequest" in this.#raw;
    return wasSet && isList(headers) ? groupByName(headers.map(String)) : headers;
  }
}
