// The clients that use the gateway of the demo, each from an address of its own on loopback. They end at once, with what is
// under way.
import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { createServer } from "node:net";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { createRetryingFetch } from "../../client/index.ts";
import { asError } from "../../core/failure.ts";
import type { Habit } from "./habits.ts";

export interface SimulatedClients {
  /** Resolves when no request is under way any more. */
  stop(): Promise<void>;
}

/** Of a client whose request has failed, so that a gateway that is gone is not asked again and again. */
const failedPauseMs = 5_000;

/** `onFailure`: a request had no response. The client goes on later. */
export function startSimulatedClients(
  url: string,
  habits: readonly Habit[],
  onFailure: (habit: Habit, error: Error) => void,
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
async function live(habit: Habit, url: string, signal: AbortSignal, onFailure: (error: Error) => void): Promise<void> {
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
async function get(url: URL, { address, token }: Habit, agent: Agent, signal: AbortSignal): Promise<Response> {
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
