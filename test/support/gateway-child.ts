// Runs the gateway of the tests in a process of its own, and says what is open in it. Reads connections as
// HEADGATE_TEST_READS says. Arguments: the upstream, and overrides as JSON.
import { startTestGateway } from "./gateway.ts";

export interface OpenThings {
  /** What keeps the event loop alive or has a timer, by kind. */
  readonly resources: Readonly<Record<string, number>>;
  /** After a collection. */
  readonly heapBytes: number;
}

export interface ChildStart {
  readonly port: number;
  readonly adminUrl: string;
}

const [upstreamUrl = "", overrides = "{}"] = process.argv.slice(2);
const gateway = await startTestGateway({
  upstreamUrl,
  overrides: {
    ...JSON.parse(overrides),
    log: { level: "info", access: false },
    // Shorter than the test waits for what is left to end.
    timeouts: { headMs: 2_000, keepAliveMs: 2_000, bodyMs: 2_000 },
  },
});
// As a line is kept for each, they would look like a leak.
setInterval(() => (gateway.logLines as unknown[]).splice(0), 200).unref();

process.on("message", () => process.send?.(openThings()));
process.on("disconnect", () => process.exit());
process.send?.({ port: gateway.traffic.port, adminUrl: gateway.adminUrl } satisfies ChildStart);

function openThings(): OpenThings {
  const resources: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1;
  // Twice, because finalizers run between.
  for (let i = 0; i < 2; i += 1) globalThis.gc?.();
  return { resources, heapBytes: process.memoryUsage().heapUsed };
}
