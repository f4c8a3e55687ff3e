// The call that the template of ingress-nginx makes: the target as a complete URL, whose host the client has chosen, beside
// fields of the client that the template does not set.
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { expectContractFields } from "../support/contract-fields.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import type { FramedResponse } from "../support/raw-connection.ts";
import { type DecisionStage, stageDecision, token } from "./stage.ts";

const cleanup = useCleanup();

/** As ingress-nginx sends it; `more` is what its client sends beside that. */
const call = (url: string, more = ""): string =>
  `${more}X-Original-URL: ${url}\r\nX-Original-Method: GET\r\nX-Sent-From: nginx-ingress-controller\r\nX-Real-IP: 192.0.2.1\r\n` +
  `X-Forwarded-For: 192.0.2.1\r\nX-Auth-Request-Redirect: /v2/me?x=1\r\n${token}`;

/** Over one connection. */
function asker({ connect }: DecisionStage): (fields: string) => Promise<FramedResponse> {
  const connection = connect();
  return (fields) => {
    connection.write(`GET /auth-request HTTP/1.1\r\nHost: headgate\r\n${fields}\r\n`);
    return connection.read();
  };
}

const decidedAbout = ({ gateway }: DecisionStage) =>
  gateway.logLines.filter(({ source }) => source === "ext-auth").map(({ path, client }) => [path, client]);

test("the annotation auth-url alone: what the limit allows is admitted for the target of the URL, the next is 429", async () => {
  const stage = await stageDecision(cleanup, {}, { policies: [slidingPolicy({ limit: 2, windowMs: 60_000 })] });
  for (const remaining of [1, 0]) {
    const answer = await stage.ask("/auth-request", call("https://api.example.com/v2/me?x=1"));
    expect(answer.status).toBe(200);
    expectContractFields(answer, { limit: 2, remaining });
  }
  const refused = await stage.ask("/auth-request", call("https://api.example.com/v2/me?x=1"));
  expect([refused.status, valuesOf(refused.rawHeaders, "Retry-After").length]).toEqual([429, 1]);
  expect(decidedAbout(stage)[0]).toEqual(["/v2/me", "192.0.2.1"]);
});

describe("the URL is cut by bytes", () => {
  test.each([
    ["http://a/v2/me", "/v2/me"],
    ["https://api.example.com:8443/v1/x?a=http://b/elsewhere", "/v1/x"],
    ["http://[2001:db8::1]:80/v2/x", "/v2/x"],
    // The first slash ends the host: what follows is a path with an empty first segment, which the proxy counts too.
    ["http://a//v2/x", "//v2/x"],
  ])("%s is about %s", async (url, path) => {
    const stage = await stageDecision(cleanup);
    const answer = await stage.ask("/auth-request", call(url));
    expectContractFields(answer, { limit: 100, remaining: 99 });
    expect(decidedAbout(stage)).toEqual([[path, "192.0.2.1"]]);
  });

  test("a URL without a valid host and port, or without a slash behind it, is refused with all fields", async () => {
    const ask = asker(await stageDecision(cleanup, {}, { unmatched: "proxy" }));
    // The hosts that nginx takes for a server that catches all, and what a client may do to the target.
    const hosts = [
      "",
      "a?",
      "a#",
      "a@b",
      "u:p@b",
      "a:b",
      "a:99999",
      "a b",
      "a\\b",
      "[::1",
      "a,b",
      "a%",
      "a<",
      'a"',
      "a|",
    ];
    const urls = [
      ...hosts.flatMap((host) => [`http://${host}/v2/me`, `https://${host}/health`]),
      ...[
        "http://a",
        "http://a?x=1",
        "http://a?/v2/me",
        "http:/a/v2/me",
        "http:///v2/me",
        "ftp://a/v2/me",
        "//a/v2/me",
      ],
      ...["/v2/me", "a/v2/me", "HTTP://a/v2/me", "http://a#/v2/me", "http://a/v2/me x", "*", ""],
    ];
    for (const url of urls) {
      const answer = await ask(call(url));
      expect([url, answer.status]).toEqual([url, 400]);
      expectContractFields(answer, { limit: 100, remaining: 100 });
    }
  });

  test("the host of the URL stands for the client's, and never Host", async () => {
    const { connect } = await stageDecision(cleanup);
    const ask = async (host: string, url: string): Promise<number> => {
      return (await connect().ask(`GET /auth-request HTTP/1.1\r\n${host}${call(url)}\r\n`)).status;
    };
    expect(await ask("Host: head?gate\r\n", "http://a/v2/me")).toBe(200);
    expect(await ask("Host: headgate\r\n", "http://a?b/v2/me")).toBe(400);
  });
});

describe("X-Original-URI", () => {
  test("beside the URL both are equal byte for byte, or the check is refused", async () => {
    const ask = asker(await stageDecision(cleanup));
    const uri = (...targets: string[]): string => targets.map((target) => `X-Original-URI: ${target}\r\n`).join("");
    for (const [more, status] of [
      // With the annotation auth-method the template sets both.
      [uri("/v2/me?x=1"), 200],
      [uri("/v2/me"), 400],
      [uri("/v2/ME?x=1"), 400],
      [uri("/v2/me?x=1", "/v2/other"), 400],
      [uri("http://a/v2/me?x=1"), 400],
      [uri(""), 400],
    ] as const) {
      const answer = await ask(call("http://a/v2/me?x=1", more));
      expect([more, answer.status]).toEqual([more, status]);
      expect(valuesOf(answer.rawHeaders, "RateLimit-Limit")).toEqual(["100"]);
    }
  });

  test("no URL is taken as a target in it", async () => {
    const ask = asker(await stageDecision(cleanup));
    for (const target of ["http://a/v2/me", "https://a/v2/me", "HTTP://a/v2/me", "a:b", "?/v2/me", "v2/me"]) {
      const fields = `X-Original-URI: ${target}\r\nX-Original-Method: GET\r\nX-Forwarded-For: 192.0.2.1\r\n${token}`;
      const answer = await ask(fields);
      expect([target, answer.status]).toEqual([target, 400]);
      expectContractFields(answer, { limit: 100, remaining: 100 });
    }
  });
});

test("a client that floods an ingress with such hosts is refused without another look, and no other client is", async () => {
  const refusals = { perSecond: 1, burst: 3 };
  const ask = asker(await stageDecision(cleanup, {}, { refusals }, { clock: new FakeClock() }));
  const statuses: number[] = [];
  for (let i = 0; i < 5; i += 1) statuses.push((await ask(call("http://a?/v2/me"))).status);
  expect(statuses).toEqual([400, 400, 400, 429, 429]);
  expect((await ask(call("http://a?/v2/me").replace("For: 192.0.2.1", "For: 192.0.2.2"))).status).toBe(400);
});

test("a call that names the URL twice, or no method, is a mistake of the ingress", async () => {
  const stage = await stageDecision(cleanup);
  for (const fields of [
    call("http://a/v2/me", "X-Original-URL: http://a/v2/me\r\n"),
    call("http://a/v2/me").replace("X-Original-Method: GET\r\n", ""),
  ]) {
    const answer = await stage.ask("/auth-request", fields);
    expect(answer.status).toBe(400);
    expect(answer.body).toContain("have to be named");
  }
  const other = `${call("http://a/v2/me")}X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /v1/x\r\n`;
  expect((await stage.ask("/forward-auth", other)).status).toBe(200);
  expect(decidedAbout(stage)).toEqual([["/v1/x", "192.0.2.1"]]);
});
