// An upstream's own 429: its Retry-After reaches the client as it came, unless a quota of the gateway keeps the client back
// as well. Each kind of limit, used up and not.
import { expect, test } from "vitest";
import type { Policy } from "../../../src/core/policy.ts";
import { cleanupOf } from "../../support/cleanup.ts";
import { FakeClock } from "../../support/clock.ts";
import { eventually } from "../../support/eventually.ts";
import type { Overrides } from "../../support/gateway.ts";
import { Http2Client } from "../../support/http2-client.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { valuesOf } from "../../support/raw-client.ts";
import { request, response, stageRaw } from "../../support/stage.ts";
import { useTls } from "../../support/tls-listener.ts";

const withTls = useTls();

const kinds = {
  window: { kind: "sliding", windowMs: 60_000 },
  second: { kind: "sliding", windowMs: 1000 },
  day: { kind: "calendar", per: "day", timezone: "UTC" },
  month: { kind: "calendar", per: "month", timezone: "UTC" },
  slots: { kind: "concurrency" },
} as const;
const quarter = { rate: { kind: "sliding", windowMs: 900_000 } } as const;

/** A policy of that kind, named after it. */
function of(kind: keyof typeof kinds, limit: number, changes: Partial<Policy> = {}): Policy {
  return { ...slidingPolicy({ limit, windowMs: 60_000 }), name: kind, rate: kinds[kind], ...changes };
}
const failed = { ...quarter, name: "failed", chargeStatuses: [401, 403] };

// The fake clock shows 22:13:20.
const untilMidnight = "6400";
const date = "Mon, 01 Jan 2001 00:00:00 GMT";

interface Row {
  readonly policies: readonly Policy[];
  /** What the upstream says, and what the client then gets. */
  readonly says: readonly (readonly [upstream: readonly string[], client: readonly string[]])[];
  readonly overrides?: Overrides;
  readonly target?: string;
}

const asItCame = [[["1"], ["1"]] as const, [[], []] as const];
/** What the client gets if it has to wait so many seconds for the gateway. */
const waits = (seconds: string) => [[["1"], [seconds]] as const, [[], [seconds]] as const];

const rows: Readonly<Record<string, Row>> = {
  "a window with quota left": {
    policies: [of("window", 100)],
    says: [
      ...asItCame,
      ...["12.5", "soon", "1, 2", "0", "99999", date].map((value) => [[value], [value]] as const),
      [
        ["7", "1"],
        ["7", "1"],
      ],
    ],
  },
  "a day with quota left": { policies: [of("day", 1000)], says: asItCame },
  "a month with quota left": { policies: [of("month", 100_000)], says: asItCame },
  "slots, all in use": { policies: [of("slots", 1)], says: asItCame },
  "slots in use, and a window with quota left": { policies: [of("window", 100), of("slots", 1)], says: asItCame },
  "held units, which a 429 gives back": { policies: [of("window", 1, failed)], says: asItCame },
  "a shadow that is used up": { policies: [of("window", 1, { mode: "shadow" })], says: asItCame },
  "an exempt client": { policies: [of("window", 1, { exempt: ["127.0.0.1"] })], says: asItCame },
  "a request that no policy is about": {
    policies: [of("window", 1, { match: { paths: ["/v1/"], methods: [] } })],
    says: asItCame,
  },
  "a path outside of the routes, of a client whose quota is used up": {
    policies: [of("window", 1)],
    overrides: { unmatched: "proxy" },
    target: "/elsewhere",
    says: asItCame,
  },
  "a window that is used up": {
    policies: [of("window", 1)],
    says: [
      ...waits("60"),
      ...["12.5", "soon", "0", date].map((value) => [[value], ["60"]] as const),
      [["61"], ["61"]],
      [["1", "90"], ["90"]],
    ],
  },
  "a window with less left than a request costs": { policies: [of("window", 10, { cost: 6 })], says: waits("60") },
  "a day that is used up": { policies: [of("day", 1)], says: waits(untilMidnight) },
  "units that a 429 keeps": { policies: [of("window", 1, { ...failed, chargeStatuses: [429] })], says: waits("900") },
  "a window that is used up, behind held units that are shown": {
    policies: [of("window", 1), of("day", 5), of("window", 1, failed)],
    says: waits("60"),
  },
  "a short window that is used up, behind slots that are shown": {
    policies: [of("second", 1, { rate: { kind: "sliding", windowMs: 500 } }), of("slots", 1), of("window", 5)],
    says: [
      [[], ["1"]],
      [["1"], ["1"]],
    ],
  },
};

