// Which of the gateway's own cases hold for the plugin with an upstream: all but the ones that are listed here with their
// reason, which do not.
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { singleLf } from "../conformance/responses/corpus.ts";
import { corpusCases, Stage } from "./corpora.ts";
import { startServing } from "./serving.ts";

const keyOf = ({ corpus, name }: { corpus: string; name: string }): string => `${corpus} ${name}`;

const exceptions: Readonly<Record<string, string>> = {
  "response RFC 9110 15.2.1: 100 that nobody asked for": "undici breaks the connection, and the client gets 502",
  "response RFC 9112 2.2: a single LF before the status line": "undici skips it",
  "response RFC 9112 4: a status of 600": "Node's HTTP/2 could not send it",
  "response RFC 9112 4: a status of 999": "Node's HTTP/2 could not send it",
  "response RFC 9112 6.3: the same length twice": "undici refuses it",
  "response RFC 9112 6.3: the same length twice, named in Connection": "undici refuses it",
  "request RFC 9112 2.3: RTSP": "Node's parser takes it for HTTP",
  "request RFC 9112 2.3: ICE": "Node's parser takes it for HTTP",
  "answer 431 17 KiB of trailers": "Node's parser takes trailers for headers",
  "answer 404 no route": "what is outside of the routes is the app's, and so is the body of its 404",
  ...Object.fromEntries(
    corpusCases
      .filter(({ name }) => name.startsWith(singleLf))
      .map((row) => [keyOf(row), "undici refuses a single LF"]),
  ),
  ...Object.fromEntries(
    corpusCases
      .filter(({ bytes, name }) => / HTTP\/1\.[2-9]\r\n/.test(bytes) && !name.includes("no Host"))
      .map((row) => [keyOf(row), "Node's parser refuses the version, and is the app's"]),
  ),
};

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.open(startServing);
});
afterEach(() => stage.clear());
afterAll(() => stage.close());

test("every exception is a case", () => {
  const known = new Set(corpusCases.map(keyOf));
  expect(Object.keys(exceptions).filter((key) => !known.has(key))).toEqual([]);
});

test.each(corpusCases.filter((row) => !(keyOf(row) in exceptions)))("$corpus $name", (row) => row.run(stage));

test.each(corpusCases.filter((row) => keyOf(row) in exceptions))("does not hold: $corpus $name", async (row) => {
  await expect(row.run(stage)).rejects.toThrow();
});
