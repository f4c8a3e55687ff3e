// The examples of docs/fastify.md, as they stand.
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { codeBlocks, root } from "../docs/markdown.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();

/** Finds `headgate/fastify` in the sources, and the packages in the repository. */
const hooks = `
import { registerHooks } from "node:module";
const entry = ${JSON.stringify(pathToFileURL(join(root, "src/fastify/index.ts")).href)};
const parentURL = ${JSON.stringify(pathToFileURL(join(root, "package.json")).href)};
registerHooks({
  resolve(specifier, context, next) {
    if (specifier === "headgate/fastify") return next(entry, context);
    return next(specifier, specifier === "fastify" ? { ...context, parentURL } : context);
  },
});`;

/** Runs a program and returns the address that it says it listens on. */
async function start(program: string, env: Record<string, string> = {}): Promise<string> {
  const folder = scratchFolder(cleanup);
  const file = join(folder, "app.mjs");
  writeFileSync(file, program);
  const preload = `data:text/javascript,${encodeURIComponent(hooks)}`;
  const child = spawn(process.execPath, ["--import", preload, file], { env: { ...process.env, PORT: "0", ...env } });
  const ended = new Promise((resolve) => child.once("close", resolve));
  cleanup(() => {
    child.kill();
    return ended;
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (output += text));
  const listening = /Server listening at (http:[^"]+)/;
  await eventually("it listens", () => listening.test(output) || child.exitCode !== null, 20_000);
  expect(output).toMatch(listening);
  return listening.exec(output)?.[1] ?? "";
}

const examples = codeBlocks("docs/fastify.md", "js");

test("an app with its own routes", async () => {
  const url = await start(examples[0] ?? "");
  const ask = (path: string, headers: Record<string, string> = {}) => fetch(url + path, { headers });
  const good = await ask("/v2/me", { authorization: "Bearer t" });
  expect(await good.json()).toEqual({ name: "Ada" });
  expect(good.headers.get("ratelimit-remaining")).toBe("99");
  expect((await ask("/v2/me")).status).toBe(401);
  expect((await ask("/health")).status).toBe(200);
  expect(await (await ask("/metrics")).text()).toContain(
    'headgate_decisions_total{policy="per-ip",outcome="admitted"} 2',
  );
});

test("an app with an upstream", async () => {
  const upstream = cleanup(await startUpstream((_req, res) => void res.end("theirs")));
  const url = await start(examples[1] ?? "", { UPSTREAM: upstream.url });
  const headers = { authorization: "Bearer t" };
  expect(await (await fetch(`${url}/v2/x`, { headers })).text()).toBe("theirs");
  expect((await fetch(`${url}/v2/x`)).status).toBe(401);
  expect(await (await fetch(`${url}/health`)).text()).toBe("up");
  expect((await fetch(`${url}/elsewhere`)).status).toBe(404);
});
