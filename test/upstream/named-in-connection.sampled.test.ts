// What a client names in its Connection header: nothing that the gateway adds or has judged is removed, and nothing that a
// trusted peer tells, because some proxies pass the Connection of their clients on (HAProxy does).
import type { AddressInfo } from "node:net";
import { fastify } from "fastify";
import { describe, expect, test } from "vitest";
import { headgate, serverOptions } from "../../src/fastify/index.ts";
import { useCleanup } from "../support/cleanup.ts";
import { type Overrides, startTestGateway } from "../support/gateway.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { inFull } from "../support/runs.ts";
import { startRawUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();

/** What a peer may tell, and a client may name. */
const told: readonly (readonly [name: string, value: string])[] = [
  ["X-Forwarded-For", "192.0.2.7"],
  ["Forwarded", "for=192.0.2.7;proto=https"],
  ["X-Real-IP", "192.0.2.7"],
  ["X-Forwarded-Proto", "https"],
  ["X-Forwarded-Host", "shop.test"],
  ["X-Forwarded-Port", "443"],
  ["X-Forwarded-Prefix", "/shop"],
  ["X-Forwarded-Client-Cert", "Hash=0a1b"],
  ["X-Forwarded-User", "alice"],
  ["X-Request-Id", "told-by-the-peer"],
  ["Via", "1.1 edge"],
  ["True-Client-IP", "192.0.2.7"],
  ["CF-Connecting-IP", "192.0.2.7"],
  ["X-Client-IP", "192.0.2.7"],
  ["X-SSL-Client-CN", "alice"],
  ["Client-Cert", ":MIIB:"],
  ["X-Auth-Subject", "alice"],
  ["X-Unknown-To-All", "1"],
  ["traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
  ["tracestate", "a=b"],
  ["Cookie", "session=1"],
  ["Origin", "https://app.test"],
  ["Access-Control-Request-Method", "DELETE"],
  ["Authorization", "Bearer t"],
  ["Content-Length", "2"],
  ["Host", "api.test"],
];

/** What the upstream gets of an untrusted peer, whatever it names. */
const judged = new Set(
  ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Request-Id", "Via", "traceparent", "tracestate"]
    .concat(["Cookie", "Origin", "Access-Control-Request-Method", "Authorization", "Content-Length", "Host"])
    .map((name) => name.toLowerCase()),
);

const spellings: readonly ((name: string) => string)[] = [
  (name) => `Connection: ${name}\r\n`,
  (name) => `connection: keep-alive, ${name.toLowerCase()} ,,\r\n`,
  (name) => `Connection: close\r\nCONNECTION:\t${name.toUpperCase()}\r\n`,
];

interface Carrier {
  readonly name: string;
  readonly fields: string;
  readonly start: (upstreamUrl: string, clientAddress: ClientAddress) => Promise<number>;
}

type ClientAddress = { readonly trustedProxies: string[]; readonly header: "x-forwarded-for" | "forwarded" };

async function gatewayPort(upstreamUrl: string, clientAddress: ClientAddress): Promise<number> {
  const overrides: Overrides = { clientAddress: { ...clientAddress, ipv6Prefix: 64 }, drain: { timeoutMs: 0 } };
  const gateway = cleanup(await startTestGateway({ upstreamUrl, overrides }));
  return gateway.traffic.port;
}

async function pluginPort(upstreamUrl: string, clientAddress: ClientAddress): Promise<number> {
  const app = fastify({ ...serverOptions(), forceCloseConnections: true });
  await app.register(headgate, { routes: ["/v2/"], upstream: { url: upstreamUrl }, clientAddress });
  await app.listen({ port: 0, host: "127.0.0.1" });
  cleanup(() => app.close());
  return (app.server.address() as AddressInfo).port;
}

const carriers: readonly Carrier[] = [
  { name: "a request", fields: "", start: gatewayPort },
  { name: "an Upgrade", fields: "Connection: Upgrade\r\nUpgrade: websocket\r\n", start: gatewayPort },
  { name: "the plugin", fields: "", start: pluginPort },
];

/** The fields that the upstream gets, without those of its own connection. */
async function received(carrier: Carrier, clientAddress: ClientAddress, connections: readonly string[]) {
  const upstream = await startRawUpstream((socket) => {
    socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  });
  cleanup(() => upstream.close());
  const port = await carrier.start(upstream.url, clientAddress);
  const heads: string[][] = [];
  let seen = 0;
  for (const connection of connections) {
    const client = new RawConnection(port);
    // An Upgrade has no body.
    const fields = told.filter(([name]) => carrier.fields === "" || name !== "Content-Length");
    const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    client.write(
      `GET /v2/x HTTP/1.1\r\n${lines}${carrier.fields}${connection}\r\n${carrier.fields === "" ? "hi" : ""}`,
    );
    expect((await client.read()).status).toBe(200);
    client.destroy();
    const head = upstream.bytes().slice(seen).split("\r\n\r\n")[0] ?? "";
    seen = upstream.bytes().length;
    const uuid = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/;
    heads.push(
      head
        .split("\r\n")
        .slice(1)
        .map((line) => line.replace(uuid, "made"))
        .filter((line) => !/^connection:/i.test(line)),
    );
  }
  return heads;
}

/** `npm test` tries one spelling of each name, and each spelling with every third name. */
const everyNaming = told.flatMap(([name], i) => {
  const namings = spellings.map((spelling) => spelling(name));
  return [...namings.splice(i % namings.length, 1), ...inFull(namings)];
});

describe.each(carriers)("$name", (carrier) => {
  test.each(["x-forwarded-for", "forwarded"] as const)(
    "from a trusted peer that names clients in %s, naming a field takes nothing away",
    async (header) => {
      const trusted = { trustedProxies: ["127.0.0.0/8"], header };
      const [whole, ...heads] = await received(carrier, trusted, ["", ...everyNaming]);
      expect(whole?.length).toBeGreaterThan(20);
      for (const [i, head] of heads.entries()) expect([everyNaming[i], head]).toEqual([everyNaming[i], whole]);
    },
  );

  test("from an untrusted peer, naming a field takes nothing away that the gateway adds or has judged", async () => {
    const untrusted = { trustedProxies: [], header: "x-forwarded-for" as const };
    const [whole = [], ...heads] = await received(carrier, untrusted, ["", ...everyNaming]);
    const kept = (lines: readonly string[]): string[] =>
      lines.filter((line) => judged.has((line.split(":")[0] ?? "").toLowerCase()));
    for (const [i, head] of heads.entries()) {
      expect([everyNaming[i], kept(head)]).toEqual([everyNaming[i], kept(whole)]);
    }
    // What a client names of its own still ends with its connection (RFC 9110, 7.6.1).
    const [, named = []] = await received(carrier, untrusted, ["", "Connection: X-Unknown-To-All\r\n"]);
    expect(named.some((line) => line.startsWith("X-Unknown-To-All"))).toBe(false);
  });
});
