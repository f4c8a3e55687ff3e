// The examples in config/headgate.yaml, each exactly as it stands there: it is valid, without a warning, and does on the
// real gateway what its sentence promises.

import { writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { loadSettings } from "../../src/config/load.ts";
import { configurationWarnings } from "../../src/config/warnings.ts";
import { renderConfigError } from "../../src/config/written.ts";
import type { Settings } from "../../src/core/settings.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { decided } from "../support/decided.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { askedRequest, limitedRequest } from "../support/limited-request.ts";
import { metric } from "../support/metrics.ts";
import { allPackagedExamples, packagedExamples } from "../support/packaged-examples.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const folder = scratchFolder(afterAll);

const examples = packagedExamples();

function settingsOf(text: string): Settings {
  const file = join(folder, "headgate.yaml");
  writeFileSync(file, text);
  const loaded = loadSettings({ file, env: {}, cwd: folder, overrides: [] });
  if (!loaded.ok) throw new Error(loaded.errors.map(renderConfigError).join("\n"));
  return loaded.settings;
}

function withSnapshot(text: string): string {
  return text.replace("    path: null\n    every", "    path: counters\n    every");
}

/** Without what is said of each quota by token in the packaged mode, which needs no file of tokens. */
function warningsOf(settings: Settings): readonly string[] {
  return configurationWarnings(settings).filter((text) => !text.includes("requests without a token are counted too"));
}

test("there are the seven that people look for, and each is run here", () => {
  expect(examples.map(({ title }) => title)).toEqual(promises.map(([title]) => title));
});

test.each(examples)("$title It is valid, and changes something", ({ title, text }) => {
  const settings = settingsOf(title.includes("counters.snapshot.path") ? withSnapshot(text) : text);
  expect(warningsOf(settings)).toEqual([]);
  expect(settings.policies).not.toEqual(settingsOf("{}").policies);
});

test("all of them at once are valid", () => {
  const settings = settingsOf(withSnapshot(allPackagedExamples()));
  expect(warningsOf(settings)).toEqual([]);
  expect(settings.policies.map(({ name }) => name)).toEqual([
    ...["per-ip", "crypto-refresh", "at-once", "failed-logins", "trial", "monthly"],
  ]);
});

interface Answer {
  readonly status: number;
  field(name: string): string | undefined;
}

interface Asked {
  readonly client?: string;
  readonly method?: string;
  readonly target?: string;
  readonly token?: string;
}

/** The gateway with one example, and the clients of a proxy. */
async function start(text: string, respond?: (res: ServerResponse) => void) {
  const { policies } = settingsOf(text);
  const upstream = cleanup(await startUpstream(respond && ((_req, res) => respond(res))));
  const clock = new FakeClock();
  const gateway = await startTestGateway({
    upstreamUrl: upstream.url,
    clock,
    overrides: {
      policies,
      clientAddress: { trustedProxies: ["127.0.0.1"] },
      fields: ["standard", "structured"],
      drain: { timeoutMs: 0 },
    },
  });
  cleanup(() => gateway.close());

  function connect(): (asked?: Asked) => Promise<Answer> {
    const connection = cleanup(new RawConnection(gateway.traffic.port));
    return async ({ client = "192.0.2.1", method = "GET", target = "/v2/me", token = "a" } = {}) => {
      const fields = [`Authorization: Bearer ${token}`, `X-Forwarded-For: ${client}`, "Content-Length: 0"];
      connection.write(`${method} ${target} HTTP/1.1\r\nHost: api.test\r\n${fields.join("\r\n")}\r\n\r\n`);
      const { status, rawHeaders } = await connection.read({ method });
      return { status, field: (name) => valuesOf(rawHeaders, name)[0] };
    };
  }
  const ask = connect();
  const askTimes = async (times: number, asked: Asked = {}): Promise<Answer[]> => {
    const answers: Answer[] = [];
    for (let i = 0; i < times; i += 1) answers.push(await ask(asked));
    return answers;
  };
  return { gateway, upstream, clock, connect, ask, askTimes };
}

const admittedOf = (answers: readonly Answer[]): number => answers.filter(({ status }) => status === 200).length;

const promises: [title: string, run: (text: string) => Promise<void>][] = [
  [
    "A partner with a higher limit: 1000 for these addresses.",
    async (text) => {
      const { askTimes } = await start(text);
      const partner = await askTimes(101, { client: "203.0.113.77" });
      expect(admittedOf(partner)).toBe(101);
      expect(partner[100]?.field("RateLimit-Limit")).toBe("1000");
      expect(partner[100]?.field("RateLimit-Remaining")).toBe("899");
      expect(admittedOf(await askTimes(101))).toBe(100);
    },
  ],
  [
    "An internal network without a limit.",
    async (text) => {
      const { ask, askTimes } = await start(text);
      const internal = await askTimes(101, { client: "10.1.2.3" });
      expect(admittedOf(internal)).toBe(101);
      expect(internal[100]?.field("RateLimit-Remaining")).toBe("100");
      expect((await ask({ client: "11.1.2.3" })).field("RateLimit-Remaining")).toBe("99");
    },
  ],
  [
    'One a minute for the refresh of crypto holdings. "*" is one segment of any name.',
    async (text) => {
      const { ask, clock } = await start(text);
      const refresh = (id: string, method = "POST"): Promise<Answer> =>
        ask({ method, target: `/v2/crypto/synced/${id}/refresh` });
      expect((await refresh("7")).status).toBe(200);
      clock.advance(10_000);
      const second = await refresh("8");
      expect([second.status, second.field("Retry-After")]).toEqual([429, "50"]);
      expect((await refresh("8", "GET")).status).toBe(200);
      expect((await ask()).field("RateLimit-Remaining")).toBe("97");
      clock.advance(50_000);
      expect((await refresh("7")).status).toBe(200);
    },
  ],
  [
    "20 requests at once for each token.",
    async (text) => {
      const waiting: ServerResponse[] = [];
      const { ask, connect, upstream } = await start(text, (res) => void waiting.push(res));
      const begun = Array.from({ length: 20 }, () => connect()());
      await eventually("20 requests are under way", () => waiting.length === 20);
      const refused = await ask();
      expect([refused.status, refused.field("Retry-After")]).toEqual([429, "1"]);
      const other = connect()({ token: "b" });
      await eventually("another token has its own", () => waiting.length === 21);
      for (const res of waiting.splice(0)) res.end("ok");
      expect(admittedOf(await Promise.all([...begun, other]))).toBe(21);
      const next = ask();
      await eventually("a slot is free again", () => waiting.length === 1);
      waiting[0]?.end("ok");
      expect((await next).status).toBe(200);
      expect(upstream.hits()).toBe(22);
    },
  ],
  [
    "10 failed logins in 15 minutes. Until its status is known, each request counts as failed: at most 10 at once.",
    async (text) => {
      let status = 200;
      const waiting: ServerResponse[] = [];
      const { ask, askTimes, clock, connect, upstream } = await start(text, (res) => {
        res.statusCode = status;
        if (status === 200) res.end();
        else waiting.push(res);
      });
      expect(admittedOf(await askTimes(30))).toBe(30);
      status = 401;
      const guesses = Array.from({ length: 15 }, () => connect()());
      await eventually("ten guesses reach the upstream", () => waiting.length === 10);
      for (const res of waiting) res.end();
      const statuses = (await Promise.all(guesses)).map((guess) => guess.status).sort();
      expect(statuses).toEqual([...Array(10).fill(401), ...Array(5).fill(429)]);
      status = 200;
      expect((await ask()).status).toBe(429);
      expect(upstream.hits()).toBe(40);
      clock.advance(15 * 60_000);
      // The kept connection has been idle for too long by this clock, and may be closed before its next request is read.
      expect((await connect()()).status).toBe(200);
    },
  ],
  [
    "A trial of a tighter limit: it refuses nothing, and counts what it would have refused.",
    async (text) => {
      const { askTimes, gateway } = await start(text);
      const answers = await askTimes(70);
      expect(admittedOf(answers)).toBe(70);
      expect(answers[69]?.field("RateLimit-Remaining")).toBe("30");
      expect(answers[69]?.field("RateLimit-Policy")).not.toContain("trial");
      const counted = (outcome: string) =>
        metric(gateway, `headgate_decisions_total{policy="trial",outcome="${outcome}"}`);
      expect([await counted("admitted"), await counted("would_throttle")]).toEqual([60, 10]);
    },
  ],
  [
    "100,000 a month for each token; the month is that of the time zone. Set counters.snapshot.path too, or a restart empties it.",
    async (text) => {
      const { ask, clock } = await start(text);
      const left = async (token: string): Promise<string | undefined> =>
        /"monthly";r=\d+;t=\d+/.exec((await ask({ token })).field("RateLimit") ?? "")?.[0];
      // One minute before December in Berlin, where it is one hour later than in UTC.
      clock.wallOffsetMs = Date.UTC(2023, 10, 30, 22, 59) - clock.nowMs;
      expect([await left("a"), await left("a"), await left("b")]).toEqual([
        ...['"monthly";r=99999;t=60', '"monthly";r=99998;t=60', '"monthly";r=99999;t=60'],
      ]);
      clock.advance(60_000);
      expect(await left("a")).toBe(`"monthly";r=99999;t=${31 * 86_400}`);

      // In steps of a thousand, because so many requests take long.
      const monthly = settingsOf(text).policies.filter(({ name }) => name === "monthly");
      const limiter = new PolicyLimiter(
        monthly.map((policy) => ({ ...policy, cost: 1_000 })),
        { clock },
      );
      const { request, head } = limitedRequest({ rawHeaders: ["Authorization", "Bearer a"] });
      const outcomes = Array.from(
        { length: 101 },
        () => decided(limiter.ask(askedRequest(request, head, clock.nowMs), "anonymous")).outcome,
      );
      expect(outcomes).toEqual([...Array(100).fill("admitted"), "throttled"]);
    },
  ],
];

describe("on the gateway", () => {
  test.each(promises)("%s", async (title, run) => {
    await run(examples.find((example) => example.title === title)?.text ?? "");
  });
});
