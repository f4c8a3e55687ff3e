// How slowly a body may move, over both carriers and in both directions: with `timeouts.body` of ten seconds, in a time that
// the test moves. A phone on a throttled line has 8 KiB a second.
import type { Socket } from "node:net";
import { describe, expect, test, vi } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import { type TestGateway, testSettings } from "../support/gateway.ts";
import { answerOf, Http2Client } from "../support/http2-client.ts";
import { metric } from "../support/metrics.ts";
import { request, response, stageRaw } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const withTls = useTls();
const kib = 1024;
const bodyMs = 10_000;
/** The longest that is tried: a client with three quarters of the rate is cut off after 40 seconds. */
const seconds = 60;

interface Row {
  /** Null: the default. */
  readonly rate: number | null;
  readonly bytesPerSecond: number;
  /** What the log names; null: the body arrives. */
  readonly bound: string | null;
}

const rows: readonly Row[] = [
  { rate: null, bytesPerSecond: 8 * kib, bound: null },
  { rate: null, bytesPerSecond: 4 * kib, bound: null },
  { rate: null, bytesPerSecond: 3 * kib, bound: "timeouts.bodyRate 4096 B/s" },
  { rate: null, bytesPerSecond: 0, bound: "timeouts.body 10 s" },
  { rate: 16 * kib, bytesPerSecond: 8 * kib, bound: "timeouts.bodyRate 16384 B/s" },
  { rate: 16 * kib, bytesPerSecond: 20 * kib, bound: null },
  { rate: 256, bytesPerSecond: 300, bound: null },
  { rate: 256, bytesPerSecond: 100, bound: "timeouts.bodyRate 256 B/s" },
];

async function stage(rate: number | null, isHttp2: boolean) {
  holdTimers(cleanup);
  const clock = new FakeClock();
  const received = { bytes: 0 };
  const sockets: Socket[] = [];
  const { ca, overrides } = withTls();
  const { gateway, upstream, connect } = await stageRaw(
    cleanup,
    (socket, data) => {
      sockets.push(socket);
      received.bytes += data.length;
    },
    { ...(isHttp2 ? overrides : {}), timeouts: { bodyMs, ...(rate === null ? {} : { bodyRate: rate }) } },
    clock,
  );
  return { gateway, upstream, connect, clock, received, ca, answer: () => sockets.at(-1)?.write(response("ok")) };
}

type Staged = Awaited<ReturnType<typeof stage>>;

/** A second passes: what is due happens. */
function passSecond({ clock }: Staged): void {
  clock.advance(1_000);
  vi.advanceTimersByTime(1_000);
}

interface Upload {
  write(bytes: Buffer): void;
  /** Ends the request. */
  end(): void;
  /** What the client got so far. */
  isAnswered(): boolean;
  answer(): Promise<{ readonly status: number }>;
}

function openUpload({ connect, gateway, ca }: Staged, bytes: number, isHttp2: boolean): Upload {
  if (isHttp2) {
    const client = new Http2Client(gateway.traffic.port, ca, cleanup);
    const fields = { "content-length": `${bytes}` };
    const stream = client.open({ method: "POST", path: "/v2/photo", fields, body: "", isOpen: true });
    // From the start of the upload. The test has a bound of its own.
    const answer = answerOf(stream, 60_000);
    answer.catch(() => {});
    let isAnswered = false;
    stream.on("response", () => {
      isAnswered = true;
    });
    return {
      write: (piece) => void stream.write(piece),
      end: () => void stream.end(),
      isAnswered: () => isAnswered,
      answer: () => answer,
    };
  }
  const client = connect().write(request("/v2/photo", { method: "POST", fields: `Content-Length: ${bytes}\r\n` }));
  return {
    write: (piece) => client.write(piece),
    end: () => {},
    isAnswered: () => client.rest !== "",
    answer: () => client.read(),
  };
}

