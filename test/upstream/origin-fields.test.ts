// What the upstream is told of where a request came from: the gateway's word, and a trusted proxy's, nobody else's.
import { expect, test } from "vitest";
import type { ForwardingHeader } from "../../src/core/client-address.ts";
import { useCleanup } from "../support/cleanup.ts";
import { valuesOf } from "../support/raw-client.ts";
import { request, stageHttp } from "../support/stage.ts";

const cleanup = useCleanup();

const spoofed =
  "X-Forwarded-For: 6.6.6.6\r\nx-forwarded-for: 7.7.7.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.test\r\n" +
  "X-Forwarded-Port: 1\r\nX-Forwarded-Prefix: /x\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nX-Request-Id: spoofed\r\n" +
  "X-Original-URL: /v1/y\r\nx-rewrite-url: /v1/y\r\n";

async function forwarded(
  fields: string,
  trustedProxies: string[],
  { target = "/v2/x", header = "x-forwarded-for" as ForwardingHeader, keep = "any" as "any" | "trusted" } = {},
): Promise<readonly string[]> {
  const clientAddress = { trustedProxies, header };
  const { upstream, connect } = await stageHttp(cleanup, undefined, { clientAddress, requestId: { keep } });
  expect((await connect().ask(request(target, { fields }))).status).toBe(200);
  return upstream.received[0]?.rawHeaders ?? [];
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

test("a request is given its origin, a Via and an id", async () => {
  const rawHeaders = await forwarded("", []);
  expect(valuesOf(rawHeaders, "X-Forwarded-For")).toEqual(["127.0.0.1"]);
  expect(valuesOf(rawHeaders, "X-Forwarded-Proto")).toEqual(["http"]);
  expect(valuesOf(rawHeaders, "X-Forwarded-Host")).toEqual(["api.test"]);
  expect(valuesOf(rawHeaders, "Via")).toEqual(["1.1 headgate"]);
  expect(valuesOf(rawHeaders, "X-Request-Id")).toEqual([expect.stringMatching(uuid)]);
});

test.each(["x-forwarded-for", "forwarded"] as const)(
  "what an untrusted peer says of its origin is replaced, in every line and spelling (%s)",
  async (header) => {
    const rawHeaders = await forwarded(spoofed, ["10.0.0.0/8"], { header });
    expect(valuesOf(rawHeaders, "X-Forwarded-For")).toEqual(["127.0.0.1"]);
    expect(valuesOf(rawHeaders, "X-Forwarded-Proto")).toEqual(["http"]);
    expect(valuesOf(rawHeaders, "X-Forwarded-Host")).toEqual(["api.test"]);
    expect(valuesOf(rawHeaders, "X-Request-Id")).toEqual(["spoofed"]);
    const dropped = [
      "X-Forwarded-Port",
      "X-Forwarded-Prefix",
      "Forwarded",
      "X-Real-IP",
      "X-Original-URL",
      "X-Rewrite-URL",
    ];
    for (const name of dropped) expect(valuesOf(rawHeaders, name)).toEqual([]);
  },
);

test.each([
  ["x-forwarded-for", "6.6.6.6, 7.7.7.7, 127.0.0.1", []],
  ["forwarded", "127.0.0.1", ["for=6.6.6.6"]],
] as const)("what a trusted peer says is kept, but of the two headers only %s", async (header, chain, elements) => {
  const rawHeaders = await forwarded(spoofed, ["127.0.0.0/8"], { header });
  expect(valuesOf(rawHeaders, "X-Forwarded-For")).toEqual([chain]);
  expect(valuesOf(rawHeaders, "Forwarded")).toEqual(elements);
  expect(valuesOf(rawHeaders, "X-Forwarded-Proto")).toEqual(["https"]);
  expect(valuesOf(rawHeaders, "X-Forwarded-Host")).toEqual(["evil.test"]);
  expect(valuesOf(rawHeaders, "X-Forwarded-Port")).toEqual(["1"]);
  expect(valuesOf(rawHeaders, "X-Real-IP")).toEqual(["6.6.6.6"]);
  for (const name of ["X-Original-URL", "X-Rewrite-URL"]) expect(valuesOf(rawHeaders, name)).toEqual(["/v1/y"]);
  expect(valuesOf(rawHeaders, "X-Request-Id")).toEqual(["spoofed"]);
});

test.each(["a", "~!", '"x\\y', "sha-256=:X48E9q==:", "x".repeat(128)])(
  "an id like %j goes upstream as it came",
  async (id) => {
    expect(valuesOf(await forwarded(`x-request-ID:  ${id} \r\n`, []), "X-Request-Id")).toEqual([id]);
    const named = `X-Request-Id: ${id}\r\nConnection: x-request-id\r\n`;
    expect(valuesOf(await forwarded(named, []), "X-Request-Id")).toEqual([id]);
  },
);

test.each([...["a b", "a\tb", "\xe4", "x".repeat(129), "", "a, b\r\nX-Request-Id: c", "a\r\nx-request-id: a"]])(
  "an id like %j is replaced, even from a trusted peer",
  async (id) => {
    const rawHeaders = await forwarded(`X-Request-Id: ${id}\r\n`, ["127.0.0.1/32"]);
    expect(valuesOf(rawHeaders, "X-Request-Id")).toEqual([expect.stringMatching(uuid)]);
  },
);

test.each([
  ["10.0.0.0/8", expect.stringMatching(uuid)],
  ["127.0.0.0/8", "spoofed"],
])("with keep: trusted, where %s is trusted, the upstream gets the id %j", async (trusted, id) => {
  expect(valuesOf(await forwarded(spoofed, [trusted], { keep: "trusted" }), "X-Request-Id")).toEqual([id]);
});

test("a Via of the client's stays, and the gateway's is added behind it", async () => {
  expect(valuesOf(await forwarded("Via: 1.0 first\r\n", []), "Via")).toEqual(["1.0 first", "1.1 headgate"]);
});

test("the authority of an absolute target is the host that is told, not the Host beside it", async () => {
  const rawHeaders = await forwarded("", [], { target: "http://other.test/v2/x" });
  expect(valuesOf(rawHeaders, "Host")).toEqual(["other.test"]);
  expect(valuesOf(rawHeaders, "X-Forwarded-Host")).toEqual(["other.test"]);
});

test("two requests never have the same id, and the log has it", async () => {
  const { upstream, connect, gateway } = await stageHttp(cleanup);
  const client = connect();
  for (let i = 0; i < 2; i += 1) {
    await client.ask(request("/v2/x"));
  }
  const ids = upstream.received.flatMap(({ rawHeaders }) => valuesOf(rawHeaders, "X-Request-Id"));
  expect(new Set(ids).size).toBe(2);
  expect(gateway.logLines.map((line) => line["id"])).toEqual(expect.arrayContaining([ids[0]]));
});

test("the token is forwarded as it came", async () => {
  expect(valuesOf(await forwarded("", []), "Authorization")).toEqual(["Bearer secret-token"]);
});
