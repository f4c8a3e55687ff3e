// 10,000 GETs and 10,000 POSTs, or 50,000 of each in `npm run test:nightly`, through an upstream that closes idle connections exactly as they are reused: no GET
// fails, and no POST arrives twice, whatever its connection did.
import { expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { startGatewayProcess } from "../../support/gateway-process.ts";
import { seededRandom } from "../../support/random.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { fifth } from "../../support/runs.ts";
import { request } from "../../support/stage.ts";
import { startClosingUpstream } from "./idle-closes.ts";

const cleanup = useCleanup();
const perMethod = fifth(50_000);
const clients = 32;

test("no GET fails and no POST arrives twice when idle connections close as they are reused", async () => {
  const upstream = await startClosingUpstream(cleanup, seededRandom(1));
  // Half of them are for one client.
  const settings = ["log.access=false", "upstream.maxConnections=48", "listen.maxRequestsPerConnection=1000000"];
  const gateway = await startGatewayProcess(cleanup, upstream.url, settings);
  const statuses = new Map<string, number>();
  let next = 0;
  const work = async (): Promise<void> => {
    const client = cleanup(new RawConnection(gateway.port));
    while (next < 2 * perMethod) {
      const isPost = next % 2 === 1;
      const target = `/v2/${isPost ? "post" : "get"}/${next++}`;
      // Half of the POSTs have no body, which is what a careless proxy sends again.
      const body = next % 4 === 0 ? "hello" : "";
      const post = { method: "POST", fields: `Content-Length: ${body.length}\r\n`, body };
      statuses.set(target, (await client.ask(request(target, isPost ? post : {}))).status);
    }
  };
  await Promise.all(Array.from({ length: clients }, work));

  const targets = [...statuses.keys()];
  const [gets, posts] = ["/v2/get/", "/v2/post/"].map((prefix) =>
    targets.filter((target) => target.startsWith(prefix)),
  );
  expect([gets?.length, posts?.length]).toEqual([perMethod, perMethod]);
  const arrivalsOf = (target: string): number => upstream.arrivals.get(target) ?? 0;
  expect(gets?.filter((target) => statuses.get(target) !== 200)).toEqual([]);
  expect(gets?.filter((target) => arrivalsOf(target) > 2)).toEqual([]);
  expect(posts?.filter((target) => arrivalsOf(target) > 1)).toEqual([]);
  // A POST is served if the upstream answered it, and 502 if its connection closed instead.
  const wrong = posts?.filter((target) => statuses.get(target) !== (upstream.answered.has(target) ? 200 : 502));
  expect(wrong).toEqual([]);
  // It did happen: often, and to both.
  expect(gets?.filter((target) => arrivalsOf(target) === 2).length).toBeGreaterThan(perMethod / 50);
  expect(posts?.filter((target) => statuses.get(target) === 502).length).toBeGreaterThan(perMethod / 50);
  expect(gateway.output.err).toBe("");
});
