// One client connection from its first byte to its close: writes the pieces, keeps what comes back, and never waits
// longer than a hang would last.
import { connect } from "node:net";
import { setImmediate } from "node:timers/promises";

export interface Conversation {
  readonly received: string;
  /** The gateway did not close in time. */
  readonly hangs: boolean;
}

export interface Script {
  readonly port: number;
  /** Any of 127.0.0.0/8: the gateway says it upstream, so what arrives there can be told to be this client's. */
  readonly localAddress: string;
  readonly pieces: readonly string[];
  /** Whether the client ends its side behind them. */
  readonly ends: boolean;
  readonly deadlineMs: number;
}

export async function converse({ port, localAddress, pieces, ends, deadlineMs }: Script): Promise<Conversation> {
  const socket = connect({ port, host: "127.0.0.1", localAddress, noDelay: true });
  let received = "";
  let hangs = false;
  socket.setEncoding("latin1");
  socket.on("data", (bytes) => {
    received += bytes;
  });
  // A reset is one way to close.
  socket.on("error", () => {});
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  const timer = setTimeout(() => {
    hangs = true;
    socket.destroy();
  }, deadlineMs);
  for (const [i, piece] of pieces.entries()) {
    if (i > 0) await setImmediate();
    if (socket.writable) socket.write(piece, "latin1");
  }
  if (ends) socket.end();
  await closed;
  clearTimeout(timer);
  return { received, hangs };
}
