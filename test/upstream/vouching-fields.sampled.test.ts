// What a proxy vouches for by a field of its own: the upstream gets it from a trusted peer alone, on every way that leads to
// an upstream, and no spelling of such a field from anybody else.
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { fastify } from "fastify";
import { beforeAll, describe, expect, test } from "vitest";
import { type Peer, readPeer } from "../../src/core/client-address.ts";
import { FieldNames, ownNames, vouchingNames } from "../../src/core/field-names.ts";
import { listOf } from "../../src/core/headers.ts";
import { readMessage } from "../../src/core/message-check.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import { HeadersMemory, HeadMemory } from "../../src/core/request-head.ts";
import type { Exchange } from "../../src/exchange/exchange.ts";
import { headgate, serverOptions } from "../../src/fastify/index.ts";
import { upstreamRequestFields } from "../../src/upstream/request-fields.ts";
import { Authority } from "../support/certificates.ts";
import { useSharedCleanup } from "../support/cleanup.ts";
import { type Overrides, startTestGateway } from "../support/gateway.ts";
import { FrameClient } from "../support/http2-frames.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { runs, scaled } from "../support/runs.ts";
import { startRawUpstream } from "../support/upstream.ts";

const cleanup = useSharedCleanup();

const dropHeaders = ["x-ssl-client-cn", "remote-user", "$wsru"];
const forwarded = ["x-forwarded-user", "x-forwarded-client-cert", "x-forwarded-anything"];
/** Not those that the gateway writes itself, and of the two forwarding headers not the one that is not read. */
const vouching = [...vouchingNames, ...forwarded, ...dropHeaders].filter((name) => name !== "forwarded");
/** They mean nothing to the gateway. */
const others = ["x-ssl-client-verify", "remote-group", "sfdc_stack_depth", "api_key", "client-ips", "x-client-id", "_"];

type ClientAddress = { readonly trustedProxies: readonly string[]; readonly dropHeaders: readonly string[] };

interface Carrier {
  readonly name: string;
  readonly start: (upstreamUrl: string, clientAddress: ClientAddress) => Promise<Ask>;
}

/** Returns the status. */
type Ask = (fields: readonly (readonly [name: string, value: string])[]) => Promise<number>;

const textOf = (fields: Parameters<Ask>[0]): string => fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");

async function askHttp1(port: number, fields: string): Promise<number> {
  const client = new RawConnection(port);
  const { status } = await client.ask(`GET /v2/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n${fields}\r\n`);
  client.destroy();
  return status;
}

async function gatewayPort(upstreamUrl: string, clientAddress: ClientAddress, more: Overrides = {}): Promise<number> {
  const overrides: Overrides = { clientAddress, drain: { timeoutMs: 0 }, ...more };
  const gateway = cleanup(await startTestGateway({ upstreamUrl, overrides }));
  return gateway.traffic.port;
}

const carriers: readonly Carrier[] = [
  {
    name: "a request",
    async start(upstreamUrl, clientAddress) {
      const port = await gatewayPort(upstreamUrl, clientAddress);
      return (fields) => askHttp1(port, textOf(fields));
    },
  },
  {
    name: "an Upgrade",
    async start(upstreamUrl, clientAddress) {
      const port = await gatewayPort(upstreamUrl, clientAddress);
      return (fields) => askHttp1(port, `Connection: Upgrade\r\nUpgrade: websocket\r\n${textOf(fields)}`);
    },
  },
  {
    name: "a request that names each of them in Connection",
    async start(upstreamUrl, clientAddress) {
      const port = await gatewayPort(upstreamUrl, clientAddress);
      const aliases = ["Content_Length", "X_Forwarded_For", "Client_Ip", "authorization_"];
      return (fields) => askHttp1(port, `${textOf(fields)}Connection: ${aliases.join(", ")}\r\n`);
    },
  },
  {
    name: "HTTP/2",
    async start(upstreamUrl, clientAddress) {
      const authority = new Authority(cleanup);
      const { certFile: cert, keyFile: key } = authority.issue();
      const listen = { tls: { cert, key, clientCa: null, http2: true } };
      const port = await gatewayPort(upstreamUrl, clientAddress, { listen });
      return async (fields) => {
        const client = new FrameClient(port, { ca: authority.cert }, cleanup);
        const line = { ":method": "GET", ":scheme": "https", ":path": "/v2/x", ":authority": "localhost" };
        client.headers(1, [...Object.entries({ ...line, authorization: "Bearer t" }), ...fields]);
        expect(await client.ended(1)).toBe("whole");
        return Number(client.headOf(1)[1]);
      };
    },
  },
  {
    name: "the plugin",
    async start(upstreamUrl, clientAddress) {
      const app = fastify({ ...serverOptions(), forceCloseConnections: true });
      await app.register(headgate, { routes: ["/v2/"], upstream: { url: upstreamUrl }, clientAddress });
      await app.listen({ port: 0, host: "127.0.0.1" });
      cleanup(() => app.close());
      const { port } = app.server.address() as AddressInfo;
      return (fields) => askHttp1(port, textOf(fields));
    },
  },
];

