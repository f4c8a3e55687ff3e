// Rules and forgiveness over three gateways and a real server, which is killed, stopped and emptied: what one gateway is told
// holds at all of them within two heartbeats of being able to reach it.
import { describe, expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import { type RedisServer, redisNeeded, skipRedis, startRedis } from "../../support/redis-servers.ts";
import { limit, SharingGateway } from "./sharing-gateways.ts";

const cleanup = useCleanup();
async function startThree(server: RedisServer): Promise<readonly [SharingGateway, SharingGateway, SharingGateway]> {
  const open = (name: string) => new SharingGateway(cleanup, server.port, name);
  const [a, b, c] = [open("a"), open("b"), open("c")];
  await allUp(a, b, c);
  return [a, b, c];
}

async function allUp(...gateways: readonly SharingGateway[]): Promise<void> {
  await eventually("all are up", () => gateways.every(({ isUp }) => isUp), 20_000);
}

async function allHold(what: RegExp, ...gateways: readonly SharingGateway[]): Promise<void> {
  const [first] = gateways;
  const isSame = (): boolean => gateways.every(({ held }) => held === first?.held && what.test(held));
  await eventually(`all hold ${what}: ${gateways.map(({ held }) => held).join("; ")}`, isSame, 10_000);
}

async function start(): Promise<RedisServer> {
  const server = await startRedis();
  cleanup(() => server.stop());
  return server;
}

describe.skipIf(skipRedis)(`three gateways${redisNeeded}`, () => {
  test("hear once that another one has taken a reload on trial back, and read the rest of the log as before", async () => {
    const [a, b, c] = await startThree(await start());
    await a.shared.tellTakenBack({ host: "host-a", reason: "refused" });
    await a.set("r1", "after it");
    await allHold(/^r1 after it \d+$/, a, b, c);
    const notice = { gateway: "a", host: "host-a", reason: "refused" };
    expect([a.notices, b.notices, c.notices]).toEqual([[], [notice], [notice]]);
    await b.shared.readNow();
    expect(b.notices).toEqual([notice]);
    await c.shared.tellTakenBack({ host: "host-c", reason: "time" });
    await eventually("both have heard", () => a.notices.length + b.notices.length === 3, 10_000);
    expect(c.notices).toEqual([notice]);
  });

  test("hold the rules that were set at any of them, with the same revisions", async () => {
    const [a, b, c] = await startThree(await start());
    const first = await a.set("one", "first");
    expect(first).toMatchObject({ outcome: "written", isShared: true });
    await allHold(/^one first \d+$/, a, b, c);
    const revision = a.rules.get("one")?.revision ?? 0;
    expect(await b.shared.remove("one", revision - 1)).toEqual({ outcome: "conflict", revision });
    await b.set("one", "second");
    await c.set("two", "third");
    await allHold(/^one second \d+, two third \d+$/, a, b, c);
    expect(await c.shared.remove("two", "any")).toMatchObject({ outcome: "written", isShared: true });
    await allHold(/^one second \d+$/, a, b, c);
    expect(await a.shared.remove("two", "any")).toEqual({ outcome: "conflict", revision: 0 });
  });

  test("admit exactly the limit again of a client that was forgiven at one of them", async () => {
    const [a, b, c] = await startThree(await start());
    expect([await a.ask(4), await b.ask(4), await c.ask(4)]).toEqual([4, 4, 2]);
    expect(await a.ask(2)).toBe(0);
    expect(await b.forgive()).toBe(true);
    expect(await b.ask(3)).toBe(3);
    const { place } = b.shared.figures();
    await eventually("the others have read it", () => [a, c].every(({ shared }) => shared.figures().place >= place));
    expect([await a.ask(4), await c.ask(4), await b.ask(4)]).toEqual([4, 3, 0]);
  });

  test("tell a store that was killed and has forgotten everything, and what was set at one of them meanwhile", {
    timeout: 40_000,
  }, async () => {
    const server = await start();
    const [a, b, c] = await startThree(server);
    await a.set("one", "first");
    await a.set("two", "second");
    await allHold(/^one first \d+, two second \d+$/, a, b, c);
    await a.shared.remove("two", "any");
    expect(await a.ask(limit)).toBe(limit);
    await b.forgive();
    await server.kill();
    await eventually("it is noticed", () => [a, b, c].every(({ shared }) => shared.figures().state === "away"));
    expect(await a.set("one", "alone at a")).toMatchObject({ isShared: false });
    expect(await b.set("one", "alone at b")).toMatchObject({ isShared: false });
    expect(await c.set("three", "alone at c")).toMatchObject({ isShared: false });
    expect([a.held, c.held].map((held) => held.includes("alone"))).toEqual([true, true]);
    await server.restart();
    await allUp(a, b, c);
    await allHold(/^one alone at [ab] \d+, three alone at c \d+$/, a, b, c);
    // Nobody has told what was admitted before it was forgiven.
    expect((await a.ask(limit)) + (await b.ask(limit)) + (await c.ask(limit))).toBe(limit);
  });

  test("hold the same rule if two were set in the same instant while the store was away", async () => {
    const server = await start();
    const [a, b, c] = await startThree(server);
    await server.kill();
    await eventually("it is noticed", () => [a, b, c].every(({ shared }) => shared.figures().state === "away"));
    await Promise.all([a.set("one", "at a"), b.set("one", "at b")]);
    await server.restart();
    await allUp(a, b, c);
    await allHold(/^one at [ab] \d+$/, a, b, c);
  });

  test("go on with what they know while a server stands still, and read it all when the log was emptied", {
    timeout: 40_000,
  }, async () => {
    const server = await start();
    const [a, b, c] = await startThree(server);
    await a.set("one", "first");
    await allHold(/^one first \d+$/, a, b, c);
    process.kill(server.pid, "SIGSTOP");
    expect(await b.set("two", "alone at b")).toMatchObject({ outcome: "written", isShared: false });
    expect(await b.forgive()).toBe(false);
    expect(a.held).toMatch(/^one first \d+$/);
    process.kill(server.pid, "SIGCONT");
    await allHold(/^one first \d+, two alone at b \d+$/, a, b, c);
    await eventually("everything is told", () => [a, b, c].every(({ shared }) => shared.figures().untold === 0));
    server.cli("FLUSHALL");
    await a.set("three", "third");
    await allHold(/^one first \d+, three third \d+, two alone at b \d+$/, a, b, c);
  });
});
