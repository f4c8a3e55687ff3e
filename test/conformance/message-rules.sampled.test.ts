// The rules of messages on every carrier: the status, the six fields once each, and what it costs the client.
import { beforeAll, describe, expect, test } from "vitest";
import { type Carriers, limit, openCarriers } from "../support/carriers.ts";
import { useCleanup, useSharedCleanup } from "../support/cleanup.ts";
import { sixFields } from "../support/contract-fields.ts";
import { valuesOf } from "../support/raw-client.ts";
import { inFullOr } from "../support/runs.ts";
import { useTls } from "../support/tls-listener.ts";
import { type Carrier, messageRules } from "./messages/rules.ts";

const cleanup = useCleanup();
const sharedCleanup = useSharedCleanup();
const tls = useTls();
let carriers: Carriers;
beforeAll(async () => {
  carriers = await openCarriers(sharedCleanup, tls());
});

const kinds: readonly Carrier[] = [
  ...(["HTTP/1.1", "HTTP/2", "auth-request", "ext-authz", "gRPC"] as const),
  ...(["plugin", "plugin over HTTP/2"] as const),
];

/** What each carrier's client has left. Both versions of HTTP have the same client. */
const left = new Map<string, number>();
const clientOf = (carrier: Carrier): string => (carrier === "HTTP/2" ? "HTTP/1.1" : carrier);
const remainingOf = (carrier: Carrier): number => left.get(clientOf(carrier)) ?? limit;

describe.each(kinds)("%s", (carrier) => {
  const rows = messageRules.flatMap((rule) => {
    const expected = rule.except?.[carrier] ?? rule.outcome;
    return expected.status === "absent" ? [] : [{ ...rule, expected }];
  });

  // `npm test` asks each rule of some carriers.
  const some = rows.filter((_, i) => (i + kinds.indexOf(carrier)) % 3 === 0);
  test.each(inFullOr(rows, some))("$name: $expected.status", async ({ expected, ...rule }) => {
    const before = carriers.received.length;
    const { status, rawHeaders } = await carriers.ask[carrier](rule, cleanup);
    const shown = valuesOf(rawHeaders, "RateLimit-Remaining")[0];
    const remaining = shown === undefined ? remainingOf(carrier) : Number(shown);
    const spent = remainingOf(carrier) - remaining;
    left.set(clientOf(carrier), remaining);
    expect(status).toBe(expected.status);
    const isAnswer = status !== "reset" && expected.isOfCall !== true;
    const once = Object.fromEntries(sixFields.map((name) => [name, valuesOf(rawHeaders, name).length]));
    expect(once).toEqual(Object.fromEntries(sixFields.map((name) => [name, isAnswer ? 1 : 0])));
    if (isAnswer) expect(spent).toBe(expected.spent);
    if (status !== 200) expect(carriers.received.length).toBe(before);
  });
});

test("each exception has its reason, and is one", () => {
  for (const { outcome, except = {} } of messageRules) {
    for (const { why, ...exception } of Object.values(except)) {
      expect(why).not.toBe("");
      expect(exception).not.toEqual(outcome);
    }
  }
});

test("empty cookies leave nothing behind", async () => {
  for (const [values, sent] of [
    [["a=1", "", "b=2"], "a=1; b=2"],
    [["", "", "b=2"], "b=2"],
    [["a=1", ""], "a=1"],
    [[""], ""],
  ] as const) {
    const fields = values.map((value) => ["cookie", value] as const);
    await carriers.ask["HTTP/2"]({ fields }, cleanup);
    expect(valuesOf(carriers.received.at(-1)?.rawHeaders ?? [], "cookie")).toEqual([sent]);
  }
});