describe.each(carriers)("$name", ({ start }) => {
  let bytes: () => string;
  const asks = new Map<string, Ask>();
  beforeAll(async () => {
    const upstream = await startRawUpstream((socket) => {
      socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
    cleanup(() => upstream.close());
    bytes = upstream.bytes;
    for (const peer of ["127.0.0.1", "10.0.0.1"]) {
      asks.set(peer, await start(upstream.url, { trustedProxies: [peer], dropHeaders }));
    }
  });

  /** The names of these that arrive, with their value. */
  async function arriving(ask: Ask | undefined, names: readonly string[]): Promise<string[]> {
    const seen = bytes().length;
    expect(await ask?.(names.map((name) => [name, "6.6.6.6"]))).toBe(200);
    const lines = bytes().slice(seen).toLowerCase().split("\r\n");
    return names.filter((name) => lines.includes(`${name}: 6.6.6.6`));
  }

  test("from an untrusted peer none arrives, and all that mean nothing do", async () => {
    const ask = asks.get("10.0.0.1");
    expect(await arriving(ask, vouching)).toEqual([]);
    expect(await arriving(ask, others)).toEqual(others);
  });

  test("from a trusted peer all arrive", async () => {
    expect(await arriving(asks.get("127.0.0.1"), [...vouching, ...others])).toEqual([...vouching, ...others]);
  });

  test.each(["client_ip", "true.client.ip", "x_forwarded_user", "x_ssl_client_cn", "remote_user", "-wsru"])(
    "from nobody %s does",
    async (name) => {
      const seen = bytes().length;
      for (const ask of asks.values()) expect(await ask([[name, "6.6.6.6"]])).toBe(400);
      expect(bytes().length).toBe(seen);
    },
  );
});

// A server as old ones read the names of fields, behind the gateway: CGI and WSGI, and PHP, lighttpd and old Apache.

const readers: Readonly<Record<string, (name: string) => string>> = {
  WSGI: (name) => `HTTP_${name.toUpperCase().replaceAll("-", "_")}`,
  PHP: (name) => `HTTP_${name.toUpperCase().replaceAll(/[-.]/g, "_")}`,
  lighttpd: (name) => `HTTP_${name.toUpperCase().replaceAll(/[^A-Z0-9]/g, "_")}`,
};

const clientAddress = { header: "x-forwarded-for", trustedProxies: new NetworkSet([]), ipv6Prefix: 64 } as const;
const peer: Peer = readPeer("192.0.2.1", clientAddress);
const names = new FieldNames(dropHeaders, [{ name: "any", key: [{ kind: "header", name: "x-org" }] }]);
const options = {
  forwardingHeader: "x-forwarded-for",
  fieldNames: names,
  upstreamHost: "u",
  keepsClientHost: true,
} as const;

test("a server that folds names sees no value of an untrusted peer for what is vouched for", () => {
  const word = fc.constantFrom(...vouching, "forwarded", ...ownNames, ...others, "x-org");
  const character = fc.constantFrom(..."-_.!#$%&'*+^`|~", "x");
  const name = fc
    .tuple(word, fc.array(fc.tuple(fc.nat(), character), { maxLength: 4 }), fc.boolean())
    .map(([text, changes, isUpper]) => {
      const letters = [...text];
      for (const [at, letter] of changes) {
        const separators = letters.flatMap((each, i) => (/[a-z0-9]/.test(each) ? [] : [i]));
        letters[separators[at % separators.length] ?? at % letters.length] = letter;
      }
      return isUpper ? letters.join("").toUpperCase() : letters.join("");
    });
  const dropped = [...vouching, "forwarded"];
  const added = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];
  let passed = 0;
  fc.assert(
    fc.property(fc.array(name, { minLength: 1, maxLength: 4 }), (sent) => {
      const rawHeaders = ["Host", "h", ...sent.flatMap((each) => [each, "evil"])];
      const head = { method: "GET", target: "/v2/x", httpVersion: "1.1" as const, rawHeaders, peer, memory: null };
      const message = readMessage(head, names);
      if (message.problem !== null) return;
      passed += 1;
      const verdict = { parsed: { message, target: undefined, upstreamTarget: "/v2/x" } };
      const exchange = { id: "i", method: "GET", transport: { scheme: "http" }, head, verdict } as unknown as Exchange;
      const arriving = listOf(`${upstreamRequestFields(exchange, options)}`);
      for (const read of Object.values(readers)) {
        const environ = new Map<string, string[]>();
        for (let i = 0; i < arriving.length; i += 2) {
          const key = read(arriving[i] ?? "");
          environ.set(key, [...(environ.get(key) ?? []), arriving[i + 1] ?? ""]);
        }
        const believed = [...dropped, ...added, "content-length"];
        expect(believed.filter((each) => environ.get(read(each))?.includes("evil"))).toEqual([]);
      }
    }),
    runs(10_000),
  );
  expect(passed).toBeGreaterThan(scaled(400));
});

test("of a head that comes again, what is remembered is that of the configuration in force", () => {
  const memory = new HeadMemory(new HeadersMemory());
  const rawHeaders = ["Host", "h", "Remote-User", "evil"];
  const parsed = { message: { host: "h" }, target: undefined, upstreamTarget: "/v2/x" };
  const head = { method: "GET", rawHeaders, peer, memory };
  const exchange = { id: "i", method: "GET", transport: { scheme: "http" }, head, verdict: { parsed } };
  const others = { ...options, fieldNames: new FieldNames([], []) };
  const arrives = [options, options, others, others, options].map((each) =>
    upstreamRequestFields(exchange as unknown as Exchange, each).includes("Remote-User"),
  );
  expect(arrives).toEqual([false, false, true, true, false]);
});
