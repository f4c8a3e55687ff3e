// Some upstreams take a login by NTLM or Negotiate for one of its connection (RFC 4559, 6): whoever sends the next request on
// it is the one who logged in. So a connection that has seen such a login, or was asked for one, carries no other request.
import type { Socket } from "node:net";
import { beforeAll, describe, expect, test } from "vitest";
import { startTestApp } from "../fastify/app.ts";
import { useCleanup, useSharedCleanup } from "../support/cleanup.ts";
import { Http2Client } from "../support/http2-client.ts";
import { slidingPolicy } from "../support/policy.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { spread } from "../support/runs.ts";
import { response, stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const sharedCleanup = useSharedCleanup();
const withTls = useTls();

/** Whom the upstream takes each connection for. */
const loggedIn = new WeakMap<Socket, string>();
/** The connection of each request to the upstream. */
const used: Socket[] = [];
let answer: string | null = null;
let ca = "";
let port = 0;
let portOfPlugin = 0;

/** Greets who has logged in on the connection, unless the test says how to answer. */
function greet(socket: Socket, data: Buffer): void {
  used.push(socket);
  const login = /^authorization: .*?(?:ntlm|negotiate)\s+(\w+)/im.exec(data.toString("latin1"));
  if (login !== null) loggedIn.set(socket, login[1] as string);
  socket.write(answer ?? response(`hello ${loggedIn.get(socket) ?? "stranger"}`), "latin1");
}

beforeAll(async () => {
  const policies = [slidingPolicy({ limit: 10_000, windowMs: 60_000 })];
  const tls = withTls({ policies, auth: { mode: "off" } });
  const { gateway, upstream } = await stageRaw(sharedCleanup, greet, tls.overrides);
  ({ ca } = tls);
  port = gateway.traffic.port;
  const options = { routes: ["/v2/"], auth: { mode: "off" }, upstream: { url: upstream.url } } as const;
  portOfPlugin = (await startTestApp(sharedCleanup, { options })).port;
});

async function askOn(client: RawConnection, authorization?: string, line = "GET /v2/x HTTP/1.1"): Promise<string> {
  cleanup(() => client.destroy());
  const field = authorization === undefined ? "" : `Authorization: ${authorization}\r\n`;
  let read = await client.ask(`${line}\r\nHost: api.test\r\n${field}\r\n`);
  while (read.status < 200) read = await client.read();
  return read.body;
}

/** Each request comes from a client of its own. */
const carriers = {
  "HTTP/1.1": (authorization?: string, line?: string) =>
    askOn(new RawConnection(port, { tls: { ca } }), authorization, line),
  "the plugin": (authorization?: string) => askOn(new RawConnection(portOfPlugin), authorization),
  async "HTTP/2"(authorization?: string): Promise<string> {
    const client = new Http2Client(port, ca, cleanup);
    return (await client.ask({ fields: { authorization: authorization ?? [] } })).body;
  },
};

const logins = [
  ...["NTLM alice", "ntlm alice", "Ntlm  alice", "NTLM\talice", "Negotiate alice", "nEGOTIATE alice"],
  ...["Basic x, NTLM alice", "Basic x,NTLM alice", "Bearer x, NTLM alice", ", Negotiate alice"],
];
const otherCredentials = ["Bearer ntlm", "Basic bnRsbSBhbGljZQ==", 'Digest realm="ntlm"', "Bearer x.ntlm"];

describe.each(Object.entries(carriers))("over %s", (_, ask) => {
  test.each(spread(logins, 3))(
    "after an Authorization of %j a stranger is not taken for alice",
    async (authorization) => {
      answer = null;
      expect(await ask(authorization)).toBe("hello alice");
      expect(await ask()).toBe("hello stranger");
    },
  );

  test.each(spread(otherCredentials, 3))(
    "an Authorization of %j leaves the connection to the next request",
    async (credentials) => {
      answer = null;
      await ask(credentials);
      await ask();
      expect(used.at(-1)).toBe(used.at(-2));
    },
  );
});

const challenge = (value: string, statusLine = "401 Unauthorized"): string =>
  response("", `WWW-Authenticate: ${value}\r\n`, statusLine);

const challenges: readonly (readonly [what: string, answer: string, line?: string])[] = [
  ["NTLM", challenge("NTLM")],
  ["Negotiate", challenge("Negotiate")],
  ["Kerberos", challenge("Kerberos")],
  ["CredSSP", challenge("CredSSP")],
  ["lower case", challenge("ntlm").replace("WWW-A", "www-a")],
  ["capitals", challenge("NEGOTIATE").replace("WWW-Authenticate", "WWW-AUTHENTICATE")],
  ["a token", challenge("NTLM TlRMTVNTUAACAAAA")],
  ["a list that begins with it", challenge('Negotiate, Basic realm="x"')],
  ["a list that ends with it", challenge('Basic realm="x", Digest nonce="a,b" ,NTLM')],
  ["a second line", challenge('Basic realm="x"\r\nWWW-Authenticate: NTLM')],
  ["a first line", challenge('NTLM\r\nWWW-Authenticate: Basic realm="x"')],
  ["blanks around it", challenge("\t NTLM \t")],
  ["a name that Connection names", challenge("NTLM\r\nConnection: www-authenticate")],
  ["200", challenge("Negotiate oRQwEqADCgEAoQs=", "200 OK")],
  ["407", challenge("NTLM", "407 Proxy Authentication Required")],
  ["503", challenge("NTLM", "503 Service Unavailable")],
  ["304", "HTTP/1.1 304 Not Modified\r\nWWW-Authenticate: NTLM\r\n\r\n"],
  ["a response in chunks", "HTTP/1.1 401 \r\nWWW-Authenticate: NTLM\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
  ["an interim response", `HTTP/1.1 103 Early Hints\r\nWWW-Authenticate: NTLM\r\n\r\n${response("")}`],
  ["a response to a HEAD", challenge("NTLM"), "HEAD /v2/x HTTP/1.1"],
];

test.each(spread(challenges, 2))("a connection is closed after a WWW-Authenticate with %s", async (_, bytes, line) => {
  const ask = carriers["HTTP/1.1"];
  // The second time the gateway knows the head.
  for (const sent of [bytes, bytes, response("")]) {
    answer = sent ?? null;
    await ask("Bearer x", line);
  }
  expect(new Set(used.slice(-3)).size).toBe(3);
});

test.each(["Bearer", 'Basic realm="Negotiate"', 'Digest realm="a, b", nonce="ntlm"', "Basic"])(
  "a connection is kept after a WWW-Authenticate of %s",
  async (value) => {
    answer = challenge(value);
    for (let i = 0; i < 2; i += 1) await carriers["HTTP/1.1"]("Bearer x");
    expect(used.at(-1)).toBe(used.at(-2));
  },
);
