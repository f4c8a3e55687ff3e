// An upstream that closes its connections at the worst moment: after a few answers each, with the answer just sent, a
// moment later, or when the next request has been read. It keeps the ids of what reached it, also of what it read after
// its own close.
import type { Socket } from "node:net";
import type { Cleanup } from "../../support/cleanup.ts";
import { startLoopbackServer } from "../../support/loopback-server.ts";

export interface ClosingUpstream {
  readonly url: string;
  /** How often the head of each request arrived, by target. */
  readonly arrivals: ReadonlyMap<string, number>;
  /** Requests that were answered, by target. */
  readonly answered: ReadonlySet<string>;
}

const heads = /(?:GET|POST) (\S+) HTTP\/1\.1\r\n/g;
const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/** `random` returns numbers from 0 to 1. */
export async function startClosingUpstream(cleanup: Cleanup, random: () => number): Promise<ClosingUpstream> {
  const arrivals = new Map<string, number>();
  const answered = new Set<string>();

  /** An end, or the reset that a server with unread bytes sends. */
  const close = (socket: Socket): void => void (random() < 0.5 ? socket.end() : socket.resetAndDestroy());

  const serve = (socket: Socket): void => {
    // The first request of a connection is always answered: its close is no idle close.
    let left = 1 + Math.floor(random() * 4);
    let isClosing = false;
    socket.setNoDelay(true);
    socket.on("data", (data: Buffer) => {
      for (const [, target = ""] of data.toString("latin1").matchAll(heads)) {
        arrivals.set(target, (arrivals.get(target) ?? 0) + 1);
        if (isClosing || left === 0) {
          isClosing = true;
          close(socket);
          return;
        }
        left -= 1;
        answered.add(target);
        socket.write(answer);
        if (left > 0) continue;
        const moment = random();
        if (moment < 0.5) continue; // with the next request
        isClosing = true;
        if (moment < 0.75) socket.end();
        else setTimeout(() => socket.end(), random() * 2);
      }
    });
  };

  const { url } = await startLoopbackServer(cleanup, serve);
  return { url, arrivals, answered };
}
