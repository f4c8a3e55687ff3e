import { setImmediate as iteration } from "node:timers/promises";
import { expect, test } from "vitest";
import { HandshakeTurns } from "../../src/listener/tls-handshakes.ts";

test("of one peer at most four begin in an iteration, in their order, and other peers do not wait for them", async () => {
  const turns = new HandshakeTurns();
  const begun: string[] = [];
  const begin = (peer: string, id: number): void => turns.begin(peer, () => void begun.push(`${peer}${id}`));
  for (let i = 0; i < 10; i += 1) begin("a", i);
  begin("b", 0);
  expect(begun).toEqual(["a0", "a1", "a2", "a3", "b0"]);
  await iteration();
  expect(begun.slice(5)).toEqual(["a4", "a5", "a6", "a7"]);
  // A later one does not overtake those that wait.
  begin("a", 10);
  begin("b", 1);
  expect(begun.slice(9)).toEqual(["b1"]);
  await iteration();
  expect(begun.slice(10)).toEqual(["a8", "a9", "a10"]);
  await iteration();
  begin("a", 11);
  expect(begun.at(-1)).toBe("a11");
});
