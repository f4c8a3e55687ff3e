// `onFailure: closed` without a store: whatever carries a request, it is refused with 503 and all fields, and nothing is
// charged. Requests under no route are answered as ever.
import { expect, test } from "vitest";
import type { Settings } from "../../src/core/settings.ts";
import { carriers, rateLimitCarrier } from "../exchange/carriers.ts";
import { useCleanup } from "../support/cleanup.ts";
import { sixFields } from "../support/contract-fields.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway, testSettings } from "../support/gateway.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { useTls } from "../support/tls-listener.ts";
import { deadPort, deadUrl } from "../support/unavailable.ts";

const cleanup = useCleanup();
const withTls = useTls();

const address = { host: "127.0.0.1", port: deadPort };
const closedStore: NonNullable<Settings["counters"]["redis"]> = {
  connection: { servers: { kind: "one", address }, database: 0, username: null, passwordFile: null, tls: null },
  store: {
    prefix: "headgate:",
    waitMs: 10,
    lease: { durationMs: 1000, most: 1000 },
    onFailure: "closed",
    replicas: "auto",
    maxKeys: 1_000_000,
  },
};

test("over every carrier, nothing is admitted, and the answer says why", async () => {
  const tls = withTls({});
  const asked = { host: "127.0.0.1", port: 0, maxConnections: 10 };
  const counters = { ...testSettings(deadUrl).counters, redis: closedStore };
  const overrides = { extAuth: { http: asked, grpc: asked, trustedCallers: ["127.0.0.1"] }, counters };
  // The start waits a second for the store: both at once.
  const [plain, secure] = await Promise.all(
    [overrides, { ...overrides, ...tls.overrides }].map((each) =>
      startTestGateway({ upstreamUrl: deadUrl, overrides: each }),
    ),
  );
  if (plain === undefined || secure === undefined) throw new Error("there are two gateways");
  cleanup(() => Promise.all([plain.close(), secure.close()]));
  // Of these refusals five a second are logged for each client, so one of the two for checks over HTTP has to do, and one of
  // the two over HTTP/1.1.
  const fiveInAll = carriers.filter(({ name }) => !name.includes("in chunks"));
  for (const carrier of [...fiveInAll, rateLimitCarrier]) {
    const gateway = carrier.name === "http2" ? secure : plain;
    const before = gateway.logLines.filter(({ msg }) => msg === "request").length;
    const sent = carrier.send(gateway, cleanup, tls.ca);
    const [status, headers] = [await sent.answered, await sent.headers];
    const expected = carrier.forwards ? 503 : carrier.name === "ext-auth HTTP" ? 403 : 200;
    expect([carrier.name, status]).toEqual([carrier.name, expected]);
    const names = sixFields.map((name) => name.toLowerCase());
    expect([carrier.name, headers.filter((name) => names.includes(name)).toSorted()]).toEqual([
      carrier.name,
      names.toSorted(),
    ]);
    const lines = () => gateway.logLines.filter(({ msg }) => msg === "request");
    await eventually("the exchange has ended", () => lines().length === before + 1);
    expect(lines().at(-1)).toMatchObject({ status: 503, problem: "store_unavailable", decision: "unavailable" });
  }
  const connection = cleanup(new RawConnection(plain.traffic.port));
  const { status, rawHeaders } = await connection.ask("GET /other HTTP/1.1\r\nHost: a\r\n\r\n");
  expect([status, valuesOf(rawHeaders, "RateLimit-Remaining")]).toEqual([404, ["100"]]);
  const ready = await fetch(`${plain.adminUrl}/readyz`);
  expect(ready.status).toBe(200);
});
