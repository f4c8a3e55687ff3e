// The clients that use the gateway of the demo, each from an address of its own on loopback. They end at once, with what is
// under way.
import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { createServer } from "node:net";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { createRetryingFetch } from "../../client/index.ts";
import { asError } from "../../core/failure.ts";

export interface ClientHabit {
  readonly name: string;
  /** Its own, on loopback, so that the gateway tells the clients apart. */
  readonly address: string;
  /** What it asks for, and with which token. */
  readonly path: string;
  readonly token: string;
  /** So many requests, one after the other, with a gap behind each; then a pause. */
  readonly requests: number;
  readonly gapMs: number;
  readonly pauseMs: number;
  /** It uses the client library, which waits after a 429 and tries again. The others take a 429 for an answer. */
  readonly waitsWhenRefused: boolean;
  /** For people. */
  readonly does: string;
}

/** The address of the client that has a limit of its own. */
export const partner = "127.0.1.14";

/** How the simulated clients of the demo behave, all in one table. Together they send at most 30 requests a second. */
// biome-ignore format: a client in each row
export const habits: readonly ClientHabit[] = [
  { name: "steady", address: "127.0.1.11", path: "/v2/me", token: "steady", requests: 1, gapMs: 1000, pauseMs: 0, waitsWhenRefused: false, does: "1 request a second; never refused" },
  { name: "bursts", address: "127.0.1.12", path: "/v2/categories", token: "bursts", requests: 60, gapMs: 100, pauseMs: 24_000, waitsWhenRefused: false, does: "60 requests in 6 seconds, twice a minute; the second burst is too much" },
  { name: "scraper", address: "127.0.1.13", path: "/v2/transactions?limit=50", token: "scraper", requests: 1, gapMs: 100, pauseMs: 0, waitsWhenRefused: false, does: "10 requests a second, and ignores Retry-After; mostly refused" },
  { name: "partner", address: partner, path: "/v1/transactions?limit=10", token: "partner", requests: 1, gapMs: 250, pauseMs: 0, waitsWhenRefused: false, does: "4 requests a second to /v1/; an override gives it a limit of 600" },
  { name: "reader", address: "127.0.1.15", path: "/v2/transactions?limit=20", token: "reader", requests: 1, gapMs: 400, pauseMs: 0, waitsWhenRefused: true, does: "2 pages a second with headgate/client, which waits for Retry-After; loses nothing" },
];

export interface SimulatedClients {
  /** Resolves when no request is under way any more. */
  stop(): Promise<void>;
}

/** Of a client whose request has failed, so that a gateway that is gone is not asked again and again. */
const failedPauseMs = 5_000;

/** `onFailure`: a request had no response. The client goes on later. */
export function startSimulatedClients(
  url: string,
  habits: readonly ClientHabit[],
  onFailure: (habit: ClientHabit, error: Error) => void,
): SimulatedClients {
  const stopping = new AbortController();
  const ended = habits.map((habit) => live(habit, url, stopping.signal, (error) => onFailure(habit, error)));
  return {
    async stop() {
      stopping.abort();
      await Promise.all(ended);
    },
  };
}

/** Whether this machine lets a client have the address. On Linux, all of 127.0.0.0/8 are its own; macOS has the first alone. */
export async function hasAddress(address: string): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(0, address);
    await once(server, "listening");
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}

/** Resolves after the signal. */
async function live(
  habit: ClientHabit,
  url: string,
  signal: AbortSignal,
  onFailure: (error: Error) => void,
): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const sendOnce: typeof fetch = (input, init) => get(new URL(String(input)), habit, agent, init?.signal ?? signal);
  const send = habit.waitsWhenRefused ? createRetryingFetch({ fetch: sendOnce }) : sendOnce;
  const wait = (ms: number): Promise<void> => sleep(ms, undefined, { signal });
  while (!signal.aborted) {
    try {
      for (let sent = 0; sent < habit.requests; sent += 1) {
        await send(url + habit.path, { signal });
        await wait(habit.gapMs);
      }
      if (habit.pauseMs > 0) await wait(habit.pauseMs);
    } catch (error) {
      if (signal.aborted) break;
      onFailure(asError(error));
      // Rejects only at the end, which the loop sees.
      await wait(failedPauseMs).catch(() => undefined);
    }
  }
  agent.destroy();
}

/** As fetch does, which cannot choose the address it sends from. */
async function get(url: URL, { address, token }: ClientHabit, agent: Agent, signal: AbortSignal): Promise<Response> {
  const headers = { authorization: `Bearer ${token}` };
  const outgoing = request(url, { agent, headers, localAddress: address, signal });
  // Of a body that is broken off, the reading rejects.
  outgoing.on("error", () => {});
  outgoing.end();
  const [incoming] = (await once(outgoing, "response")) as [IncomingMessage];
  const body = await buffer(incoming);
  const fields = Object.entries(incoming.headers).map(([name, value]) => [name, String(value)] as [string, string]);
  return new Response(new Uint8Array(body), { status: incoming.statusCode ?? 0, headers: fields });
}
