// A gateway of the release before forgiveness beside two that have it: what docs/shared-counters.md promises under "Upgrades".
// The old one never hears that a client was forgiven, and nobody counts it wrongly because of that.
import { describe, expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import { type RedisServer, redisNeeded, skipRedis, startRedis } from "../../support/redis-servers.ts";
import { limit, OldGateway, replicas, SharingGateway } from "./sharing-gateways.ts";

const cleanup = useCleanup();
const share = Math.floor(limit / replicas);

async function startAll(): Promise<{ server: RedisServer; a: SharingGateway; b: SharingGateway; old: OldGateway }> {
  const server = await startRedis();
  cleanup(() => server.stop());
  const [a, b] = [new SharingGateway(cleanup, server.port, "a"), new SharingGateway(cleanup, server.port, "b")];
  const old = new OldGateway(cleanup, server.port, "old");
  await allUp(a, b, old);
  return { server, a, b, old };
}

async function allUp(...gateways: readonly { readonly isUp: boolean }[]): Promise<void> {
  await eventually("all are up", () => gateways.every(({ isUp }) => isUp), 20_000);
}

/** Resolves when it has read what was forgiven. */
async function hasRead(gateway: SharingGateway, of: SharingGateway): Promise<void> {
  const { place } = of.shared.figures();
  await eventually("the other one has read it", () => gateway.shared.figures().place >= place);
  await gateway.shared.readNow();
}

describe.skipIf(skipRedis)(`a gateway of the release before, beside new ones${redisNeeded}`, () => {
  test("counts with them, and admits no more than the limit with them after a forgiveness", {
    timeout: 40_000,
  }, async () => {
    const { a, b, old } = await startAll();
    let ofOld = await old.ask(3);
    expect(ofOld + (await a.ask(4)) + (await b.ask(limit)) + (await old.ask(1))).toBe(limit);
    expect(await a.forgive()).toBe(true);
    await hasRead(b, a);
    let admitted = await a.ask(2);
    await eventually("the old one asks again", async () => {
      const more = await old.ask(1);
      ofOld += more;
      admitted += more;
      return more === 1;
    });
    expect(admitted + (await b.ask(limit)) + (await a.ask(limit)) + (await old.ask(limit))).toBe(limit);

    // It remembers what it has admitted itself: only the rest of the limit is there for who comes to it alone.
    expect(await b.forgive()).toBe(true);
    await hasRead(a, b);
    let alone = 0;
    await eventually(
      "the old one admits the rest",
      async () => {
        alone += await old.ask(1);
        return alone === limit - ofOld;
      },
      20_000,
    );
    expect(await old.ask(limit)).toBe(0);
    await eventually("the others admit what it cannot", async () => {
      alone += (await a.ask(1)) + (await b.ask(1));
      return alone >= limit;
    });
    expect(alone + (await a.ask(limit)) + (await b.ask(limit)) + (await old.ask(limit))).toBe(limit);
  });

  test("tells after an outage what it had counted before, so that less is left, and never more", async () => {
    const { server, a, b, old } = await startAll();
    const counted = await old.ask(3);
    expect(counted).toBe(3);
    expect((await a.ask(4)) + (await b.ask(limit))).toBe(limit - counted);
    expect(await a.forgive()).toBe(true);
    await hasRead(b, a);
    expect(await a.ask(1)).toBe(1);
    server.cli("CLIENT", "KILL", "TYPE", "normal");
    await eventually("the loss is noticed", () => !old.isUp);
    await allUp(a, b, old);
    const later = (await old.ask(1)) + (await a.ask(limit)) + (await b.ask(limit)) + (await old.ask(limit));
    expect(1 + later).toBe(limit - counted);
  });

  test("tells a store that has forgotten: the limit, and the share of each gateway, at most", {
    timeout: 40_000,
  }, async () => {
    const { server, a, b, old } = await startAll();
    expect((await old.ask(3)) + (await a.ask(limit))).toBe(limit);
    expect(await b.forgive()).toBe(true);
    await hasRead(a, b);
    // Otherwise the mark is made again after the restart, and what the old one tells is void.
    await eventually("the store has the mark", () => server.cli("KEYS", "*forgiven*") !== "");
    await server.kill();
    await eventually("it is noticed", () => ![a, b, old].some(({ isUp }) => isUp));
    const alone = [await a.ask(limit), await b.ask(limit), await old.ask(limit)];
    // The old one has had its share before.
    expect(alone).toEqual([share, share, 0]);
    await server.restart();
    await allUp(a, b, old);
    const later = (await old.ask(1)) + (await a.ask(limit)) + (await b.ask(limit)) + (await old.ask(limit));
    // All that was admitted since is told, and what the old one had admitted before.
    expect(later).toBe(limit - 2 * share - 3);
  });
});