/** For as many seconds as the body has, or until there is an answer. */
async function send(staged: Staged, upload: Upload, bytesPerSecond: number): Promise<void> {
  const { received } = staged;
  await eventually("the head is at the upstream", () => received.bytes > 0);
  let expected = received.bytes;
  for (let second = 0; second < seconds && !upload.isAnswered(); second += 1) {
    upload.write(Buffer.alloc(bytesPerSecond, "x"));
    expected += bytesPerSecond;
    await eventually("it has arrived", () => received.bytes >= expected || upload.isAnswered());
    passSecond(staged);
    // What the timers have caused reaches the client in a few turns of the loop.
    for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }
}

const lineOf = ({ logLines }: TestGateway) => logLines.find(({ msg }) => msg === "request");

describe.each([
  ["HTTP/1.1", false],
  ["HTTP/2", true],
] as const)("an upload over %s", (_, isHttp2) => {
  test.each(rows)("of $bytesPerSecond bytes a second, with bodyRate $rate: $bound", async (row) => {
    const { rate, bytesPerSecond, bound } = row;
    const staged = await stage(rate, isHttp2);
    const { gateway, answer } = staged;
    const upload = openUpload(staged, seconds * bytesPerSecond || 1, isHttp2);
    await send(staged, upload, bytesPerSecond);
    if (bound === null) {
      upload.end();
      answer();
    }
    const { status } = await upload.answer();
    await eventually("it is logged", () => lineOf(gateway) !== undefined);
    const { problem = null, detail = null } = lineOf(gateway) as { problem?: string; detail?: string };
    expect([status, problem]).toEqual(bound === null ? [200, null] : [408, "slow_request"]);
    if (bound === null) expect(detail).toBeNull();
    else expect(detail).toMatch(new RegExp(`^${bound}: \\d+ bytes in \\d+\\.\\d s of waiting for the client$`));
  });
});

test("a response that is read too slowly breaks off, and the log and the metric say why", async () => {
  holdTimers(cleanup);
  const clock = new FakeClock();
  const large = 30_000_000;
  const { gateway, connect } = await stageRaw(
    cleanup,
    (socket) => void socket.write(response("r".repeat(large))),
    { timeouts: { bodyMs } },
    clock,
  );
  const client = connect().write(request("/v2/large"));
  await client.readHead();
  client.socket.pause();
  await eventually("it is broken off", () => {
    clock.advance(1_000);
    vi.advanceTimersByTime(1_000);
    return lineOf(gateway) !== undefined;
  });
  expect(lineOf(gateway)).toMatchObject({
    ...{ status: 200, complete: false, problem: "slow_request" },
    detail: expect.stringMatching(/^timeouts\.body(Rate 4096 B\/s| 10 s): \d+ bytes in /),
  });
  expect(await metric(gateway, 'headgate_refusals_total{reason="slow_request"}')).toBe(1);
});

test("a head that comes too slowly is answered 408, and the log names timeouts.head", async () => {
  holdTimers(cleanup);
  const { gateway, connect } = await stageRaw(cleanup, () => {}, { timeouts: { headMs: 5_000 } });
  const client = connect().write("GET /v2/x HTTP/1.1\r\nHost: api");
  await eventually("it is late", () => {
    vi.advanceTimersByTime(1_000);
    return client.rest !== "";
  });
  expect((await client.read()).status).toBe(408);
  await eventually("it is logged", () => lineOf(gateway) !== undefined);
  expect(lineOf(gateway)).toMatchObject({ problem: "slow_request", detail: "timeouts.head" });
});

test("a reload changes the rate for the requests that begin after it", async () => {
  const staged = await stage(null, false);
  const { gateway, upstream } = staged;
  const overrides = { timeouts: { bodyMs, bodyRate: 16 * kib } };
  expect(await gateway.reload(testSettings(upstream.url, overrides))).toMatchObject({
    ok: true,
    changed: expect.arrayContaining(["timeouts.bodyRate"]),
    restart: [],
  });
  const upload = openUpload(staged, seconds * 8 * kib, false);
  await send(staged, upload, 8 * kib);
  expect((await upload.answer()).status).toBe(408);
});
