// The registry of a gateway's metrics, which are counted from the start. prom-client is loaded by the first scrape, because
// it takes 16 MiB and 40 ms, which a gateway that is never scraped does not need.
import type { Metric, Registry } from "prom-client";
import type { Merge } from "./figures.ts";

export class LazyRegistry {
  readonly #isWanted: (merge: Merge) => boolean;
  readonly #metrics: Metric[] = [];
  #opening: Promise<Registry> | null = null;

  /** `isWanted`: of the metrics of the process. */
  constructor(isWanted: (merge: Merge) => boolean) {
    this.#isWanted = isWanted;
  }

  /** Called before the registry is opened. */
  registerMetric(metric: Metric): void {
    this.#metrics.push(metric);
  }

  /** Resolves with the registry of all metrics, also those of the process. After a failure, the next call tries again. */
  async open(): Promise<Registry> {
    this.#opening ??= this.#load().catch((error) => {
      this.#opening = null;
      throw error;
    });
    return this.#opening;
  }

  async #load(): Promise<Registry> {
    const { createRegistry } = await import("./process-metrics.ts");
    const registry = createRegistry(this.#isWanted);
    for (const metric of this.#metrics) registry.registerMetric(metric);
    return registry;
  }
}
