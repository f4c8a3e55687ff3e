// A gateway with two workers, as an operator starts it: signals, and files that change.
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { startGatewayProcess } from "../support/gateway-process.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();

const { poll } = expect;

test("SIGHUP puts a new tokens file into use in both workers, a wrong one in none; SIGTERM waits for the requests of both", async () => {
  const held: (() => void)[] = [];
  const upstream = await startUpstream((req, res) => {
    if (req.url === "/v2/slow") held.push(() => res.end("late"));
    else res.end("ok");
  });
  cleanup(() => upstream.close());
  const folder = scratchFolder(cleanup);
  const tokens = join(folder, "tokens");
  const list = (token: string) => writeFileSync(tokens, `${createHash("sha256").update(token).digest("hex")}\n`);
  list("first");
  const gateway = await startGatewayProcess(cleanup, upstream.url, [
    ...["workers=2", "auth.mode=tokens", `auth.tokensFile=${tokens}`, "reload.watch=false", "drain.delay=0s"],
  ]);
  const { output } = gateway;
  const ask = async (token: string, path = "/v2/x"): Promise<number> => {
    const headers = { authorization: `Bearer ${token}`, connection: "close" };
    return (await fetch(`http://127.0.0.1:${gateway.port}${path}`, { headers })).status;
  };
  /** Of 24 connections, all to one worker would be a chance of 2^-23. */
  const statuses = async (token: string) => new Set(await Promise.all(Array.from({ length: 24 }, () => ask(token))));
  const lines = (text: string) => output.out.split("\n").filter((line) => line.includes(text)).length;

  expect(await statuses("first")).toEqual(new Set([200]));
  list("second");
  gateway.signal("SIGHUP");
  await poll(() => lines('"changed":["auth.tokensFile"],"msg":"reloaded"')).toBe(1);
  expect([await statuses("first"), await statuses("second")]).toEqual([new Set([401]), new Set([200])]);
  expect(lines("tokens file reread")).toBe(1);

  writeFileSync(tokens, "no digest\n");
  gateway.signal("SIGHUP");
  await poll(() => lines("tokens file not usable")).toBe(1);
  expect(await statuses("second")).toEqual(new Set([200]));
  const figures = await gateway.figures();
  expect(figures.get("headgate_tokens_file_current")).toBe(0);
  expect(figures.get("headgate_tokens_listed")).toBe(1);
  expect(figures.get('headgate_workers{state="serving"}')).toBe(2);

  const slow = Array.from({ length: 12 }, () => ask("second", "/v2/slow"));
  await poll(() => held.length).toBe(12);
  gateway.signal("SIGTERM");
  await poll(() => lines('"msg":"draining"')).toBe(1);
  for (const respond of held) respond();
  expect(new Set(await Promise.all(slow))).toEqual(new Set([200]));
  expect(await gateway.exited).toEqual({ code: 0, signal: null });
  // Every request has its line, those that ended last too.
  expect(lines('"path":"/v2/slow"')).toBe(12);
  expect(output.err).toBe("");
});
