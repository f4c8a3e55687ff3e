// With `unmatched: proxy`, nothing is asked of a path under no route: no quota and no token, over every carrier. A path
// that may be under a route is asked for both, however it is spelled.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { call, openClient } from "../ext-auth/grpc/client.ts";
import { check } from "../ext-auth/grpc/protocol.ts";
import { checkRequest } from "../ext-auth/grpc/requests.ts";
import { useCleanup } from "../support/cleanup.ts";
import { type Overrides, startTestGateway, type TestGateway } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { type TlsListener, useTls } from "../support/tls-listener.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const tls = useTls();
const folder = mkdtempSync(join(tmpdir(), "headgate-unmatched-"));
afterAll(() => rmSync(folder, { recursive: true }));
const tokensFile = join(folder, "tokens.txt");
writeFileSync(tokensFile, `${"ab".repeat(32)}\n`);

interface Way {
  readonly name: string;
  readonly overrides?: (tls: TlsListener) => Overrides;
  /** `authorization`: whole lines. Returns the status of the answer, or of the decision. */
  readonly ask: (gateway: TestGateway, path: string, authorization: string) => Promise<number>;
}

async function askBytes(port: number, bytes: string): Promise<number> {
  const connection = new RawConnection(port);
  cleanup(() => connection.destroy());
  connection.write(bytes);
  const { status } = await connection.read();
  connection.destroy();
  return status;
}

const checksOverHttp = (): Overrides => ({
  extAuth: { http: { host: "127.0.0.1", port: 0, maxConnections: 10 }, trustedCallers: ["127.0.0.1"] },
});

const question = (path: string, authorization: string): string =>
  `GET /auth-request HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\nX-Original-Method: GET\r\nX-Original-URI: ${path}\r\n${authorization}`;

const ways: readonly Way[] = [
  {
    name: "HTTP/1.1",
    ask: ({ traffic }, path, authorization) =>
      askBytes(traffic.port, `GET ${path} HTTP/1.1\r\nHost: a\r\n${authorization}\r\n`),
  },
  {
    name: "HTTP/2",
    overrides: ({ overrides }) => overrides,
    ask: async ({ traffic }, path, authorization) => {
      const { session } = new Http2Client(traffic.port, tls().ca, cleanup);
      const value = authorization.replace("Authorization: ", "").trim();
      const stream = session.request({ ":path": path, ...(value === "" ? {} : { authorization: value }) });
      stream.resume();
      return new Promise((resolve, reject) => {
        stream.once("response", (head) => resolve(Number(head[":status"])));
        stream.once("error", reject);
      });
    },
  },
  {
    name: "checks over HTTP",
    overrides: checksOverHttp,
    ask: ({ extAuth }, path, authorization) => askBytes(extAuth?.port ?? 0, `${question(path, authorization)}\r\n`),
  },
  {
    name: "checks over HTTP in chunks",
    overrides: checksOverHttp,
    ask: ({ extAuth }, path, authorization) =>
      askBytes(extAuth?.port ?? 0, `${question(path, authorization)}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`),
  },
  {
    name: "checks over gRPC",
    overrides: () => ({
      extAuth: { grpc: { host: "127.0.0.1", port: 0, maxConnections: 10 }, trustedCallers: ["127.0.0.1"] },
    }),
    ask: async ({ grpc }, path, authorization) => {
      const client = openClient(cleanup, grpc?.port ?? 0);
      const value = authorization.replace("Authorization: ", "").trim();
      const headers = { ":path": path, ...(value === "" ? {} : { authorization: value }) };
      const { message } = await call<{ denied_response: { status: { code: number } } | null }>(
        client,
        check,
        checkRequest({ path, headers }),
      );
      return message?.denied_response?.status.code ?? 200;
    },
  },
];

test.each(ways)("a path under no route passes without a token, over $name", async ({ overrides, ask }) => {
  const upstream = await startUpstream();
  cleanup(() => upstream.close());
  const gateway = await startTestGateway({
    upstreamUrl: upstream.url,
    overrides: {
      unmatched: "proxy",
      auth: { mode: "tokens", tokensFile },
      drain: { timeoutMs: 0 },
      ...overrides?.(tls()),
    },
  });
  cleanup(() => gateway.close());
  for (const authorization of ["", "Authorization: Bearer unknown\r\n", "Authorization: Basic eA==\r\n"]) {
    for (const path of ["/health", "/v3/x", "/a%20b"]) expect(await ask(gateway, path, authorization)).toBe(200);
    for (const path of ["/v2/x", "/V1", "//v2/x", "/%76%32/x"]) {
      expect([path, await ask(gateway, path, authorization)]).toEqual([path, 401]);
    }
  }
});
