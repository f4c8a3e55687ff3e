// Who gets the next turn, and who may wait for one.
import { expect, test } from "vitest";
import { maxAtOnce, maxWaiting, Turns } from "../../src/admin/turns.ts";

/** `take`: has a call of the peer begin when it is its turn. `end`: ends the one that has begun first. */
function start() {
  const turns = new Turns();
  const begun: string[] = [];
  const running: (() => void)[] = [];
  return {
    turns,
    begun,
    take(peer: string): void {
      void turns.take(peer, async () => {
        begun.push(peer);
        await new Promise<void>((resolve) => void running.push(resolve));
      });
    },
    async end(): Promise<void> {
      running.shift()?.();
      await new Promise((resolve) => void setImmediate(resolve));
    },
  };
}

test("a peer with many calls delays those of others by no more than the calls that run", async () => {
  const { take, end, begun } = start();
  for (let i = 0; i < maxAtOnce + 20; i += 1) take("many");
  take("few");
  take("few");
  begun.length = 0;
  for (let i = 0; i < 4; i += 1) await end();
  expect(begun).toEqual(["many", "few", "many", "few"]);
  for (let i = 0; i < 3; i += 1) await end();
  expect(begun.slice(4)).toEqual(["many", "many", "many"]);
});

test("of the calls that may wait, one peer has no more than are free, and another one always has one", () => {
  const { take, turns } = start();
  let waiting = -maxAtOnce;
  for (; turns.hasRoom("many"); waiting += 1) take("many");
  expect(waiting).toBe(maxWaiting / 2);
  let others = 0;
  for (; turns.hasRoom(`${others}`); others += 1) take(`${others}`);
  expect(others).toBe(maxWaiting / 2);
});
