// Spellings of paths, through each ingress and as calls: an ingress may read, fold or encode a target anew between asking
// and forwarding, and what it forwards must not be something else than what was counted.
import { describe, expect, test } from "vitest";
import { landsUnder, pathReaders } from "../../core/path-readers.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { valuesOf } from "../../support/raw-client.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { spellingsOf } from "../paths/spellings.ts";
import { type RecordingUpstream, startRecordingUpstream } from "../recording-upstream.ts";
import { ingresses } from "./ingresses.ts";

const cleanup = useCleanup();
const { HEADGATE_REQUIRE } = process.env;
const limit = 1_000_000;
const routes = ["/v1/", "/v2/"];
/** Every third of the corpus: the whole of it is sent to the gateway elsewhere. */
const targets = [...spellingsOf("v1", "v2"), ...spellingsOf("v2", "v1")].filter((_, i) => i % 3 === 0);

interface Outcome {
  readonly status: number;
  /** Null if the answer has no fields: an ingress refused it by itself. */
  readonly remaining: number | null;
  readonly connectionEnds: boolean;
}

async function stage(): Promise<{ gateway: TestGateway; upstream: RecordingUpstream }> {
  const upstream = cleanup(await startRecordingUpstream());
  const http = { host: "127.0.0.1", port: 0, maxConnections: 100 };
  const overrides = {
    extAuth: { http, trustedCallers: ["127.0.0.1"] },
    policies: [slidingPolicy({ limit, windowMs: 3_600_000 })],
    // The harder case: what is under no route passes, uncounted.
    unmatched: "proxy" as const,
    drain: { timeoutMs: 0 },
    log: { access: false },
  };
  const gateway = cleanup(await startTestGateway({ upstreamUrl: upstream.url, overrides }));
  return { gateway, upstream };
}

/** Sends one after the other; a connection that ends is followed by a new one. */
function client(port: number): (head: string) => Promise<Outcome> {
  let connection = new RawConnection(port);
  cleanup(() => connection.destroy());
  return async (head) => {
    const { status, rawHeaders } = await connection.ask(head);
    const connectionEnds = valuesOf(rawHeaders, "Connection").join().toLowerCase() === "close";
    if (connectionEnds) {
      connection.destroy();
      connection = new RawConnection(port);
    }
    const [remaining] = valuesOf(rawHeaders, "RateLimit-Remaining");
    return { status, remaining: remaining === undefined ? null : Number(remaining), connectionEnds };
  };
}

const token = "Host: a\r\nAuthorization: Bearer t\r\n";
const landings = (target: string): string[] =>
  pathReaders.flatMap(({ read }) => landsUnder(read(target.replace(/\?.*$/s, "")), routes) ?? []);

test("each is decided for an ingress as it is for the proxy", async () => {
  const { gateway } = await stage();
  const direct = client(gateway.traffic.port);
  const asks = client(gateway.extAuth?.port ?? 0);
  let left = limit;
  for (const target of targets) {
    const proxied = await direct(`GET ${target} HTTP/1.1\r\n${token}\r\n`);
    const cost = left - (proxied.remaining ?? 0);
    const names = `X-Original-Method: GET\r\nX-Original-URI: ${target}\r\nX-Forwarded-For: 127.0.0.1\r\n`;
    const called = await asks(`GET /auth-request HTTP/1.1\r\n${token}${names}\r\n`);
    expect([target, called.status, called.remaining]).toEqual([target, proxied.status, left - 2 * cost]);
    left -= 2 * cost;
  }
  expect(limit - left).toBeGreaterThan(targets.length);
});

describe.each(ingresses)("$name", ({ name, debianPackage, isInstalled, start }) => {
  test.skipIf(!isInstalled && HEADGATE_REQUIRE !== "all")(
    `whatever arrives where a backend may see a route was counted, once (needs ${name}: apt-get install ${debianPackage})`,
    async () => {
      const { gateway, upstream } = await stage();
      const { port } = await start(cleanup, {
        extAuthPort: gateway.extAuth?.port ?? 0,
        backendPort: Number(new URL(upstream.url).port),
        whenDown: "open",
      });
      const send = client(port);
      const wrong: string[] = [];
      let left = limit;
      let counted = 0;
      for (const target of targets) {
        const { status, remaining } = await send(`GET ${target} HTTP/1.1\r\n${token}\r\n`);
        const [request, ...more] = upstream.take();
        const arrived = request?.lines[0]?.slice("GET ".length, -" HTTP/1.1".length) ?? null;
        const cost = remaining === null ? 0 : left - remaining;
        if (more.length > 0 || cost > 1)
          wrong.push(`${target} (${status}): ${more.length + 1} requests, ${cost} counted`);
        if (arrived !== null && cost === 0 && landings(arrived).length > 0) wrong.push(`${target}: ${arrived} is free`);
        left -= cost;
        if (arrived !== null && cost === 1) counted += 1;
      }
      expect(wrong).toEqual([]);
      expect(counted, "what was counted has arrived").toBeGreaterThan(100);
    },
  );
});
