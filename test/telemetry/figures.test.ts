// How the figures of several threads become one family of a scrape.
import fc from "fast-check";
import { Gauge, Histogram, Registry } from "prom-client";
import { expect, test } from "vitest";
import { CellFamilyReader, Families, figuresOf } from "../../src/telemetry/families.ts";
import { type FamilyFigures, familyText, type Merge, mergeFamilies, mergeFamily } from "../../src/telemetry/figures.ts";
import type { MetricsRole, Scrape } from "../../src/telemetry/metrics.ts";
import { figuresOfMetric } from "../../src/telemetry/process-metrics.ts";
import { exchangeOf, metricsOf, storeOf } from "./scrape.ts";

function family(merge: Merge, samples: Readonly<Record<string, number>>, type: FamilyFigures["type"] = "gauge") {
  const series = Object.keys(samples).map((label) => `a{b="${label}"} `);
  return {
    name: "a",
    help: "A.",
    type,
    merge,
    series: series.join("\n"),
    values: new Float64Array(Object.values(samples)),
  };
}

const merged = (...parts: [FamilyFigures, ...FamilyFigures[]]): string[] =>
  familyText(mergeFamily(parts)).split("\n").slice(2);

test.each([
  ["sum", 6],
  ["max", 3],
  ["min", 1],
] as const)("%s of the values 2, 1 and 3 is %i", (merge, result) => {
  expect(merged(family(merge, { x: 2 }), family(merge, { x: 1 }), family(merge, { x: 3 }))).toEqual([
    `a{b="x"} ${result}`,
  ]);
});

test("a series that only some threads have is merged of those, wherever it stands", () => {
  const parts = [family("sum", { x: 1, y: 2 }), family("sum", { z: 4, y: 8 }), family("sum", {})] as const;
  expect(merged(...parts)).toEqual(['a{b="x"} 1', 'a{b="y"} 10', 'a{b="z"} 4']);
  expect(merged(family("min", { x: 3 }), family("min", {}), family("min", { x: 2 }))).toEqual(['a{b="x"} 2']);
});

test("a family that only some threads have is merged of those", () => {
  const [first, second, third] = [{ x: 1 }, { x: 2 }, { x: 4 }].map((samples) => family("sum", samples));
  const threads = [
    new Map([["a", first]]),
    new Map([["other", { ...second, name: "other" }]]),
    new Map([["a", third]]),
  ];
  const families = [...mergeFamilies(threads as Map<string, FamilyFigures>[])];
  expect(families.map(({ name, values }) => [name, ...values])).toEqual([
    ["a", 5],
    ["other", 2],
  ]);
});

test("what is merged is not changed: the figures of a thread are merged again at the next scrape", () => {
  const [first, second] = [family("sum", { x: 1 }), family("sum", { x: 2 })];
  for (let i = 0; i < 2; i += 1) expect(merged(first, second)).toEqual(['a{b="x"} 3']);
});

test("a family without samples has its two lines of comment, and merges with others", () => {
  expect(familyText(family("sum", {}))).toBe("# HELP a A.\n# TYPE a gauge");
  expect(merged(family("sum", {}), family("sum", { x: 1 }))).toEqual(['a{b="x"} 1']);
});

test("requests that several threads counted give the same text as if one had counted them, bucket by bucket", async () => {
  const thread = () => {
    const families = new Families();
    const seconds = families.histogram("a_seconds", "A.", [0.5, 1, 2]);
    const series = ["x", "y"].map((route) => seconds.series({ route }));
    const count = families.counterBy("a_total", "A.", "route", ["x", "y"]);
    const observe = (route: 0 | 1, value: number): void => {
      series[route]?.observe(value);
      count(route === 0 ? "x" : "y");
    };
    return { families, observe };
  };
  const textOf = async (threads: readonly { families: Families }[]): Promise<string> => {
    const figures = [];
    for (const { families } of threads) {
      const byName = new Map<string, FamilyFigures>();
      for await (const each of figuresOf(families.all)) byName.set(each.name, structuredClone(each));
      figures.push(byName);
    }
    return [...mergeFamilies(figures)].map(familyText).join("\n");
  };
  // Quarters are added without rounding, so that the order does not matter.
  const observation = fc.tuple(fc.nat(2), fc.constantFrom<0 | 1>(0, 1), fc.nat(10));
  await fc.assert(
    fc.asyncProperty(fc.array(observation), async (observations) => {
      const [one, several] = [thread(), [thread(), thread(), thread()]];
      for (const [at, route, quarters] of observations) {
        one.observe(route, quarters / 4);
        several[at]?.observe(route, quarters / 4);
      }
      expect(await textOf(several)).toBe(await textOf([one]));
    }),
    { numRuns: 30 },
  );
});

test("figures of a metric of prom-client give the text that prom-client writes", async () => {
  const text = fc.string({ unit: fc.constantFrom("a", '"', "\\", "\n", " ", "}", "é"), minLength: 1 });
  const value = fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((each) => each + 0),
    fc.constantFrom(0, Number.POSITIVE_INFINITY),
  );
  await fc.assert(
    fc.asyncProperty(text, fc.uniqueArray(text, { minLength: 1, maxLength: 3 }), value, async (help, labels, each) => {
      const registry = new Registry();
      const registers = [registry];
      const gauge = new Gauge({ name: "a", help, labelNames: ["label"], registers });
      for (const label of labels) gauge.set({ label }, each);
      const histogram = new Histogram({ name: "b", help, labelNames: ["label"], buckets: [0.1, 2.5], registers });
      for (const label of labels) histogram.observe({ label }, 1);
      expect(familyText(await figuresOfMetric(gauge, "sum"))).toBe(await registry.getSingleMetricAsString("a"));
      expect(familyText(await figuresOfMetric(histogram, "sum"))).toBe(await registry.getSingleMetricAsString("b"));
    }),
  );
});

