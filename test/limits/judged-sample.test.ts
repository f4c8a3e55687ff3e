// Which clients are judged: all of few, and of many a bounded part that does not depend on how much they ask.
import { expect, test } from "vitest";
import { JudgedSample, mostClients, mostOfClient, periodMs } from "../../src/limits/judge.ts";
import { seededRandom } from "../support/random.ts";

/** So many hashes, the same with each run. */
function hashes(count: number): number[] {
  const random = seededRandom(7);
  return Array.from({ length: count }, () => Math.floor(random() * 2 ** 32));
}

const judgedOf = (sample: JudgedSample, clients: readonly number[], nowMs = 0): number[] =>
  clients.filter((hash) => {
    const { judged } = sample.tally;
    sample.count(hash, false, nowMs);
    return sample.tally.judged > judged;
  });

test("all of a few thousand clients are judged, whatever they ask", () => {
  const sample = new JudgedSample(JudgedSample.createMemory());
  const clients = hashes(mostClients - 1);
  for (let round = 0; round < 3; round += 1) expect(judgedOf(sample, clients)).toEqual(clients);
});

test("of a million clients some thousand are judged, the same in each round and in each thread", () => {
  const memory = JudgedSample.createMemory();
  const [one, other] = [new JudgedSample(memory), new JudgedSample(memory)];
  const clients = hashes(1_000_000);
  for (const hash of clients) one.count(hash, false, 0);
  const judged = clients.filter((hash) => other.mayHave(hash));
  expect(judged.length).toBeLessThanOrEqual(mostClients);
  expect(judged.length).toBeGreaterThan(mostClients / 4);
  const largest = Math.max(...judged);
  expect(clients.filter((hash) => hash <= largest).length).toBe(judged.length);
  const some = clients.slice(0, 10_000);
  expect(judgedOf(one, some)).toEqual(some.filter((hash) => hash <= largest));
});

test("a client that asks a hundred thousand times takes one place, and counts as a hundred requests in ten seconds", () => {
  const sample = new JudgedSample(JudgedSample.createMemory());
  const [first = 0, ...others] = hashes(mostClients - 1);
  for (let i = 0; i < 100_000; i += 1) sample.count(first, false, 17.5);
  expect(sample.tally).toEqual({ judged: mostOfClient, refused: 0 });
  expect(judgedOf(sample, others)).toEqual(others);
  sample.count(first, false, periodMs);
  expect(sample.tally.judged).toBe(mostOfClient + others.length + 1);
});

test.each(Array.from({ length: 5 }, (_, seed) => seed))(
  "what counts of each client is as it should be, seed %i",
  (seed) => {
    const random = seededRandom(seed);
    const memory = JudgedSample.createMemory();
    const threads = [new JudgedSample(memory), new JudgedSample(memory)] as const;
    const clients = hashes(5);
    const asked = new Map<string, { all: number; refused: number }>();
    let nowMs = random() * 2_560_000;
    for (let i = 0; i < 5_000; i += 1) {
      const client = Math.floor(random() ** 3 * clients.length);
      const isRefused = random() < client / 10;
      const key = `${client} ${Math.floor(nowMs / periodMs)}`;
      const { all, refused } = asked.get(key) ?? { all: 0, refused: 0 };
      asked.set(key, { all: all + 1, refused: refused + Number(isRefused) });
      threads[(i % 2) as 0 | 1].count(clients[client] as number, isRefused, nowMs);
      nowMs += random() * 10;
    }
    const judged = [...asked.values()].reduce((sum, { all }) => sum + Math.min(all, mostOfClient), 0);
    const refused = [...asked.values()].reduce(
      (sum, each) => sum + Math.floor((each.refused * Math.min(each.all, mostOfClient)) / each.all),
      0,
    );
    expect(threads[0].tally).toEqual({ judged, refused });
  },
);

test("of a client with a hundred thousand requests in ten seconds, the share is as it was last", () => {
  const sample = new JudgedSample(JudgedSample.createMemory());
  for (let i = 0; i < 100_000; i += 1) sample.count(1, i % 4 === 0, 0);
  expect(sample.tally.judged).toBe(mostOfClient);
  expect(Math.abs(sample.tally.refused - mostOfClient / 4)).toBeLessThanOrEqual(1);
  for (let i = 0; i < 10_000; i += 1) sample.count(1, true, 0);
  expect(sample.tally.refused).toBeGreaterThan(0.8 * mostOfClient);
});

test("threads count together", () => {
  const memory = JudgedSample.createMemory();
  const [one, other] = [new JudgedSample(memory), new JudgedSample(memory)];
  one.count(7, true, 23);
  other.count(7, false, 23);
  expect(one.tally).toEqual({ judged: 2, refused: 1 });
  expect([one.begin(17.5), other.begin(23)]).toEqual([17.5, 17.5]);
});
