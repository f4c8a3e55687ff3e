// Nobody chooses who is charged: every row of the corpus, sent to gateways that trust nobody, somebody else, or the
// peer. Each time the log and the remaining quota say who paid, and the upstream says what it was told.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { vouchingNames } from "../../src/core/field-names.ts";
import type { Settings } from "../../src/core/settings.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request } from "../support/stage.ts";
import { startUpstream, type TestUpstream } from "../support/upstream.ts";
import { peer, type Spoof, spoofs, trusted } from "./spoofing-cases.ts";

const limit = 10_000;
const elsewhere = ["10.0.0.0/8", "2001:db8:ffff::/48"];

interface Trust extends Pick<Settings["clientAddress"], "trustedProxies" | "header"> {
  readonly claim: string;
  readonly client: (spoof: Spoof) => string;
}

const trusts: readonly Trust[] = [
  { claim: "trusting nobody", trustedProxies: [], header: "x-forwarded-for", client: () => peer },
  { claim: "trusting somebody else", trustedProxies: elsewhere, header: "x-forwarded-for", client: () => peer },
  { claim: "trusting somebody else's Forwarded", trustedProxies: elsewhere, header: "forwarded", client: () => peer },
  {
    claim: "trusting the peer's X-Forwarded-For",
    trustedProxies: trusted,
    header: "x-forwarded-for",
    client: (spoof) => spoof.byXForwardedFor,
  },
  {
    claim: "trusting the peer's Forwarded",
    trustedProxies: trusted,
    header: "forwarded",
    client: (spoof) => spoof.byForwarded,
  },
];

test("the corpus has at least 200 cases, each its own", () => {
  expect(spoofs.length * trusts.length).toBeGreaterThanOrEqual(200);
  expect(new Set(spoofs.map(({ claim }) => claim)).size).toBe(spoofs.length);
  expect(new Set(spoofs.map(({ lines }) => lines.join("\n"))).size).toBe(spoofs.length);
});

describe.each(trusts)("$claim", ({ trustedProxies, header, client: clientOf }) => {
  let upstream: TestUpstream;
  let gateway: TestGateway;
  beforeAll(async () => {
    upstream = await startUpstream();
    // Longer than all cases take: what each client has spent is added up.
    const policies = [slidingPolicy({ limit, windowMs: 3_600_000 })];
    const overrides = { clientAddress: { trustedProxies, header }, policies, drain: { timeoutMs: 0 } };
    gateway = await startTestGateway({ upstreamUrl: upstream.url, overrides });
  });
  afterAll(async () => {
    await gateway.close();
    await upstream.close();
  });

  /** How often each client was charged by the cases so far. */
  const charged = new Map<string, number>();
  const sentOf = (spoof: Spoof, name: string): string[] =>
    spoof.lines.flatMap((line) =>
      line.toLowerCase().startsWith(`${name}:`) ? [line.slice(name.length + 1).replace(/^ +| +$/g, "")] : [],
    );

  test.each(spoofs.map((spoof, i) => ({ ...spoof, target: `/v2/case-${i}` })))("$claim", async (spoof) => {
    const connection = new RawConnection(gateway.traffic.port);
    connection.write(request(spoof.target, { fields: spoof.lines.map((line) => `${line}\r\n`).join("") }));
    const { status, rawHeaders } = await connection.read();
    connection.destroy();
    expect(status).toBe(spoof.status ?? 200);

    // What cannot be read as a request has nobody to charge but shows the peer's quota.
    const isParsed = spoof.isParsed !== false;
    const client = isParsed ? clientOf(spoof) : peer;
    const paid = (charged.get(client) ?? 0) + (isParsed ? 1 : 0);
    charged.set(client, paid);
    expect(valuesOf(rawHeaders, "RateLimit-Remaining")).toEqual([`${limit - paid}`]);
    if (isParsed) {
      const logged = () => gateway.logLines.find((line) => line["path"] === spoof.target);
      await eventually("it is logged", () => logged() !== undefined);
      expect(logged()?.["client"]).toBe(client);
    }

    const arrived = upstream.received.filter(({ target }) => target === spoof.target);
    expect(arrived).toHaveLength(status === 200 ? 1 : 0);
    for (const { rawHeaders: told } of arrived) {
      const isBelieved = trustedProxies === trusted;
      // Of the two forwarding headers only the one that is read goes on.
      const other = header === "forwarded" ? "x-forwarded-for" : "forwarded";
      const kept = (name: string): string[] => (isBelieved && name !== other ? sentOf(spoof, name) : []);
      const keptOr = (name: string, own: string): string[] => (kept(name).length > 0 ? kept(name) : [own]);
      expect(valuesOf(told, "X-Forwarded-For")).toEqual([[...kept("x-forwarded-for"), peer].join(", ")]);
      expect(valuesOf(told, "Forwarded")).toEqual(kept("forwarded"));
      for (const name of vouchingNames) {
        if (name !== "forwarded") expect([name, valuesOf(told, name)]).toEqual([name, kept(name)]);
      }
      expect(valuesOf(told, "X-Forwarded-Proto")).toEqual(keptOr("x-forwarded-proto", "http"));
      expect(valuesOf(told, "X-Forwarded-Host")).toEqual(keptOr("x-forwarded-host", "api.test"));
    }
  });
});
