// Whom a verified token stands for, in the log and for ingresses: by name, by a keyed hash, or not at all.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { useTls } from "../support/tls-listener.ts";
import { stageTokens } from "./carriers.ts";
import { digestOf } from "./digest.ts";

const cleanup = useCleanup();
const tls = useTls();

const yaml = (subject: string): string => `
auth: { mode: tokens, tokensFile: tokens.txt }
policies: [{ name: by-name, limit: 2, window: 60s, key: [subject], who: verified }]
log: { subject: "${subject}" }
`;
const tokens = [`${digestOf("a")} # Zoë & Co`, `${digestOf("b")} # bob`, `${digestOf("c")}`];

async function stage(subject: string) {
  const staged = await stageTokens(cleanup, { tls: tls(), yaml: yaml(subject), tokens });
  const lines = () =>
    staged.gateway.logLines.filter(({ msg }) => msg === "request").map(({ status, subject }) => [status, subject]);
  return { ...staged, lines };
}

test("plain: the name is in the line of each request whose token was verified, refused ones too, and in no metric", async () => {
  const { carriers, gateway, lines } = await stage("plain");
  const [http1, , checkHttp, checkGrpc] = carriers;
  const ask = (carrier: typeof http1, token: string | null) => carrier?.ask({ client: "192.0.2.1", token });
  for (const token of ["a", "b", "a", "a", "c", "x", null]) await ask(http1, token);
  const zoe = "Zoë & Co";
  expect(lines()).toEqual([
    [200, zoe],
    [200, "bob"],
    [200, zoe],
    [429, zoe],
    [200, null],
    [401, null],
    [401, null],
  ]);

  const overHttp = await ask(checkHttp, "b");
  expect([overHttp?.status, overHttp?.fields.get("x-headgate-subject")]).toEqual([200, "bob"]);
  const refused = await ask(checkHttp, "b");
  expect([refused?.status, refused?.fields.has("x-headgate-subject")]).toEqual([429, false]);
  expect((await ask(checkHttp, "x"))?.fields.has("x-headgate-subject")).toBe(false);
  // Nothing of it goes to Envoy's client.
  const overGrpc = await ask(checkGrpc, "c");
  expect([overGrpc?.status, overGrpc?.fields.has("x-headgate-subject")]).toEqual([200, false]);
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  expect(metrics).not.toMatch(/bob|Zo/);
});

test("hashed: the same name has one hash, which says nothing of the name", async () => {
  const { carriers, lines } = await stage("hashed");
  for (const token of ["a", "b", "a", "x"]) await carriers[0]?.ask({ client: "192.0.2.1", token });
  const [[, a] = [], [, b] = [], [, again] = [], [, none] = []] = lines();
  expect([a, b]).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/), expect.stringMatching(/^[0-9a-f]{32}$/)]);
  expect([again, none]).toEqual([a, null]);
  expect(a).not.toBe(b);
  const other = await stage("hashed");
  await other.carriers[0]?.ask({ client: "192.0.2.1", token: "a" });
  expect(other.lines()[0]?.[1]).not.toBe(a);
});

test("off: nothing is said, neither in the log nor to an ingress", async () => {
  const { carriers, lines } = await stage("off");
  await carriers[0]?.ask({ client: "192.0.2.1", token: "b" });
  expect(lines()).toEqual([[200, null]]);
  const answer = await carriers[2]?.ask({ client: "192.0.2.1", token: "b" });
  expect([answer?.status, answer?.fields.has("x-headgate-subject")]).toEqual([200, false]);
});
