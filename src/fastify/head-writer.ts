// Writes the head of an app's response. Of the app's headers, whether they were given with the head or set before and in
// any form that Node takes, none goes out that headgate sends itself.
import { type ServerResponse, STATUS_CODES } from "node:http";
import type { FastifyReply } from "fastify";
import { type HeaderLines, type HeaderList, linesOf } from "../core/headers.ts";
import { gatewayResponseFields } from "../core/response-fields.ts";

/** Names and values alternating, one value each. Node checks them when they are written. */
export type AppHeaders = readonly unknown[];

type WriteHead = (status: number, first?: unknown, second?: unknown) => ServerResponse;

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

  /** The values that the app gave or has set. `name`: in lower case. */
  valuesOf(name: string, given: AppHeaders): readonly string[] {
    const values = valuesIn(given, name);
    return values.length > 0 ? values : [this.#raw.getHeader(name) ?? []].flat().map(String);
  }

  /** Empty if a value cannot be sent: Node says so when it is written. */
  retryAfter(given: AppHeaders): HeaderLines {
    const values = this.valuesOf("retry-after", given);
    const isSendable = values.every((value) => /^[\t -~\x80-\xff]*$/.test(value));
    return isSendable ? linesOf(values.flatMap((value) => ["Retry-After", value])) : "";
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

/** `given`: an object, a list of names and values, or a list of pairs. */
export function appHeaders(given: unknown): AppHeaders {
  if (typeof given !== "object" || given === null) return [];
  const isFlat = Array.isArray(given) && !Array.isArray(given[0]);
  const pairs: unknown[] = isFlat ? pairsOf(given) : Array.isArray(given) ? given : Object.entries(given);
  return pairs.flatMap((pair) => {
    const [name, value] = pair as [unknown, unknown];
    return Array.isArray(value) ? value.flatMap((each) => [name, each]) : [name, value];
  });
}

function pairsOf(list: readonly unknown[]): unknown[] {
  return list.flatMap((name, i) => (i % 2 === 0 ? [[name, list[i + 1]]] : []));
}

/** The names that the app's headers may not have beside `own`, in lower case: headgate's, whether they are sent or not. */
function replacedNames(own: HeaderList): ReadonlySet<string> {
  const names = new Set(gatewayResponseFields);
  for (let i = 0; i < own.length; i += 2) names.add((own[i] ?? "").toLowerCase());
  return names;
}

function withoutNames(given: AppHeaders, names: ReadonlySet<string>): AppHeaders {
  return given.filter((_, i) => !names.has(String(given[i - (i % 2)]).toLowerCase()));
}

/** All values of a header, whose name is in lower case. */
function valuesIn(given: AppHeaders, lower: string): string[] {
  return given.flatMap((value, i) =>
    i % 2 === 1 && String(given[i - 1]).toLowerCase() === lower ? [String(value)] : [],
  );
}
