// Upstreams that cannot be had: nobody listens, nobody accepts, or every connection to it is taken.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { Cleanup } from "./cleanup.ts";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import type { Serving } from "./gateway.ts";
import { upstreamConnections } from "./metrics.ts";
import { startProcessGroup } from "./process-group.ts";
import { RawConnection } from "./raw-connection.ts";

/** Upstreams without a response, by name, with what they do with a connection; null: nobody listens. */
export const failingUpstreams: [what: string, misbehave: ((socket: Socket) => void) | null][] = [
  ["refuses the connection", null],
  ["resets", (socket) => void socket.resetAndDestroy()],
  ["closes early", (socket) => void socket.end()],
  ["answers in no protocol", (socket) => void socket.end("what?\r\n\r\n")],
];

/** Nobody listens on port 1, and no test can be given it. */
export const deadPort = 1;
export const deadUrl = `http://127.0.0.1:${deadPort}`;

/** Where nobody listens until the test starts a program there, or whose port can be told from other figures in a text. */
export async function freeAddress(): Promise<string> {
  return `http://127.0.0.1:${await freePort()}`;
}

/** A process that listens and is stopped: once its backlog is full, the kernel lets new connections wait. */
export async function unacceptingAddress(cleanup: Cleanup): Promise<string> {
  return (await startUnaccepting(cleanup)).url;
}

/** The same, and a way to let it accept and answer after all. */
export async function startUnaccepting(cleanup: Cleanup): Promise<{ url: string; accept: () => void }> {
  const listen =
    "const s = require('http').createServer((_, res) => res.end('ok')).listen({ port: 0, host: '127.0.0.1', backlog: 1 }," +
    "() => console.log(s.address().port))";
  const { child, end } = startProcessGroup(process.execPath, ["-e", listen], { stderr: "ignore" });
  cleanup(end);
  const [line] = await once(child.stdout, "data");
  const port = Number(String(line));
  child.kill("SIGSTOP");
  let established = 0;
  for (let i = 0; i < 8; i += 1) {
    const filler = connect(port, "127.0.0.1", () => {
      established += 1;
    });
    filler.on("error", () => {});
    cleanup(() => filler.destroy());
  }
  await eventually("the backlog is full", () => established >= 2);
  return { url: `http://127.0.0.1:${port}`, accept: () => void child.kill("SIGCONT") };
}

/** With maxConnections 1: one request at the upstream, for which the others wait. */
export async function occupy(gateway: Serving, cleanup: Cleanup): Promise<void> {
  const client = cleanup(new RawConnection(gateway.traffic.port));
  client.write("GET /v2/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n");
  await eventually("it is active", async () => (await upstreamConnections(gateway)).active === 1);
}
