// What the visit of a client goes to: an upstream that answers it, and a gateway with TLS that admits 25 requests.
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { Cleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import type { TestGateway } from "../../support/gateway.ts";
import { upstreamConnections } from "../../support/metrics.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { stageHttp } from "../../support/stage.ts";
import type { useTls } from "../../support/tls-listener.ts";
import type { TestUpstream } from "../../support/upstream.ts";
import { page, upload, type Visit } from "./clients.ts";

const largeBytes = 300_000;
const limit = 25;
const sha1 = (bytes: Buffer): string => createHash("sha1").update(bytes).digest("hex");

export async function stageVisit(cleanup: Cleanup, withTls: ReturnType<typeof useTls>) {
  const policies = [slidingPolicy({ limit, windowMs: 600_000 })];
  // A browser sends no token with its first request.
  const { ca, overrides } = withTls({ policies, auth: { mode: "off" } });
  const staged = await stageHttp(
    cleanup,
    (req, res, body) => {
      res.setHeader("Content-Type", "text/html");
      if (req.url === "/v2/echo") res.end(sha1(body));
      else if (req.url === "/v2/large") res.end(Buffer.alloc(largeBytes, "d"));
      else res.end(req.url === "/v2/page" ? page : "ok");
    },
    overrides,
  );
  const folder = scratchFolder(cleanup);
  const bodyFile = join(folder, "body");
  writeFileSync(bodyFile, upload);
  return { ...staged, ca, bodyFile };
}

/** Each of the 30 requests was answered whole, 25 were admitted, and nothing is under way. */
export async function expectVisited(visit: Visit, gateway: TestGateway, upstream: TestUpstream): Promise<void> {
  const count = (status: number): number => visit.statuses.filter((one) => one === status).length;
  expect([visit.statuses.length, count(200), count(429)]).toEqual([30, limit, 30 - limit]);
  expect([visit.echo, visit.largeBytes]).toEqual([sha1(upload), largeBytes]);
  expect(upstream.hits()).toBe(limit);
  await eventually("nothing is under way", async () => (await upstreamConnections(gateway)).active === 0);
}
