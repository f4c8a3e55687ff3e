// How many of the gateway's own cases hold for the stock pair @fastify/rate-limit with @fastify/http-proxy, beside how many
// hold for the plugin.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { FastifyInstance, FastifyPluginAsync } from "fastify";
import { expect, test } from "vitest";
import { root } from "../docs/markdown.ts";
import type { StartServing } from "../support/gateway.ts";
import { type CorpusCase, corpusCases, Stage } from "./corpora.ts";
import { startServing } from "./serving.ts";

/** The packages that the bench measures beside the gateway. */
const manifest = join(root, "bench/package.json");
const isInstalled = existsSync(join(root, "bench/node_modules/@fastify/rate-limit"));
const isRequired = process.env["HEADGATE_REQUIRE"] === "all";

const startStock: StartServing = async ({ upstreamUrl, overrides = {} }) => {
  const load = createRequire(manifest);
  const { fastify } = load("fastify") as { fastify: () => FastifyInstance };
  const rateLimit = load("@fastify/rate-limit") as FastifyPluginAsync<Record<string, unknown>>;
  const httpProxy = load("@fastify/http-proxy") as FastifyPluginAsync<Record<string, unknown>>;
  const app = fastify();
  const limit = overrides.policies?.[0]?.limit ?? 100;
  await app.register(rateLimit, { max: Math.max(1, limit), timeWindow: "1 minute" });
  for (const prefix of ["/v1", "/v2"]) {
    await app.register(httpProxy, { upstream: upstreamUrl, prefix, rewritePrefix: prefix });
  }
  await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  if (limit === 0) await (await fetch(`${url}/v2/spends-the-one`)).arrayBuffer();
  const close = async (): Promise<void> => {
    app.server.closeAllConnections();
    await app.close();
  };
  return { url, adminUrl: url, traffic: { host: "127.0.0.1", port }, close };
};

/** What takes longer does not hold: the tests' own deadlines are made for a loaded machine. */
const deadlineMs = 2_000;

/** Runs the cases one after the other, and returns how many of each corpus hold. */
async function count(start: StartServing): Promise<Record<CorpusCase["corpus"], number>> {
  const held = { request: 0, response: 0, answer: 0 };
  let stage = await Stage.open(start);
  for (const row of corpusCases) {
    const late = new Promise<null>((resolve) => setTimeout(resolve, deadlineMs, null));
    const outcome = await Promise.race([
      row.run(stage).then(
        () => true,
        () => false,
      ),
      late,
    ]);
    if (outcome === true) held[row.corpus] += 1;
    if (outcome !== null) {
      await stage.clear().catch(() => {});
      continue;
    }
    // The case is still under way on its stage.
    void stage.close().catch(() => {});
    stage = await Stage.open(start);
  }
  await stage.close();
  return held;
}

const title = `the stock pair beside the plugin${isInstalled ? "" : " (needs npm ci --prefix bench)"}`;
test.skipIf(!isInstalled && !isRequired)(title, { timeout: 1_200_000 }, async () => {
  const ofCases = { request: 0, response: 0, answer: 0 };
  for (const { corpus } of corpusCases) ofCases[corpus] += 1;
  const stock = await count(startStock);
  const plugin = await count(startServing);
  // biome-ignore lint/suspicious/noConsole: the figures of docs/fastify.md
  console.log({ cases: ofCases, plugin, stock });
  for (const corpus of ["request", "response", "answer"] as const) {
    expect(plugin[corpus]).toBeGreaterThan(stock[corpus]);
  }
});
