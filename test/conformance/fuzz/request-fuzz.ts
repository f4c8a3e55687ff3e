// Mutated requests through a gateway to a real server. Three readers have to agree: what a strict reader finds in the
// client's bytes, what the gateway believes it forwarded, and what the server's log says it saw.
import { eventually } from "../../support/eventually.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { readAnswers } from "./answers.ts";
import type { Backend, RealServer, SeenRequest } from "./backends/backend.ts";
import { Believed, type BelievedRequest } from "./believed.ts";
import { converse } from "./one-connection.ts";
import { type RequestCase, requestCase } from "./request-cases.ts";
import { valuesIn } from "./strict-message.ts";
import { readStrictRequests, type StrictRequest } from "./strict-requests.ts";

export interface RequestFigures {
  cases: number;
  /** Heads that the gateway sent upstream. */
  forwarded: number;
  /** Requests that the server could not read, of those. */
  refusedByServer: number;
  /** Of those the server saw nothing: broken off by the client, or in the middle of the body. */
  unseen: number;
  readonly statuses: Record<number, number>;
}

/** All of them at once would find no connection free. */
const lanes = 96;
const hangMs = 5_000;

export class RequestFuzz {
  readonly #server: RealServer;
  readonly #backend: Backend;
  readonly #gateway: TestGateway;
  readonly #believed: Believed;
  /** How often each id was seen. */
  readonly #seen = new Map<string, number>();
  /** Ids that came back to a client. */
  readonly #answered = new Set<string>();
  /** By port. */
  readonly #refused = new Map<number, number>();
  #ofCase = new Map<string, RequestCase>();
  readonly figures: RequestFigures = { cases: 0, forwarded: 0, refusedByServer: 0, unseen: 0, statuses: {} };

  private constructor(server: RealServer, backend: Backend, gateway: TestGateway) {
    this.#server = server;
    this.#backend = backend;
    this.#gateway = gateway;
    this.#believed = new Believed();
  }

  static async start(server: RealServer): Promise<RequestFuzz> {
    const backend = await server.start();
    const gateway = await startTestGateway({
      upstreamUrl: backend.url,
      overrides: {
        policies: [slidingPolicy({ limit: 1_000_000, windowMs: 1_000 })],
        // The ids by which it finds requests again are those of the gateway.
        requestId: { keep: "trusted" },
        upstream: { maxConnections: 64, connectTimeoutMs: 4_000, responseTimeoutMs: 4_000, bodyTimeoutMs: 4_000 },
        timeouts: { headMs: 1_000, bodyMs: 1_000, keepAliveMs: 1_000 },
        drain: { delayMs: 0, timeoutMs: 0 },
        log: { access: false },
      },
    });
    return new RequestFuzz(server, backend, gateway);
  }

