// Slow uploads and slow readers that hold all connections to the upstream, over both carriers, and come back as soon as they
// are cut off: the next client is served all the same. `test/conformance/faults/measure-slow-holders.ts` measures how soon.
import { expect, test, vi } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import { Http2Client } from "../support/http2-client.ts";
import { metric, upstreamConnections } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { inFull, spread } from "../support/runs.ts";
import { request, response, stageRaw } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const withTls = useTls();
/** More than is read of a body before it gets a connection. */
const begun = "x".repeat(70_000);
const large = "r".repeat(8_000_000);
const asked = 5;
/** For three hundred clients on a machine that is busy. */
const patientMs = 30_000;

interface Case {
  readonly isHttp2: boolean;
  readonly isRead: boolean;
  readonly pool: number;
  readonly clients: number;
}

const small = [false, true].flatMap((isHttp2) =>
  [false, true].flatMap((isRead) => [3, 20].map((clients) => ({ isHttp2, isRead, pool: 16, clients }))),
);
const cases: readonly Case[] = [
  ...spread(small, 3),
  ...inFull([{ isHttp2: false, isRead: false, pool: 256, clients: 300 }]),
];

const addressOf = (client: number): string => `198.51.${Math.floor(client / 200)}.${1 + (client % 200)}`;

async function stage({ isHttp2, isRead, pool }: Case) {
  holdTimers(cleanup);
  const clock = new FakeClock();
  const { ca, overrides } = withTls();
  const { gateway, connect } = await stageRaw(
    cleanup,
    (socket, data) => {
      const text = data.toString("latin1", 0, 40);
      if (text.startsWith("GET /v2/large")) socket.write(response(large));
      else if (text.startsWith("GET")) socket.write(response("ok"));
    },
    {
      ...(isHttp2 ? overrides : {}),
      policies: [slidingPolicy({ limit: 1_000_000, windowMs: 60_000 })],
      clientAddress: { trustedProxies: ["127.0.0.1"] },
      upstream: { maxConnections: pool, connectTimeoutMs: 60_000 },
      timeouts: { bodyMs: 3_600_000 },
    },
    clock,
  );
  /** Calls back when it was cut off. */
  const holdHttp1 = (address: string, again: () => void): void => {
    const client = connect();
    const fields = `X-Forwarded-For: ${address}\r\n`;
    const length = `Content-Length: 9000000\r\n`;
    if (isRead) client.socket.pause();
    client.write(
      isRead
        ? request("/v2/large", { fields })
        : request("/v2/up", { method: "POST", fields: fields + length, body: begun }),
    );
    client.socket.once("close", again);
  };
  let session: Http2Client | null = null;
  const holdHttp2 = (address: string, again: () => void): void => {
    const fields = { "x-forwarded-for": address };
    const upload = { method: "POST", body: begun, isOpen: true };
    session ??= new Http2Client(gateway.traffic.port, ca, cleanup);
    const stream = session.open({
      path: isRead ? "/v2/large" : "/v2/up",
      fields,
      ...(isRead ? {} : upload),
    });
    if (isRead) stream.pause();
    else stream.resume();
    stream.once("close", again);
  };
  return {
    gateway,
    hold: isHttp2 ? holdHttp2 : holdHttp1,
    /** A second in which none of them moves a byte. */
    passSecond() {
      clock.advance(1_000);
      vi.advanceTimersByTime(1_000);
    },
    async ask(): Promise<number> {
      const fields = { "x-forwarded-for": "203.0.113.9" };
      if (isHttp2) return (await new Http2Client(gateway.traffic.port, ca, cleanup).ask({ fields })).status;
      return (await connect().ask(request("/v2/quick", { fields: "X-Forwarded-For: 203.0.113.9\r\n" }))).status;
    },
  };
}

test.each(cases)(
  "$clients clients (HTTP/2: $isHttp2, readers: $isRead) hold what they get of $pool connections, and the next one has no failure",
  async (it) => {
    const { gateway, hold, passSecond, ask } = await stage(it);
    const holders = Math.ceil(it.pool * 1.2);
    let cuts = 0;
    let isOver = false;
    cleanup(() => {
      isOver = true;
    });
    const holdAgain = (holder: number): void => {
      hold(addressOf(holder % it.clients), () => {
        cuts += 1;
        if (!isOver) holdAgain(holder);
      });
    };
    for (let holder = 0; holder < holders; holder += 1) holdAgain(holder);
    await eventually(
      "each has a connection or waits",
      async () => {
        const { active, waiting } = await upstreamConnections(gateway);
        return active + waiting === holders;
      },
      patientMs,
    );
    const { active } = await upstreamConnections(gateway);
    expect(active).toBe(it.clients === 3 ? (it.pool * 3) / 4 : it.pool);
    // Buffers of the kernel are full by now, and uploads stand still.
    for (let request = 0; request < asked; request += 1) {
      let status: number | null = null;
      const answer = ask().then((got) => {
        status = got;
      });
      passSecond();
      await eventually("it is answered", () => {
        // Where a connection is free, only a busy machine makes it wait, and the others would be cut off as slow meanwhile.
        if (status === null && it.clients > it.pool) passSecond();
        return status !== null;
      });
      await answer;
      expect(status).toBe(200);
    }
    const over = await metric(gateway, 'headgate_client_share_exceeded_total{resource="connections"}');
    if (it.clients > it.pool) expect(over).toBeGreaterThan(0);
    else expect([over, cuts]).toEqual([0, 0]);
  },
);
