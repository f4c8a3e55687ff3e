// The gateway's own cases as one list: the requests and responses of the conformance corpora, and the table of answers. Each
// is run against whatever `start` starts.
import { expect } from "vitest";
import { requestCases } from "../conformance/requests/corpus.ts";
import { type Normalize, RequestLane } from "../conformance/requests/lane.ts";
import { responseCases } from "../conformance/responses/corpus.ts";
import { ResponseLane } from "../conformance/responses/lane.ts";
import { type AnswerCase, refusals, upstreamAnswers, upstreamFailures } from "../support/answer-cases.ts";
import { cleanupTo } from "../support/closing.ts";
import { expectContractFields, expectOwnAnswer } from "../support/contract-fields.ts";
import { within } from "../support/eventually.ts";
import type { StartServing } from "../support/gateway.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { stageServing } from "../support/stage-case.ts";

export interface CorpusCase {
  readonly corpus: "request" | "response" | "answer";
  readonly name: string;
  /** Rejects if it does not hold. `pieces`: as `bytes`, split. */
  run(stage: Stage, pieces?: readonly string[]): Promise<void>;
  /** What is sent; empty for an answer. */
  readonly bytes: string;
}

/** What the cases of one corpus after the other are run on. */
export class Stage {
  readonly requests: RequestLane;
  readonly responses: ResponseLane;
  readonly start: StartServing;
  readonly #closing: (() => unknown)[] = [];

  private constructor(requests: RequestLane, responses: ResponseLane, start: StartServing) {
    this.requests = requests;
    this.responses = responses;
    this.start = start;
  }

  static async open(start: StartServing): Promise<Stage> {
    return new Stage(await RequestLane.start(start, withoutClientsOwn), await ResponseLane.start(start), start);
  }

  readonly cleanup = cleanupTo((close) => void this.#closing.push(close));

  /** Closes what a case has opened for itself. */
  async clear(): Promise<void> {
    for (const close of this.#closing.splice(0).reverse()) await close();
  }

  async close(): Promise<void> {
    await this.clear();
    await this.requests.close();
    await this.responses.close();
  }
}

/** An HTTP client writes Host and Connection itself: where it likes, and in lower case. */
const withoutClientsOwn: Normalize = ({ lines: [first = "", ...lines], body }) => {
  const isOwn = (line: string): boolean => /^(?:host|connection):/i.test(line);
  const own = lines.filter(isOwn).map((line) => line.replace(/^[^:]*/, (name) => name.toLowerCase()));
  return { lines: [first, ...lines.filter((line) => !isOwn(line)), ...own.sort()], body };
};

async function checkAnswer(row: AnswerCase, { start, cleanup }: Stage): Promise<void> {
  const { gateway, raw } = await stageServing(row, cleanup, start);
  const client = cleanup(new RawConnection(gateway.traffic.port));
  client.write(row.send.replace("\r\n\r\n", "\r\nX-Request-Id: mine/1\r\n\r\n"));
  const [method = ""] = row.send.split(" ");
  let response = await client.read({ method });
  while (response.status < 200) response = await client.read({ method });
  expect(response.status).toBe(row.status);
  expectContractFields(response, { limit: row.limit ?? 100, remaining: row.remaining ?? 99 });
  expect(valuesOf(response.rawHeaders, "X-Request-Id")).toEqual([expect.stringMatching(/^(mine\/1|[0-9a-f-]{36})$/)]);
  if (row.own !== undefined) expectOwnAnswer(response, ...row.own, method);
  if (row.upstream === undefined) expect(raw.bytes()).toBe("");
  if (!valuesOf(response.rawHeaders, "Connection").includes("close")) {
    expect((await client.ask("GET /elsewhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).status).toBe(404);
  }
  expect(await within("the connection ends", client.closed)).toBe("end");
  expect(client.rest).toBe("");
}

export const corpusCases: readonly CorpusCase[] = [
  ...requestCases.map(
    (row): CorpusCase => ({
      corpus: "request",
      name: `${row.section}: ${row.name}`,
      bytes: row.bytes,
      run: (stage, pieces = [row.bytes]) => stage.requests.run(row, pieces),
    }),
  ),
  ...responseCases.map(
    (row): CorpusCase => ({
      corpus: "response",
      name: `${row.section}: ${row.name}`,
      bytes: row.bytes,
      run: (stage, pieces = [row.bytes]) => stage.responses.run(row, pieces),
    }),
  ),
  ...[...upstreamAnswers, ...refusals, ...upstreamFailures].map(
    (row): CorpusCase => ({
      corpus: "answer",
      name: `${row.status} ${row.name}`,
      bytes: "",
      run: (stage) => checkAnswer(row, stage),
    }),
  ),
];