const stageOf = async (
  { policies, overrides = {} }: Row,
  context: Parameters<typeof cleanupOf>[0],
  listener: Overrides = {},
) => {
  const clock = new FakeClock();
  const cleanup = cleanupOf(context);
  let retryAfter: readonly string[] = [];
  const answer = (socket: { write(text: string): unknown }) => {
    const lines = retryAfter.map((value) => `reTRY-after: ${value}\r\n`).join("");
    socket.write(response("busy", `A: 1\r\n${lines}B: 2\r\n`, "429 Busy"));
  };
  const { gateway, connect } = await stageRaw(cleanup, answer, { policies, ...overrides, ...listener }, clock);
  const begin = (values: readonly string[]) => {
    // The quota of the time before is free again, and what has been idle for a day is closed.
    clock.advance(86_400_000);
    retryAfter = values;
  };
  return { gateway, connect, cleanup, begin };
};

test.concurrent.for(Object.entries(rows))("%s", async ([, row], context) => {
  const { connect, begin } = await stageOf(row, context);
  for (const [upstream, expected] of row.says) {
    begin(upstream);
    const client = connect();
    const ask = (target: string) => {
      client.write(request(target));
      return client.read();
    };
    if (row.target !== undefined) await ask("/v2/x");
    const { status, rawHeaders, body } = await ask(row.target ?? "/v2/x");
    expect([status, body, valuesOf(rawHeaders, "Retry-After")]).toEqual([429, "busy", expected]);
    expect(valuesOf(rawHeaders, "B")).toEqual(["2"]);
  }
});

test.for(["a window with quota left", "a window that is used up"])("over HTTP/2: %s", async (name, context) => {
  const row = rows[name] as Row;
  const { ca, overrides } = withTls();
  const { gateway, cleanup, begin } = await stageOf(row, context, overrides);
  for (const [upstream, expected] of row.says) {
    begin(upstream);
    const { status, rawHeaders, body } = await new Http2Client(gateway.traffic.port, ca, cleanup).ask();
    expect([status, body, valuesOf(rawHeaders, "retry-after")]).toEqual([429, "busy", expected]);
  }
});

test("a Retry-After that passes as it came keeps its spelling and its place", async (context) => {
  const { connect } = await stageRaw(cleanupOf(context), (socket) =>
    socket.write(response("", "A: 1\r\nretry-AFTER:  5 \r\nB: 2\r\n", "429 Busy")),
  );
  expect((await connect().ask(request("/v2/x"))).rawHeaders.slice(0, 8)).toEqual([
    ...["Content-Length", "0", "A", "1", "retry-AFTER", "5", "B", "2"],
  ]);
});

test("a quota that was used up counts no longer once it is free again", async (context) => {
  const held: (() => void)[] = [];
  const clock = new FakeClock();
  const { connect } = await stageRaw(
    cleanupOf(context),
    (socket) => void held.push(() => socket.write(response("", "", "429 Busy"))),
    { policies: [of("window", 1), of("slots", 3)] },
    clock,
  );
  for (const [passedMs, expected] of [
    [59_000, ["1"]],
    [50_000, ["10"]],
    [60_000, []],
  ] as const) {
    const client = connect().write(request("/v2/x"));
    await eventually("it is under way", () => held.length === 1);
    clock.advance(passedMs);
    held.pop()?.();
    expect(valuesOf((await client.read()).rawHeaders, "Retry-After")).toEqual(expected);
    clock.advance(60_000);
  }
});
