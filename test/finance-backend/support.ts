// A real backend on a free loopback port for one test file, and the two ways to talk to it: fetch, and plain bytes.
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll } from "vitest";
import { type FinanceBackend, startFinanceBackend } from "../../src/finance-backend/server.ts";

export const authorization = { authorization: "Bearer any-token" };

export function startInMemory(onFailure?: (error: unknown) => void): Promise<FinanceBackend> {
  return startFinanceBackend({ host: "127.0.0.1", port: 0, database: null, ...(onFailure && { onFailure }) });
}

export interface Client {
  readonly backend: () => FinanceBackend;
  /** A request with a token, unless `headers` says otherwise. */
  readonly send: (path: string, init?: RequestInit) => Promise<Response>;
  readonly json: (path: string, init?: RequestInit) => Promise<{ status: number; body: unknown }>;
}

export function useBackend(): Client {
  let started: FinanceBackend | undefined;
  const backend = (): FinanceBackend => {
    if (started === undefined) throw new Error("the backend is not started");
    return started;
  };
  beforeAll(async () => {
    started = await startInMemory();
  });
  afterAll(() => started?.close());
  const send = (path: string, init?: RequestInit): Promise<Response> =>
    fetch(backend().url + path, { headers: authorization, ...init });
  const json = async (path: string, init?: RequestInit): Promise<{ status: number; body: unknown }> => {
    const response = await send(path, init);
    return { status: response.status, body: await response.json() };
  };
  return { backend, send, json };
}

/** Everything the server sends on one connection until it ends it. */
export async function rawExchange(backend: FinanceBackend, bytes: string): Promise<string> {
  const socket = connect(backend.port, backend.host);
  socket.write(bytes);
  return text(socket);
}

export interface ListedTransaction {
  readonly id: number;
  readonly date: string;
  readonly category_id: number | null;
}

export interface Page {
  readonly transactions: readonly ListedTransaction[];
  readonly has_more: boolean;
}

/** The one thing a reader of JSON has to take on trust; the tests compare the contents right after. */
export function asPage(body: unknown): Page {
  return body as Page;
}
