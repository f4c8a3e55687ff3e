// The stores side by side, each in a process of its own, one after another.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

export interface DecisionResult {
  readonly store: string;
  readonly clients: number;
  readonly decisionNs: number;
  readonly bytesPerClient: number;
}

/** Those of the goals. */
export const comparedStores = ["Headgate", "rate-limiter-flexible", "express-rate-limit", "@fastify/rate-limit"];
export const allStores = [
  ...comparedStores,
  "Headgate, from text",
  "Headgate, 8 policies",
  "Headgate, 2 policies",
  "Headgate, one of 2 policies by who, token verified",
  "Headgate, one of 2 policies by who, token refused",
];
const script = join(import.meta.dirname, "decision.ts");

export async function measureDecisions(
  counts: readonly number[],
  stores: readonly string[],
  core: number,
): Promise<DecisionResult[]> {
  const results: DecisionResult[] = [];
  for (const clients of counts) {
    for (const store of stores) {
      // Several million counters need more memory than the others.
      if (store.includes("policies") && clients > 100_000) continue;
      const nodeArguments = ["--expose-gc", "--max-old-space-size=4096", script, store, String(clients)];
      const command = ["-c", String(core), process.execPath, ...nodeArguments];
      const { stdout } = await promisify(execFile)("taskset", command);
      results.push({ store, clients, ...JSON.parse(stdout) });
    }
  }
  return results;
}