/** All families, wherever they are counted. */
async function familiesOf(metrics: Scrape): Promise<FamilyFigures[]> {
  const counted = metrics.inCells().map((family) => new CellFamilyReader(family).figures());
  return [...(await metrics.figures()), ...counted];
}

const namesBy = async (role: MetricsRole): Promise<Map<string, FamilyFigures>> =>
  new Map((await familiesOf(metricsOf({ store: storeOf() }, role))).map((each) => [each.name, each]));

/** The main thread reads those of workers without asking them. */
const isOfDelays = (name: string): boolean => /^nodejs_eventloop_lag_(?:max|p\d+)_seconds$/.test(name);

test("every family that is not a sum is decided one by one", async () => {
  const byMerge: Record<string, string[]> = { max: [], min: [], process: [] };
  for (const { name, merge } of (await namesBy("only")).values()) byMerge[merge]?.push(name);
  expect(byMerge["max"]?.filter((name) => !name.startsWith("nodejs_"))).toEqual([]);
  expect(byMerge["min"]?.sort()).toEqual([
    "headgate_heap_limit_bytes",
    "headgate_shared_reads",
    "headgate_upstream_names_current",
  ]);
  expect(byMerge["process"]?.filter((name) => !name.startsWith("process_")).sort()).toEqual([
    "headgate_admissions_merged_total",
    "headgate_build_info",
    "headgate_busiest_client_ratio",
    "headgate_client_connections",
    "headgate_clients_tracked",
    "headgate_coarse_keys",
    "headgate_config_current",
    "headgate_config_loaded_timestamp_seconds",
    "headgate_config_reloads_total",
    "headgate_config_restart_required",
    "headgate_counters_memory_bytes",
    "headgate_decisions_total",
    "headgate_draining",
    "headgate_event_loop_active_seconds_total",
    "headgate_evictions_total",
    "headgate_forgiven_keys_total",
    "headgate_reload_on_trial",
    "headgate_reload_trials_total",
    "headgate_rules",
    "headgate_shared_rules_state",
    "headgate_shared_rules_untold",
    "headgate_snapshot_bytes",
    "headgate_snapshot_failures_total",
    "headgate_snapshot_timestamp_seconds",
    "headgate_store_replicas",
    "headgate_store_shards",
    "headgate_store_state",
    "headgate_tls_certificate_current",
    "headgate_tls_certificate_expiry_timestamp_seconds",
    "headgate_tokens_ending",
    "headgate_tokens_file_current",
    "headgate_tokens_listed",
    "headgate_upstream_addresses",
    "headgate_upstream_state",
    "headgate_worker_restarts_total",
    "headgate_workers",
    "nodejs_version_info",
  ]);
});

test("a gauge of Node.js or of the process that is summed is one that adds up", async () => {
  const sums = [...(await namesBy("only")).values()].filter(({ name, type, merge }) => {
    return /^(?:nodejs|process)_/.test(name) && type === "gauge" && merge === "sum";
  });
  expect(sums.map(({ name }) => name)).toEqual(["nodejs_external_memory_bytes"]);
});

test("a worker and the main thread have all families between them, and no worker has one of the process", async () => {
  const [only, worker, main] = await Promise.all([namesBy("only"), namesBy("worker"), namesBy("main")]);
  expect([...new Set([...worker.keys(), ...main.keys()])].sort()).toEqual([...only.keys()].sort());
  for (const [name, { merge }] of only) {
    expect(worker.has(name), name).toBe(merge !== "process" && !isOfDelays(name));
    if (merge === "sum" || merge === "process") expect(main.has(name), name).toBe(true);
    // Otherwise the figure of a thread that has no upstream would be taken for the lowest.
    if (merge === "min" || merge === "max") {
      expect(main.has(name), name).toBe(/^(?:nodejs_|headgate_heap_limit)/.test(name));
    }
  }
});

test("the merged text of one thread's figures is what that thread writes itself", async () => {
  const metrics = metricsOf();
  for (let i = 0; i < 50; i += 1) metrics.observe(exchangeOf({ startedMs: 1_000 - i * 1.7, status: 200 + i * 7 }));
  const inCells = structuredClone(metrics.inCells()).map((family) => new CellFamilyReader(family).figures());
  const figures = [...structuredClone(await metrics.figures()), ...inCells];
  const texts = [...mergeFamilies([new Map(figures.map((each) => [each.name, each]))])].map(familyText);
  const { body } = await metrics.text(false);
  // The process goes on between the two.
  const steady = (text: string): string => {
    const families = text.trim().split("\n\n");
    return families
      .sort()
      .join("\n\n")
      .replace(/^((?:process|nodejs)_\S+) .*$/gm, "$1");
  };
  expect(steady(`${texts.join("\n\n")}\n`)).toBe(steady(body));
  expect(figures.length).toBeGreaterThan(50);
});
