// Which clients are judged: all of few, and of many a bounded part that does not depend on how much they ask.
import { expect, test } from "vitest";
import { JudgedSample, mostClients } from "../../src/limits/judge.ts";
import { seededRandom } from "../support/random.ts";

/** So many hashes, the same with each run. */
function hashes(count: number): number[] {
  const random = seededRandom(7);
  return Array.from({ length: count }, () => Math.floor(random() * 2 ** 32));
}

test("all of a few thousand clients are judged, whatever they ask", () => {
  const sample = new JudgedSample(JudgedSample.createMemory());
  const clients = hashes(mostClients - 1);
  for (let round = 0; round < 3; round += 1) expect(clients.every((hash) => sample.has(hash))).toBe(true);
});

test("of a million clients some thousand are judged, the same in each round and in each thread", () => {
  const memory = JudgedSample.createMemory();
  const [one, other] = [new JudgedSample(memory), new JudgedSample(memory)];
  const clients = hashes(1_000_000);
  for (const hash of clients) one.has(hash);
  const judged = clients.filter((hash) => other.has(hash));
  expect(judged.length).toBeLessThanOrEqual(mostClients);
  expect(judged.length).toBeGreaterThan(mostClients / 4);
  const largest = Math.max(...judged);
  expect(clients.filter((hash) => hash <= largest).length).toBe(judged.length);
  expect(clients.filter((hash) => one.has(hash))).toEqual(judged);
});

test("a client that asks a million times takes one place", () => {
  const sample = new JudgedSample(JudgedSample.createMemory());
  const [first = 0, ...others] = hashes(mostClients - 1);
  for (let i = 0; i < 1_000_000; i += 1) sample.has(first);
  expect(others.every((hash) => sample.has(hash))).toBe(true);
});

test("threads count together", () => {
  const memory = JudgedSample.createMemory();
  const [one, other] = [new JudgedSample(memory), new JudgedSample(memory)];
  one.count(true);
  other.count(false);
  expect(one.tally).toEqual({ judged: 2, refused: 1 });
  expect([one.begin(17.5), other.begin(23)]).toEqual([17.5, 17.5]);
});
