// Runs one attack and says what it cost the attacker. Started by the bench with one message.
import type { Ports } from "./attack.ts";
import { attackNamed } from "./attacks.ts";
import { Sender } from "./sender.ts";

export interface AttackOrder {
  readonly name: string;
  readonly ports: Ports;
  readonly seconds: number;
}

process.on("message", async ({ name, ports, seconds }: AttackOrder) => {
  const sender = new Sender(name, ports, seconds);
  await attackNamed(name).send(sender);
  // The connections stay open until the bench ends this process.
  process.send?.(sender.counters);
});
process.on("disconnect", () => process.exit());
