// How the decision listener begins and ends: with the gateway, and without losing what was asked.
import { createServer } from "node:net";
import { describe, expect, test, vi } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, soonMs, within } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { holdIntervals, holdTimers } from "../support/timers.ts";
import { deadUrl } from "../support/unavailable.ts";
import { stageDecision, token } from "./stage.ts";

const cleanup = useCleanup();
/** How long a connection that is idle when the port closes may still send a call. */
const graceMs = 1_000;
const call = `GET /ext-authz/v2/x HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n${token}\r\n`;

test("while the gateway drains calls are answered, each answer ends its connection, then the port is closed", async () => {
  holdTimers(cleanup);
  const drain = { delayMs: 3_000, timeoutMs: 10_000 };
  const { connect, gateway } = await stageDecision(cleanup, {}, { drain });
  const [kept, idle] = [connect(), connect()];
  for (const connection of [kept, idle]) {
    const { rawHeaders } = await connection.ask(call);
    expect(valuesOf(rawHeaders, "Connection")).toEqual(["keep-alive"]);
  }
  const late = connect();
  await eventually("it is open", () => !late.socket.connecting);
  const drained = gateway.close();
  await eventually("readiness fails", async () => (await fetch(`${gateway.adminUrl}/readyz`)).status === 503);
  for (const connection of [kept, connect()]) {
    const { status, rawHeaders } = await connection.ask(call);
    expect([status, valuesOf(rawHeaders, "Connection")]).toEqual([200, ["close"]]);
    expect(await connection.closed).toBe("end");
  }
  vi.advanceTimersByTime(drain.delayMs);
  // Also on a connection that was idle when the port closed.
  await eventually("the port is closed", async () => {
    const probe = connect();
    probe.socket.once("connect", () => probe.destroy());
    return (await probe.closed) === "ECONNREFUSED";
  });
  expect((await idle.ask(call)).status).toBe(200);
  vi.advanceTimersByTime(graceMs);
  await drained;
  expect(await late.closed).toBe("end");
});

test("a port that is taken is told with its listener, and leaves nothing open", async () => {
  const taken = cleanup(createServer().listen(0, "127.0.0.1"));
  await eventually("it listens", () => taken.listening);
  const address = taken.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const extAuth = { http: { host: "127.0.0.1", port, maxConnections: 1 }, trustedCallers: ["127.0.0.1"] };
  await expect(startTestGateway({ upstreamUrl: deadUrl, overrides: { extAuth } })).rejects.toMatchObject({
    listener: "ext-auth",
    address: { port },
    cause: { code: "EADDRINUSE" },
  });
});

test("a secrets file that cannot be used ends the start, and names its key", async () => {
  const extAuth = { http: { host: "127.0.0.1", port: 0, maxConnections: 1 }, secretsFile: "/nowhere/secrets" };
  await expect(startTestGateway({ upstreamUrl: deadUrl, overrides: { extAuth } })).rejects.toMatchObject({
    errors: [{ key: "extAuth.secretsFile" }],
  });
});

const refusedRaw = [
  ["a CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"],
  ["what is no HTTP", "?\r\n\r\n"],
] as const;

describe.each(refusedRaw)("behind %s", (_, bytes) => {
  test("a caller that keeps its side open is closed all the same", async () => {
    holdIntervals(cleanup);
    const { gateway } = await stageDecision(cleanup);
    const held = cleanup(new RawConnection(gateway.extAuth?.port ?? 0, { allowHalfOpen: true }));
    await held.ask(bytes);
    await eventually("it cannot be written to any more", () => {
      // The listener looks at its connections.
      vi.advanceTimersByTime(500);
      held.write("x");
      return held.socket.destroyed;
    });
  });

  test("a caller that keeps its side open does not keep the gateway from ending", async () => {
    const { gateway } = await stageDecision(cleanup);
    await cleanup(new RawConnection(gateway.extAuth?.port ?? 0, { allowHalfOpen: true })).ask(bytes);
    await within("the end", gateway.close(), soonMs);
  });

  test("a reset ends nothing but its connection", async () => {
    const { connect, ask } = await stageDecision(cleanup);
    const gone = connect().write(bytes);
    await gone.readHead();
    gone.socket.resetAndDestroy();
    await gone.closed;
    expect((await ask("/ext-authz/v2/x", `X-Forwarded-For: 192.0.2.1\r\n${token}`)).status).toBe(200);
  });
});
