// A server on a free loopback port whose every answer the test writes itself, and which notes what it was asked.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { onTestFinished } from "vitest";
import { listen } from "../support/loopback-server.ts";

export interface Hit {
  readonly method: string;
  readonly target: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
  /** Resolves when the connection that carried it is gone. */
  readonly closed: Promise<void>;
}

export type Answer = (response: ServerResponse, hit: Hit, nth: number) => void;

export interface TestServer {
  readonly url: string;
  readonly hits: readonly Hit[];
}

/** `nth` counts from 1. Closed, with every connection, when the test ends. */
export async function serve(answer: Answer): Promise<TestServer> {
  const hits: Hit[] = [];
  const server = createServer(async (request, response) => {
    const closed = new Promise<void>((resolve) => request.socket.once("close", () => resolve()));
    let body = "";
    for await (const chunk of request) body += chunk;
    const hit = { method: request.method ?? "", target: request.url ?? "", headers: request.headers, body, closed };
    hits.push(hit);
    answer(response, hit, hits.length);
  });
  const port = await listen(server);
  onTestFinished(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  });
  return {
    url: `http://127.0.0.1:${port}`,
    hits,
  };
}

export const TOO_MANY =
  '{"message":"Too Many Requests","errors":[{"errMsg":"Too many requests, please try again later."}]}';

export function refuse(response: ServerResponse, headers: Record<string, string> = {}): void {
  response.writeHead(429, { "content-type": "application/json; charset=utf-8", ...headers }).end(TOO_MANY);
}

/** Refuses the first `times` requests with these headers, then answers 200 "ok". */
export function refusing(times: number, headers: Record<string, string> = {}): Answer {
  return (response, _hit, nth) => {
    if (nth <= times) refuse(response, headers);
    else response.end("ok");
  };
}

/** A sleep that takes no time and notes how long it was asked to take. */
export function notedSleep() {
  const waitsMs: number[] = [];
  const sleep = async (ms: number) => {
    waitsMs.push(ms);
  };
  return { waitsMs, sleep };
}

/** Array.fromAsync, which the language version set for this project does not have yet. */
export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}