  /** Returns what was wrong. */
  async runBatch(seeds: readonly number[]): Promise<string[]> {
    const cases = seeds.map(requestCase);
    this.#ofCase = new Map(cases.map((row, i) => [addressOf(i), row]));
    const believedBefore = this.#believed.requests.size;
    const flaws: string[] = [];
    const waiting = [...cases.entries()];
    const work = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const [i, row] = next;
        flaws.push(...(await this.#runCase(row, addressOf(i))).map((flaw) => this.#report(flaw, row)));
      }
    };
    await Promise.all(Array.from({ length: lanes }, work));
    this.figures.cases += cases.length;
    flaws.push(...this.#compareWithClients([...this.#believed.requests.values()].slice(believedBefore)));
    await this.#settle(flaws);
    return flaws;
  }

  /** Ends the server, so that its log is whole, and compares the rest. Returns what was wrong. */
  async finish(): Promise<string[]> {
    await this.#gateway.close();
    await this.#backend.stop();
    const flaws = this.#readLog();
    const unseen = new Map<number, number>();
    for (const { id, port } of this.#believed.requests.values()) {
      if (this.#seen.has(id)) continue;
      if (this.#answered.has(id)) flaws.push(`${this.#server.name} answered ${id} and did not log it`);
      unseen.set(port, (unseen.get(port) ?? 0) + 1);
      this.figures.unseen += 1;
    }
    for (const [port, refused] of this.#refused) {
      this.figures.refusedByServer += refused;
      const sent = unseen.get(port) ?? 0;
      if (refused > sent)
        flaws.push(`${this.#server.name} refused ${refused} requests on port ${port}, ${sent} were sent`);
    }
    this.figures.forwarded = this.#believed.requests.size;
    return flaws;
  }

  async close(): Promise<void> {
    this.#believed.close();
    // A killed parent would leave its workers behind.
    await this.#backend.stop();
    await this.#backend.remove();
  }

  async #runCase(row: RequestCase, localAddress: string): Promise<string[]> {
    const { port } = this.#gateway.traffic;
    const { received, hangs } = await converse({ ...row, port, localAddress, deadlineMs: hangMs });
    if (hangs) return [`no end within ${hangMs} ms, received ${JSON.stringify(received.slice(0, 300))}`];
    const { final, flaws } = readAnswers(received, row.bytes.includes("HEAD"));
    const all = [...flaws];
    if (final.length > readStrictRequests(row.bytes).length + 1) all.push(`${final.length} answers`);
    let place = -1;
    for (const { status, fields, isWhole } of final) {
      this.figures.statuses[status] = (this.figures.statuses[status] ?? 0) + 1;
      if (!isWhole) all.push("half an answer");
      if (status === 500) all.push("an internal error");
      const [id] = valuesIn(fields, "x-seen");
      if (id === undefined || id === "") continue;
      if (this.#answered.has(id)) all.push(`got the answer ${id} that someone had before`);
      this.#answered.add(id);
      const [, marker, number] =
        /\?m=([0-9a-f]{12})-([0-3])i? HTTP/.exec(this.#believed.requests.get(id)?.line ?? "") ?? [];
      if (marker !== undefined && this.#isOther(marker, row)) all.push(`got the answer of ${marker}`);
      if (marker === row.marker && Number(number) < place) all.push(`answer ${number} behind ${place}`);
      if (marker === row.marker) place = Number(number);
    }
    return all;
  }

  #isOther(marker: string, row: RequestCase): boolean {
    return marker !== row.marker && [...this.#ofCase.values()].some((other) => other.marker === marker);
  }

  /** Each head that went out is the next one that a strict reader finds in its client's bytes. */
  #compareWithClients(requests: readonly BelievedRequest[]): string[] {
    const flaws: string[] = [];
    const left = new Map<RequestCase, StrictRequest[]>();
    for (const believed of requests) {
      const row = this.#ofCase.get(fieldOf(believed, "X-Forwarded-For"));
      if (row === undefined) {
        flaws.push(`sent for nobody: ${JSON.stringify(believed)}`);
        continue;
      }
      const strict = left.get(row) ?? readStrictRequests(row.bytes);
      left.set(row, strict);
      const at = strict.findIndex(({ method, target }) => believed.line === `${method} ${target} HTTP/1.1`);
      const [found] = at === -1 ? [] : strict.splice(0, at + 1).slice(-1);
      const flaw = found === undefined ? "no strict reader finds it" : headFlaw(found, believed);
      if (flaw !== null) flaws.push(this.#report(`forwarded ${JSON.stringify(believed)}: ${flaw}`, row));
      else if (found !== undefined) this.#bodies.set(believed.id, found);
    }
    return flaws;
  }

  readonly #bodies = new Map<string, StrictRequest>();

  async #settle(flaws: string[]): Promise<void> {
    const isWhole = (): boolean => {
      flaws.push(...this.#readLog());
      return [...this.#answered].every((id) => this.#seen.has(id));
    };
    await eventually(`${this.#server.name} logs what it has answered`, isWhole, hangMs).catch((error: Error) => {
      const missing = [...this.#answered].filter((id) => !this.#seen.has(id));
      flaws.push(`${error.message}: ${JSON.stringify(missing.map((id) => this.#believed.requests.get(id)))}`);
    });
    this.#answered.clear();
  }

  #readLog(): string[] {
    return this.#backend.take().flatMap((seen) => {
      const flaw = this.#seenFlaw(seen);
      return flaw === null
        ? []
        : [this.#report(`${this.#server.name} saw ${JSON.stringify(seen)}: ${flaw}`, this.#rowOf(seen))];
    });
  }

  #seenFlaw(seen: SeenRequest): string | null {
    if (seen.line === null && seen.id === "") {
      this.#refused.set(seen.port, (this.#refused.get(seen.port) ?? 0) + 1);
      return null;
    }
    const believed = this.#believed.requests.get(seen.id);
    if (believed === undefined) return "nobody sent it";
    const times = (this.#seen.get(seen.id) ?? 0) + 1;
    this.#seen.set(seen.id, times);
    if (times > believed.timesSent) return `seen ${times} times`;
    // It has the id and could not be read to the end.
    if (seen.line === null) return null;
    if (seen.line !== believed.line) return `sent was ${believed.line}`;
    const shown = JSON.stringify(seen.fields.filter((field) => !isFraming(field)));
    const expected = JSON.stringify(this.#backend.shownAs(believed.fields, seen.fields));
    if (shown !== expected) return `sent were the fields ${expected}`;
    return framingFlaw(seen, this.#bodies.get(seen.id), this.#answered.has(seen.id));
  }

  #rowOf({ line }: SeenRequest): RequestCase | undefined {
    const marker = /m=([0-9a-f]{12})/.exec(line ?? "")?.[1];
    return [...this.#ofCase.values()].find((row) => row.marker === marker);
  }

  #report(flaw: string, row: RequestCase | undefined): string {
    if (row === undefined) return flaw;
    const alone = `HEADGATE_FUZZ_SEED=${row.seed} HEADGATE_FUZZ_CASES=1 npm run test:long -- fuzz/requests -t ${this.#server.name}`;
    return `${flaw}\n  seed ${row.seed}: ${shortened(row.bytes)}\n  alone: ${alone}`;
  }
}

/** The seed gives the whole of it. */
function shortened(bytes: string): string {
  return JSON.stringify(bytes.replace(/(.{1,12}?)\1{30,}/gs, "$1…"));
}

function addressOf(index: number): string {
  return `127.9.${Math.floor(index / 250)}.${1 + (index % 250)}`;
}

function fieldOf({ fields }: BelievedRequest, name: string): string {
  return fields.find((field) => field.startsWith(`${name}: `))?.slice(name.length + 2) ?? "";
}

function isFraming(field: string): boolean {
  return /^(?:content-length|transfer-encoding):/i.test(field);
}

/** What the gateway adds, in lower case; the rest is the client's. */
const added = /^(?:host|connection|upgrade|x-forwarded-(?:for|proto|host)|x-request-id): |^via: 1\.1 headgate$/;

function headFlaw(strict: StrictRequest, believed: BelievedRequest): string | null {
  const fields = believed.fields.map((field) => {
    const colon = field.indexOf(":");
    return `${field.slice(0, colon).toLowerCase()}:${field.slice(colon + 1)}`;
  });
  if (strict.host !== null && !fields.includes(`host: ${strict.host}`)) return `the client's host is ${strict.host}`;
  const own = JSON.stringify(fields.filter((field) => !added.test(field)));
  const expected = JSON.stringify(strict.passedOn);
  return own === expected ? null : `the client's fields are ${expected}`;
}

function framingFlaw({ fields, body }: SeenRequest, strict: StrictRequest | undefined, isAnswered: boolean) {
  const framing = fields.filter(isFraming);
  if (framing.length > 1) return "framed twice";
  if (strict === undefined) return null;
  const { isWhole, text } = strict.body;
  const length = /^content-length: *(\d+)$/i.exec(framing[0] ?? "")?.[1];
  if (isWhole && length !== undefined && Number(length) !== text.length) return "another length";
  // One that was broken off, by the gateway too, is seen as far as it came.
  const isPart = (!isWhole || !isAnswered) && text.startsWith(body ?? "");
  return body === null || body === text || isPart ? null : `the client's body is ${JSON.stringify(strict.body)}`;
}
