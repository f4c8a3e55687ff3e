// A process that runs out of file descriptors: it does not end, does not spin, answers what it can, and is whole again
// when connections go.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { expectContractFields } from "../support/contract-fields.ts";
import { eventually, within } from "../support/eventually.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request } from "../support/stage.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();

async function start(maxOpenFiles: number, settings: readonly string[] = []) {
  const upstream = cleanup(await startUpstream());
  const gateway = await startGatewayProcess(cleanup, upstream.url, settings, { maxOpenFiles });
  const connect = (localAddress = "127.0.0.1"): RawConnection => {
    return cleanup(new RawConnection(gateway.port, { localAddress }));
  };
  return { upstream, gateway, connect };
}

const settled = (clients: readonly RawConnection[]) =>
  eventually("each is open or closed", () =>
    clients.every(({ socket, ending }) => ending !== null || !socket.connecting),
  );

async function loggedAs(gateway: GatewayProcess, message: string): Promise<Record<string, unknown> | undefined> {
  const lines = gateway.output.out.split("\n").filter((line) => line.includes(message));
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>)[0];
}

test("out of files it answers 503 on what is open, does not spin, and serves everyone when connections go", async () => {
  const files = 36;
  const { gateway, connect, upstream } = await start(files);
  const atRest = gateway.openFiles();
  const held = connect();
  expect((await held.ask(request("/elsewhere"))).status).toBe(404);
  // In the middle of their heads, so they stay. The files run out before the bound on connections is reached.
  const flood = Array.from({ length: 100 }, () => connect());
  for (const client of flood) client.write("GET /v2/x HTTP/1.1\r\nX-Slow: ");
  await settled(flood);
  await eventually("no file is left", () => gateway.openFiles() >= files);
  const beforeMs = gateway.cpuMs();
  const refused = await held.ask(request("/v2/held"));
  expect(refused.status).toBe(503);
  expectContractFields(refused, { limit: 1_000_000, remaining: remainingOf(refused.rawHeaders) });
  expect(upstream.received.map(({ target }) => target)).not.toContain("/v2/held");
  // A second of the condition, to see what it costs.
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  expect(gateway.cpuMs() - beforeMs).toBeLessThan(500);
  for (const client of flood) client.destroy();
  await eventually("the files are free", () => gateway.openFiles() <= atRest + 2);
  const after = connect();
  expect((await after.ask(request("/v2/after"))).status).toBe(200);
  expect(await loggedAs(gateway, "internal error")).toBeUndefined();
});

const remainingOf = (rawHeaders: readonly string[]): number =>
  Number(rawHeaders[rawHeaders.indexOf("RateLimit-Remaining") + 1]);

test("with few files fewer clients are let in, so idle ones lock nobody out, and the log says so", async () => {
  const { gateway, connect } = await start(200);
  expect(await loggedAs(gateway, "more open files than the system allows")).toMatchObject({
    level: "warn",
    maxOpenFiles: 200,
    maxConnections: 100,
  });
  const idle = Array.from({ length: 300 }, (_, i) => connect(`127.0.2.${i % 100}`));
  await settled(idle);
  for (let i = 0; i < 5; i += 1) {
    const good = connect().write(request("/v2/x"));
    expect((await within("a good client is served", good.read())).status).toBe(200);
  }
  await eventually("most were closed", () => idle.filter(({ ending }) => ending !== null).length >= 200);
  expect(gateway.openFiles()).toBeLessThan(150);
});

test("with enough files the log says how many there are, and nothing is lowered", async () => {
  const { gateway } = await start(1000, [
    "listen.maxConnections=500",
    "listen.maxConnectionsPerPeer=500",
    "upgrade.maxTunnels=100",
    "upstream.maxConnections=100",
  ]);
  expect(await loggedAs(gateway, "open files")).toMatchObject({ level: "info", maxOpenFiles: 1000, needed: 800 });
});
