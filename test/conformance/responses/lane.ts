// The runner of the response corpus: a gateway before an upstream that answers with a case's bytes, and behind each
// case a client that must get an answer of its own. Several lanes may run beside each other.
import type { Socket } from "node:net";
import { expect } from "vitest";
import { sixFields } from "../../support/contract-fields.ts";
import { within } from "../../support/eventually.ts";
import { type Serving, type StartServing, startTestGateway } from "../../support/gateway.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { type RawUpstream, startRawUpstream } from "../../support/upstream.ts";
import { writePieces } from "../pieces.ts";
import type { Passed, ResponseCase } from "./response-case.ts";

/** What the gateway says on every response, and Node of the connection. */
const ownNames = [...sixFields, "Date", "X-Request-Id"].map((name) => name.toLowerCase());
const connectionNames = ["connection", "keep-alive", "transfer-encoding"];

interface Script {
  respond: (socket: Socket) => void;
}

export class ResponseLane {
  readonly #upstream: RawUpstream;
  readonly #gateway: Serving;
  readonly #script: Script;
  #exchanges = 0;

  constructor(upstream: RawUpstream, gateway: Serving, script: Script) {
    this.#upstream = upstream;
    this.#gateway = gateway;
    this.#script = script;
  }

  static async start(start: StartServing = startTestGateway): Promise<ResponseLane> {
    const script: Script = { respond: () => {} };
    const upstream = await startRawUpstream((socket) => script.respond(socket));
    const gateway = await start({
      upstreamUrl: upstream.url,
      overrides: {
        policies: [slidingPolicy({ limit: 1_000_000, windowMs: 1_000 })],
        drain: { timeoutMs: 0 },
        log: { access: false },
      },
    });
    return new ResponseLane(upstream, gateway, script);
  }

  async close(): Promise<void> {
    await this.#gateway.close();
    await this.#upstream.close();
  }

  /** `pieces` together are the case's bytes. */
  async run(row: ResponseCase, pieces: readonly string[] = [row.bytes]): Promise<void> {
    this.#script.respond = (socket) => void respond(socket, pieces, row.closes);
    const client = this.#connect(row.method, "/v2/x");
    try {
      await checkResponse(row, client);
    } finally {
      client.destroy();
    }
    await this.#expectSound();
  }

  /** Whatever the upstream sent, the next client gets the answer to its own request. */
  async #expectSound(): Promise<void> {
    this.#exchanges += 1;
    const own = `answer ${this.#exchanges}`;
    this.#script.respond = (socket) => socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${own.length}\r\n\r\n${own}`);
    const client = this.#connect("GET", "/v2/next");
    try {
      expect(await client.read()).toMatchObject({ status: 200, body: own });
    } finally {
      client.destroy();
    }
  }

  #connect(method: string, target: string): RawConnection {
    const client = new RawConnection(this.#gateway.traffic.port);
    client.write(`${method} ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n`);
    return client;
  }
}

async function respond(socket: Socket, pieces: readonly string[], closes: boolean): Promise<void> {
  const write = (piece: string): void => {
    // The gateway may have seen enough and ended it.
    if (socket.writable) socket.write(piece, "latin1");
  };
  await writePieces(write, pieces);
  if (closes) socket.end();
}

async function checkResponse({ expected, method }: ResponseCase, client: RawConnection): Promise<void> {
  switch (expected.kind) {
    case "passed":
      await checkPassed(expected, method, client);
      break;
    case "failed":
      expect((await client.read({ method })).status).toBe(502);
      await expectNoMore(client);
      break;
    case "broken":
      await checkBroken(expected.status, client);
  }
}

async function checkPassed(expected: Passed, method: string, client: RawConnection): Promise<void> {
  for (const { status, lines } of expected.interim) {
    const interim = await client.readHead();
    expect({ status: interim.status, lines: linesOf(interim.rawHeaders) }).toEqual({ status, lines });
  }
  const { status, body, rawHeaders } = await client.read({ method });
  expect({ status, body }).toEqual({ status: expected.status, body: expected.body });
  const lines = linesOf(rawHeaders);
  expect(lines.filter((line) => ![...ownNames, ...connectionNames].includes(nameOf(line)))).toEqual(expected.lines);
  for (const name of ownNames) expect(lines.filter((line) => nameOf(line) === name)).toHaveLength(1);
  await expectNoMore(client);
}

/** A head goes out with the first piece of its body, so what breaks before that may still be told as a 502. */
async function checkBroken(status: number, client: RawConnection): Promise<void> {
  const head = await client.readHead().catch(() => null);
  if (head?.status !== 502) {
    if (head !== null) expect(head.status).toBe(status);
    await within("the connection ends", client.closed);
    expect(client.rest).not.toMatch(/(?:^|\r\n)0\r\n\r\n$/);
    expect(client.rest).not.toContain("HTTP/1.1");
  }
}

/** The next answer on the connection is the one to the next request, which the gateway gives itself. */
async function expectNoMore(client: RawConnection): Promise<void> {
  expect((await client.ask("GET /elsewhere HTTP/1.1\r\nHost: a\r\n\r\n")).status).toBe(404);
  expect(client.rest).toBe("");
}

function linesOf(rawHeaders: readonly string[]): string[] {
  return rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${rawHeaders[i + 1]}`] : []));
}

function nameOf(line: string): string {
  return line.slice(0, line.indexOf(":")).toLowerCase();
}
