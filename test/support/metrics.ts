// What the gateway itself says of its upstream connections, read where an operator would.
import type { ConnectionFigures } from "../../src/core/upstream.ts";
import type { TestGateway } from "./gateway.ts";

export async function upstreamConnections(gateway: Pick<TestGateway, "adminUrl">): Promise<ConnectionFigures> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  const figure = (state: string): number => {
    const match = new RegExp(`^headgate_upstream_connections\\{state="${state}"\\} (\\d+)$`, "m").exec(text);
    if (match === null) throw new Error(`no figure for ${state} upstream connections`);
    return Number(match[1]);
  };
  return { active: figure("active"), idle: figure("idle"), waiting: figure("waiting") };
}

/** The sums of all series of counters in the text. */
export function sumsOf(text: string, ...counters: readonly string[]): number[] {
  const lines = text.split("\n");
  return counters.map((counter) => {
    const samples = lines.filter((sample) => sample.startsWith(`${counter}{`));
    return samples.reduce((sum, sample) => sum + Number(sample.slice(sample.lastIndexOf(" ") + 1)), 0);
  });
}

/** The value of one sample, named as it stands in the text. */
export async function metric(gateway: Pick<TestGateway, "adminUrl">, series: string): Promise<number> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  const found = text.split("\n").find((sample) => sample.startsWith(`${series} `));
  if (found === undefined) throw new Error(`no ${series}`);
  return Number(found.slice(series.length + 1));
}
