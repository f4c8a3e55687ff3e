// The runner of the request corpus: a gateway before an upstream that records, one exchange at a time, so that whatever
// arrives upstream belongs to the case. Several lanes may run beside each other.
import { expect } from "vitest";
import { within } from "../../support/eventually.ts";
import { type Serving, type StartServing, startTestGateway } from "../../support/gateway.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { type FramedResponse, RawConnection } from "../../support/raw-connection.ts";
import { writePieces } from "../pieces.ts";
import { type RecordedRequest, type RecordingUpstream, startRecordingUpstream } from "../recording-upstream.ts";
import type { Forwarded, RequestCase } from "./request-case.ts";

/** Follows every message: served only where the connection goes on, and then as a request of its own. */
const probe = "GET /elsewhere HTTP/1.1\r\nHost: a\r\n\r\n";
/** Follows every message that ends its connection: never served. */
const smuggled = "GET /v2/smuggled HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n";

type Seen = Omit<RecordedRequest, "framing">;
export type Normalize = (record: Seen) => Seen;
const asItIs: Normalize = (record) => record;

export class RequestLane {
  readonly #upstream: RecordingUpstream;
  readonly #gateway: Serving;
  readonly #exhausted: Serving;
  readonly #normalize: Normalize;

  constructor(upstream: RecordingUpstream, gateway: Serving, exhausted: Serving, normalize: Normalize) {
    this.#upstream = upstream;
    this.#gateway = gateway;
    this.#exhausted = exhausted;
    this.#normalize = normalize;
  }

  /** `normalize`: takes away the differences between two records that do not count. */
  static async start(start: StartServing = startTestGateway, normalize: Normalize = asItIs): Promise<RequestLane> {
    const upstream = await startRecordingUpstream();
    const open = (limit: number) =>
      start({
        upstreamUrl: upstream.url,
        overrides: {
          policies: [slidingPolicy({ limit, windowMs: 1_000 })],
          drain: { timeoutMs: 0 },
          log: { access: false },
        },
      });
    return new RequestLane(upstream, await open(1_000_000), await open(0), normalize);
  }

  async close(): Promise<void> {
    await this.#gateway.close();
    await this.#exhausted.close();
    await this.#upstream.close();
  }

  /** `pieces` together are the case's bytes. */
  async run(row: RequestCase, pieces: readonly string[] = [row.bytes]): Promise<void> {
    const { port } = (row.isExhausted ? this.#exhausted : this.#gateway).traffic;
    const client = new RawConnection(port);
    this.#upstream.takeBytes();
    try {
      await this.#check(row, client, pieces);
      if (row.expected.kind === "broken") await this.#settle();
    } finally {
      client.destroy();
    }
  }

  async #check(
    { expected, bytes, statusInPieces }: RequestCase,
    client: RawConnection,
    pieces: readonly string[],
  ): Promise<void> {
    const [method = ""] = bytes.trimStart().split(" ");
    const behind = expected.kind === "broken" || expected.closes ? smuggled : "";
    const last = pieces.at(-1) ?? "";
    await writePieces((piece) => client.write(piece), [...pieces.slice(0, -1), last + behind]);
    if (expected.kind === "forwarded") {
      for (const _ of expected.requests) expect(await readFinal(client, method)).toMatchObject({ status: 200 });
      const seen = this.#upstream.take();
      expect(seen.map(this.#normalize)).toMatchObject(expected.requests.map(recordOf).map(this.#normalize));
      for (const { framing } of seen) expect(framing.length).toBeLessThan(2);
    } else {
      const { status } = await readFinal(client, method);
      if (pieces.length === 1 || status !== statusInPieces) expect(status).toBe(expected.status);
      expect(this.#upstream.take()).toEqual([]);
      if (expected.kind === "refused") expect(this.#upstream.takeBytes()).toBe("");
    }
    if (behind === "") {
      expect((await client.ask(probe)).status).toBe(404);
    } else {
      expect(await within("the connection ends", client.closed)).toBe("end");
    }
    expect(client.rest).toBe("");
  }

  /** What is left of a broken request has arrived when a request after it is answered. */
  async #settle(): Promise<void> {
    const client = new RawConnection(this.#gateway.traffic.port);
    client.write("GET /v2/settle HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n");
    expect((await client.read()).status).toBe(200);
    client.destroy();
    expect(this.#upstream.take().map(({ lines }) => lines[0])).toEqual(["GET /v2/settle HTTP/1.1"]);
  }
}

async function readFinal(client: RawConnection, method: string): Promise<FramedResponse> {
  const response = await client.read({ method });
  return response.status < 200 ? readFinal(client, method) : response;
}

const expectsBody = new Set(
  "POST PUT PATCH QUERY PROPFIND PROPPATCH REPORT SEARCH LOCK MKCOL MKCALENDAR ACL BIND CHECKOUT MERGE REBIND UNBIND".split(
    " ",
  ),
);

/** Everything that the upstream sees: the client's lines, and what the gateway adds. */
function recordOf({ line, host, lines, body }: Forwarded): Seen {
  const added = [
    "X-Forwarded-For: 127.0.0.1",
    "X-Forwarded-Proto: http",
    `X-Forwarded-Host: ${host}`,
    "Via: 1.1 headgate",
    expect.stringMatching(/^X-Request-Id: (?:[0-9a-f-]{36}|mine)$/),
  ];
  // After a HEAD, and after a body where a server may not expect one, the upstream's connection ends.
  const method = line.slice(0, line.indexOf(" "));
  const isLast = method === "HEAD" || (body !== "" && !expectsBody.has(method));
  const connection = `Connection: ${isLast ? "close" : "keep-alive"}`;
  return { lines: [line, `Host: ${host}`, ...lines, ...added, connection], body };
}
