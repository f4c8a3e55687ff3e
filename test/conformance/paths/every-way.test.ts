// What a spelling of a path opens and closes is the same on each way a request can come.
import { expect, test } from "vitest";
import { stageTokens } from "../../auth/carriers.ts";
import { digestOf } from "../../auth/digest.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { useTls } from "../../support/tls-listener.ts";

const cleanup = useCleanup();
const tls = useTls();

const yaml = `
auth: { mode: tokens, tokensFile: tokens.txt, rules: [{ paths: [/v2/public/], mode: "off" }] }
policies: [{ name: per-ip, limit: 20, window: 60s }]
`;

/** What each costs, and its status. The last ones come when the quota is used up. */
const expected: readonly (readonly [path: string, status: number, cost: number])[] = [
  ["/v2/public/x", 200, 1],
  ["/v2/public/%C4%B1", 200, 1],
  ["/v2/publ%C4%B1c/x", 401, 1],
  ["/v2/publ%C4%B0c/x", 401, 1],
  ["/v2/PUBLIC/x", 401, 1],
  ["/v2/publi%63/x", 401, 1],
  ["//a%2fb/v2/public/x", 400, 1],
  ["//a%5cb/v2/x", 400, 1],
  ["//u%2f@h/v2/x", 400, 1],
  ["//a%252fv2/x", 400, 1],
  ["/%252fa/v2/x", 400, 1],
  ["//a%76%32/x", 400, 1],
  ["/v2%252e", 400, 1],
  ["/v2%25%32%65/x", 400, 1],
  ["//a%2fb/x", 200, 0],
  ["/other", 200, 0],
  ...Array.from({ length: 6 }, () => ["/v2/public/x", 200, 1] as const),
  ["//a%2fb/v2/x", 429, 0],
  ["/v2%252e", 429, 0],
  ["/v2/publ%C4%B1c/x", 429, 0],
];

test("a look-alike of an open path asks for a token, and a route behind a host is limited", async () => {
  const options = { tls: tls(), yaml, tokens: [digestOf("a")], withPlugin: true, unmatched: "proxy" } as const;
  const { carriers } = await stageTokens(cleanup, options);
  expect(carriers).toHaveLength(5);
  for (const [way, { name, ask }] of carriers.entries()) {
    let left = 20;
    for (const [path, status, cost] of expected) {
      const answer = await ask({ client: `192.0.2.${way}`, path, token: null });
      left -= cost;
      const remaining = Number(answer.fields.get("ratelimit-remaining"));
      expect([name, path, answer.status, remaining]).toEqual([name, path, status, left]);
    }
  }
});

/** Two dots and anything unusual beside them: refused, also where all readings are under one route. */
const dots: readonly (readonly [path: string, status: number])[] = [
  ["/v2/a/../b", 200],
  ["/v2/a+b/../c", 200],
  ["/v2/a..b/%20", 200],
  ["/v2/a//b", 200],
  ["/v2/a%20b/../c", 400],
  ["/v2/a/../c%20d", 400],
  ["/v2/foo//../bar", 400],
  ["/v2/a;x/../c", 400],
  ["/v2/a/%2e%2e/b", 400],
  ["/v2/a/..;x/b", 400],
  ["/v2/foo/..#frag", 400],
];

test("a segment of two dots beside anything unusual is 400, and counted", async () => {
  const ownYaml = "auth: { mode: off }\npolicies: [{ name: per-ip, limit: 20, window: 60s }]\n";
  const options = { tls: tls(), yaml: ownYaml, tokens: [], withPlugin: true, routes: ["/"] } as const;
  const { carriers } = await stageTokens(cleanup, options);
  expect(carriers).toHaveLength(5);
  for (const [way, { name, ask }] of carriers.entries()) {
    for (const [i, [path, status]] of dots.entries()) {
      const answer = await ask({ client: `192.0.2.${way}`, path, token: null });
      const remaining = Number(answer.fields.get("ratelimit-remaining"));
      expect([name, path, answer.status, remaining]).toEqual([name, path, status, 19 - i]);
    }
  }
});

test("nothing is asked of a path under no route, and a token is where the path may be under one", async () => {
  const roomy = yaml.replace("limit: 20", "limit: 1000");
  const options = { tls: tls(), yaml: roomy, tokens: [digestOf("a")], unmatched: "proxy" } as const;
  const { carriers } = await stageTokens(cleanup, options);
  for (const { name, ask } of carriers) {
    for (const authorization of [null, "Bearer unknown", "Basic eA=="]) {
      const fields = authorization === null ? [] : [["authorization", authorization] as const];
      const statusOf = async (path: string) => (await ask({ client: "192.0.2.1", path, token: null, fields })).status;
      for (const path of ["/health", "/v3/x", "/a%20b"])
        expect([name, path, await statusOf(path)]).toEqual([name, path, 200]);
      for (const path of ["/v2/x", "/V1", "//v2/x", "/%76%32/x"]) {
        expect([name, path, await statusOf(path)]).toEqual([name, path, 401]);
      }
    }
  }
});
