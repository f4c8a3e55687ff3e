// Runs attacks and says what they cost the attacker. Started by the bench with one message.
import type { Counters, Ports } from "./attack.ts";
import { attackNamed } from "./attacks.ts";
import { CountingSender } from "./sender.ts";

export interface AttackOrder {
  /** Run at the same time. */
  readonly names: readonly string[];
  readonly ports: Ports;
  readonly seconds: number;
  readonly share: number;
}

process.on("message", async ({ names, ports, seconds, share }: AttackOrder) => {
  const senders = await Promise.all(
    names.map(async (name) => {
      const sender = new CountingSender({ name, ports, seconds, share });
      await attackNamed(name).send(sender);
      return sender;
    }),
  );
  // The connections stay open until the bench ends this process.
  process.send?.(sumOf(senders.map(({ counters }) => counters)));
});
process.on("disconnect", () => process.exit());

function sumOf(all: readonly Counters[]): Counters {
  const sum = (count: (one: Counters) => number): number => all.reduce((total, one) => total + count(one), 0);
  return {
    bytes: sum(({ bytes }) => bytes),
    connections: sum(({ connections }) => connections),
    requests: sum(({ requests }) => requests),
    received: sum(({ received }) => received),
    answered: 0,
  };
}
