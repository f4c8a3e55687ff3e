// slowhttptest against a gateway of its own: clients that send heads or bodies, or read answers, as slowly as they can,
// and beside them one that behaves. The upstream is another process, so that nothing here slows what is looked at.
import { once } from "node:events";
import { Agent, get } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Cleanup } from "../../support/cleanup.ts";
import { type GatewayProcess, startGatewayProcess } from "../../support/gateway-process.ts";
import { startProcessGroup } from "../../support/process-group.ts";

export const attackers = 2_000;

/**
 * What makes slowhttptest slow. The answers, of 200 kB, are larger than the windows it reads them through; smaller
 * windows than these keep its own connections from opening.
 */
export const attacks = {
  head: ["-H", "-t", "GET", "-i", "1", "-x", "10"],
  body: ["-B", "-t", "POST", "-i", "1", "-x", "4", "-s", "8192"],
  read: ["-X", "-t", "GET", "-n", "2", "-w", "4096", "-y", "8192", "-z", "32", "-k", "1"],
} as const satisfies Record<string, readonly string[]>;

export type Attack = keyof typeof attacks;

const upstreamScript = `
  const large = Buffer.alloc(200_000, "x");
  require("http").createServer((req, res) => req.resume().on("end", () => res.end(req.url === "/v2/large" ? large : "ok")))
    .on("connection", (socket) => socket.on("error", () => {}))
    .listen(0, "127.0.0.1", function () { console.log(this.address().port); });
`;

/** A gateway that lets all attackers in at once, although they are one client. */
export async function startTarget(cleanup: Cleanup, settings: readonly string[]): Promise<GatewayProcess> {
  const upstream = startProcessGroup(process.execPath, ["-e", upstreamScript], { stderr: "inherit" });
  cleanup(upstream.end);
  const [line] = await once(upstream.child.stdout, "data");
  const open = ["auth.mode=off", "listen.maxConnectionsPerPeer=5000", "upstream.maxConnections=5000"];
  return startGatewayProcess(cleanup, `http://127.0.0.1:${Number(String(line))}`, [
    ...open,
    "log.access=false",
    ...settings,
  ]);
}

/** All attackers within a second or two. Resolves with what slowhttptest says when it ends, `seconds` later at most. */
export async function attack(cleanup: Cleanup, kind: Attack, port: number, seconds: number): Promise<string> {
  const url = `http://127.0.0.1:${port}/v2/large`;
  const args = ["-c", `${attackers}`, "-r", "1500", "-l", `${seconds}`, "-p", "20", "-u", url];
  // As many descriptors as there may be; it needs one for each connection.
  const script = 'ulimit -n "$(ulimit -H -n)" && exec slowhttptest "$@"';
  const { child, end } = startProcessGroup("bash", ["-c", script, "bash", ...attacks[kind], ...args], {
    stderr: "inherit",
  });
  cleanup(end);
  let output = "";
  child.stdout.on("data", (data: Buffer) => {
    output += data.toString();
  });
  await once(child, "close");
  return output;
}

export interface GoodClient {
  /** How long each answer took, in milliseconds. */
  readonly tookMs: number[];
  readonly failures: string[];
  /** Resolves when its last answer is there. */
  stop(): Promise<void>;
}

/** Asks again and again over one kept connection, from an address of its own. */
export function startGoodClient(port: number): GoodClient {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const client: GoodClient & { isStopped: boolean } = {
    tookMs: [],
    failures: [],
    isStopped: false,
    async stop() {
      client.isStopped = true;
      await asking;
      agent.destroy();
    },
  };
  const ask = async (): Promise<void> => {
    const startMs = performance.now();
    const address = { host: "127.0.0.1", port, localAddress: "127.0.0.2", agent, timeout: 10_000 };
    const asked = get({ ...address, path: "/v2/small" });
    asked.on("timeout", () => asked.destroy(new Error("no answer within 10 s")));
    const [response] = await once(asked, "response");
    response.resume();
    await once(response, "end");
    if (response.statusCode !== 200) client.failures.push(`answered ${response.statusCode}`);
    client.tookMs.push(performance.now() - startMs);
  };
  const asking = (async () => {
    while (!client.isStopped) {
      await ask().catch((error) => client.failures.push(String(error)));
      await sleep(4);
    }
  })();
  return client;
}
