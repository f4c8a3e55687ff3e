// Fills the table of a gateway: one request of each of so many addresses, on four connections.
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const connections = 4;

/**
 * What stands in the configuration of a gateway whose table is filled: it trusts 127.0.0.1 to name clients, and asks for tokens.
 * `frame`: of `gatewayFrame`. `policies`: as a line of YAML.
 */
export function configOfMany(frame: string, policies: string): string {
  const withTokens = frame.replace('auth: { mode: "off" }', "auth: { mode: presence }");
  return `${withTokens}
${policies}
counters: { memory: 256MiB }
clientAddress: { trustedProxies: [127.0.0.1] }
log: { access: false }
`;
}

/**
 * The configuration is one of `configOfMany`: requests without a token are counted and answered with 401. The addresses begin with
 * 10.0.0.0; at most 2 ** 24.
 */
export async function fillTable(port: number, clients: number): Promise<void> {
  await Promise.all(Array.from({ length: connections }, (_, part) => sendFrom(port, part, clients)));
}

async function sendFrom(port: number, part: number, clients: number): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  let answered = 0;
  socket.on("data", (bytes: Buffer) => {
    for (let at = bytes.indexOf("HTTP/1.1 401"); at !== -1; at = bytes.indexOf("HTTP/1.1 401", at + 1)) answered += 1;
  });
  const own = Math.ceil(clients / connections);
  for (let sent = 0; sent < own; ) {
    const batch: string[] = [];
    for (; batch.length < 64 && sent < own; sent += 1) {
      const n = part * own + sent;
      const address = `10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`;
      batch.push(`GET /v2/200b HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${address}\r\n\r\n`);
    }
    socket.write(batch.join(""));
    // A status line that is cut in two is not counted, so a few may be missing.
    for (const until = performance.now() + 5_000; answered < sent - 2_000 && performance.now() < until; )
      await sleep(1);
    if (sent % 640 === 0) await once(socket, "data");
  }
  await sleep(500);
  socket.destroy();
}
