// Mutated responses through a gateway to one client after the other. Each lane is a gateway with a single connection to
// an upstream of its own, so whatever a response leaves behind meets the next client.
import { connect, type Socket } from "node:net";
import { startTestGateway, type TestGateway } from "../../support/gateway.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { type RawUpstream, startRawUpstream } from "../../support/upstream.ts";
import { writePieces } from "../pieces.ts";
import { type Answer, readAnswers } from "./answers.ts";
import { type ResponseCase, responseCase } from "./response-cases.ts";
import { valuesIn } from "./strict-message.ts";
import { readStrictResponse } from "./strict-response.ts";

export interface ResponseFigures {
  cases: number;
  /** Of every case so far, on whichever lane. */
  readonly markers: Set<string>;
  /** The upstream's response, whole. */
  passed: number;
  /** The gateway's own 502 or 504. */
  refused: number;
  /** A connection that ended inside the response. */
  broken: number;
}

const hangMs = 5_000;

interface Script {
  row: ResponseCase | null;
  /** Resolves when everything of the case is written. */
  written: Promise<void>;
}

export class ResponseLane {
  readonly #upstream: RawUpstream;
  readonly #gateway: TestGateway;
  readonly #script: Script;
  readonly #figures: ResponseFigures;
  #client: Socket | null = null;
  #received = "";
  #wake: () => void = () => {};

  private constructor(upstream: RawUpstream, gateway: TestGateway, script: Script, figures: ResponseFigures) {
    this.#upstream = upstream;
    this.#gateway = gateway;
    this.#script = script;
    this.#figures = figures;
  }

  static async start(figures: ResponseFigures): Promise<ResponseLane> {
    const script: Script = { row: null, written: Promise.resolve() };
    const heads = new WeakMap<Socket, string>();
    const upstream = await startRawUpstream((socket, data) => {
      const head = (heads.get(socket) ?? "") + data.toString("latin1");
      const isWhole = head.includes("\r\n\r\n") && (!head.startsWith("POST") || head.endsWith("abc"));
      heads.set(socket, isWhole ? "" : head);
      if (isWhole && script.row !== null) script.written = answer(socket, script.row);
    });
    const gateway = await startTestGateway({
      upstreamUrl: upstream.url,
      overrides: {
        policies: [slidingPolicy({ limit: 1_000_000, windowMs: 1_000 })],
        upstream: { maxConnections: 1, connectTimeoutMs: 2_000, responseTimeoutMs: 2_000, bodyTimeoutMs: 2_000 },
        drain: { delayMs: 0, timeoutMs: 0 },
        log: { access: false },
      },
    });
    return new ResponseLane(upstream, gateway, script, figures);
  }

  async close(): Promise<void> {
    this.#client?.destroy();
    await this.#gateway.close();
    await this.#upstream.close();
  }

  /** Returns what was wrong. */
  async run(seed: number): Promise<string[]> {
    const row = responseCase(seed);
    this.#script.row = row;
    const { method, marker } = row;
    this.#figures.markers.add(marker);
    if (this.#received !== "") return [this.#report(`bytes for nobody: ${JSON.stringify(this.#received)}`, row)];
    const client = this.#connected();
    const body = method === "POST" ? "abc" : "";
    client.write(
      `${method} /v2/x?m=${marker} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    const answers = await this.#answers(client, method);
    // What comes late comes before the next request, or it would be the answer to that.
    await this.#script.written;
    await writePieces(() => {}, ["", ""]);
    this.#figures.cases += 1;
    if (answers === null) return [this.#report(`no end within ${hangMs} ms`, row)];
    if (client.destroyed || client.readableEnded) this.#client = null;
    const flaw = this.#judge(row, answers.final[0]);
    return [...answers.flaws, ...(flaw === null ? [] : [flaw])].map((what) => this.#report(what, row));
  }

  #connected(): Socket {
    if (this.#client !== null && !this.#client.destroyed) return this.#client;
    const client = connect({ port: this.#gateway.traffic.port, host: "127.0.0.1", noDelay: true });
    client.setEncoding("latin1");
    client.on("data", (text) => {
      this.#received += text;
      this.#wake();
    });
    client.on("error", () => {});
    client.on("close", () => this.#wake());
    this.#client = client;
    return client;
  }

  /** The final answer, or what there is of it when the connection ends. Null if neither comes in time. */
  async #answers(client: Socket, method: string) {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      this.#wake();
    }, hangMs);
    for (;;) {
      const answers = readAnswers(this.#received, method === "HEAD");
      const isWhole = answers.final[0]?.isWhole === true;
      if (isWhole || client.destroyed || isLate) {
        clearTimeout(timer);
        this.#last = this.#received;
        this.#received = "";
        if (isLate) client.destroy();
        return isWhole || !isLate ? { ...answers, flaws: isWhole ? answers.flaws : [] } : null;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #last = "";

  #judge(row: ResponseCase, answer: Answer | undefined): string | null {
    const strange = [...this.#last.matchAll(/(?:\bm=|X-Marker: )([0-9a-f]{12})\b/g)].find(
      ([, marker = ""]) => marker !== row.marker && this.#figures.markers.has(marker),
    );
    if (strange !== undefined) return `bytes of another answer in ${JSON.stringify(this.#last)}`;
    const expected = readStrictResponse(row.bytes, row.method, row.ending === "close");
    // A reset may overtake what was written before it.
    const isSure = expected.kind === "whole" && row.ending !== "reset" && !mayBeRefused(row.bytes);
    if (answer === undefined || !answer.isWhole) {
      this.#figures.broken += 1;
      return isSure ? `broken off, expected ${JSON.stringify(expected)}` : null;
    }
    if (isOwn(answer)) {
      this.#figures.refused += 1;
      return isSure ? `${answer.status}, expected ${JSON.stringify(expected)}` : null;
    }
    this.#figures.passed += 1;
    if (expected.kind !== "whole") return `passed ${JSON.stringify(answer)}, expected ${JSON.stringify(expected)}`;
    const isSame = answer.status === expected.status && answer.body === expected.body;
    return isSame ? null : `passed ${JSON.stringify(answer)}, expected ${JSON.stringify(expected)}`;
  }

  #report(flaw: string, { seed, method, bytes, pieces, ending }: ResponseCase): string {
    const alone = `HEADGATE_FUZZ_SEED=${seed} HEADGATE_FUZZ_CASES=1 npm run test:long -- fuzz/responses`;
    const shortened = JSON.stringify(bytes.replace(/(.{1,12}?)\1{30,}/gs, "$1…"));
    return `${flaw}\n  seed ${seed}: ${method}, ${ending} behind ${pieces.length} pieces of ${shortened}\n  alone: ${alone}`;
  }
}

async function answer(socket: Socket, { pieces, ending }: ResponseCase): Promise<void> {
  // The gateway may have seen enough and ended it.
  await writePieces((piece) => void (socket.writable && socket.write(piece, "latin1")), pieces);
  if (ending === "close") socket.end();
  else if (ending === "reset") socket.resetAndDestroy();
}

function isOwn({ status, fields }: Answer): boolean {
  return (status === 502 || status === 504) && valuesIn(fields, "cache-control")[0] === "no-store";
}

/** The bounds on heads, chunk extensions and interim responses, which may not be framed either. */
function mayBeRefused(bytes: string): boolean {
  const framesInterim = /HTTP\/1\.\d 1\d\d(?:(?!\r\n\r\n)[\s\S])*(?:Content-Length|Transfer-Encoding)/i.test(bytes);
  return framesInterim || bytes.length > 16_000 || bytes.split("HTTP/1.1 1").length > 16;
}
