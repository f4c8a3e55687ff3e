// The two text formats: valid, equal in content, and independent of the order in which they are asked for.
import fc from "fast-check";
import { Counter, Histogram, Registry } from "prom-client";
import { expect, onTestFinished, test, vi } from "vitest";
import { toldMethods } from "../../src/core/method.ts";
import { exposer, toOpenMetrics } from "../../src/telemetry/exposition.ts";
import { Families, figuresOf } from "../../src/telemetry/families.ts";
import { statusClasses } from "../../src/telemetry/metrics.ts";
import { exchangeOf, metricsOf, scrape } from "./scrape.ts";

test("each format comes with its content type", async () => {
  const metrics = metricsOf();
  expect((await metrics.text(false)).contentType).toBe("text/plain; version=0.0.4; charset=utf-8");
  expect((await metrics.text(true)).contentType).toBe("application/openmetrics-text; version=1.0.0; charset=utf-8");
});

test("OpenMetrics names a counter's family without _total and its samples with it, and ends with # EOF", () => {
  const text =
    "# HELP a_total Of a_total things.\n# TYPE a_total counter\na_total 3\n\n# HELP b B.\n# TYPE b gauge\nb 1\n";
  expect(toOpenMetrics(text)).toBe(
    "# HELP a Of a_total things.\n# TYPE a counter\na_total 3\n# HELP b B.\n# TYPE b gauge\nb 1\n# EOF\n",
  );
});

test("OpenMetrics as exposed keeps to the grammar: no empty line, one # EOF, every sample under its own family", async () => {
  const { body } = await metricsOf().text(true);
  expect(body.endsWith("\n# EOF\n")).toBe(true);
  let family = "";
  let suffixes: readonly string[] = [];
  for (const line of body.slice(0, -"# EOF\n".length).trimEnd().split("\n")) {
    const type = line.match(/^# TYPE (\S+) (counter|gauge|histogram)$/);
    if (type?.[1] !== undefined) {
      family = type[1];
      suffixes = { counter: ["_total"], gauge: [""], histogram: ["_bucket", "_sum", "_count"] }[type[2] as "counter"];
      expect(family).not.toMatch(/_total$/);
    } else if (!line.startsWith("# HELP ")) {
      const name = line.match(/^([a-z0-9_]+)(?:\{[^}]+\})? (?:-?[0-9][0-9.e+-]*|NaN|\+Inf)$/)?.[1];
      expect(
        suffixes.map((suffix) => family + suffix),
        line,
      ).toContain(name);
    }
  }
});

test("scrapes of both formats at once and after each other tell the same", async () => {
  const metrics = metricsOf();
  metrics.observe(exchangeOf());
  const own = (series: Map<string, number>) => [...series].filter(([name]) => name.startsWith("headgate_"));
  const first = own(await scrape(metrics, false));
  const all = await Promise.all(Array.from({ length: 20 }, (_, i) => scrape(metrics, i % 2 === 0)));
  for (const series of [...all, await scrape(metrics, false)]) expect(own(series)).toEqual(first);
});

test("scrapes that overlap share one collection", async () => {
  let collections = 0;
  const metrics = metricsOf({ clientConnections: () => ++collections });
  await Promise.all([metrics.text(false), metrics.text(true), metrics.text(false)]);
  expect(collections).toBe(1);
  await metrics.text(true);
  expect(collections).toBe(2);
});

test("a scrape that fails does not fail the next one", async () => {
  let broken = true;
  const metrics = metricsOf({
    clientConnections: () => {
      if (broken) throw new Error("not now");
      return 1;
    },
  });
  await expect(metrics.text(false)).rejects.toThrow("not now");
  broken = false;
  expect((await scrape(metrics)).get("headgate_client_connections")).toBe(1);
});

test("no figure is NaN or absurd, not even when nothing happened between two scrapes", async () => {
  const metrics = metricsOf();
  await Promise.all([metrics.text(false), metrics.text(true)]);
  for (const [series, value] of await scrape(metrics)) {
    expect(Number.isFinite(value), series).toBe(true);
    if (series.startsWith("nodejs_eventloop")) expect(value, series).toBeLessThan(1_000);
  }
});

test("a histogram exposes exactly what prom-client's own would", async () => {
  const bounds = [0, 0.1, 1, 10];
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.oneof(fc.constantFrom(...bounds), fc.double({ min: 0, max: 20, noNaN: true }))),
      async (values) => {
        const [ours, theirs] = [new Families(), new Registry()];
        const series = ours.histogram("a_seconds", "A.", bounds).series({ route: "/v1/" });
        const histogram = new Histogram({
          name: "a_seconds",
          help: "A.",
          buckets: bounds,
          labelNames: ["route"],
          registers: [theirs],
        });
        histogram.zero({ route: "/v1/" });
        for (const value of values) {
          series.observe(value);
          histogram.observe({ route: "/v1/" }, value);
        }
        // prom-client writes whole bounds as `le="1"`.
        const expected = (await theirs.metrics()).replace(/le="(\d+)"/g, 'le="$1.0"');
        expect((await exposer(() => figuresOf(ours.all))(false)).body).toBe(expected);
      },
    ),
  );
});

test("a counter exposes exactly what prom-client's own would, whatever its labels are", async () => {
  const label = fc.string({ unit: fc.constantFrom("a", '"', "\\", "\n", "/", "é") });
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(label, { maxLength: 5 }), fc.nat(9), async (routes, count) => {
      const [ours, theirs] = [new Families(), new Registry()];
      const help = "A \\ and\nB.";
      const family = ours.counter("a_total", help);
      const counter = new Counter({ name: "a_total", help, labelNames: ["route", "x"], registers: [theirs] });
      for (const route of routes) {
        const series = family.series({ route, x: "1" });
        for (let i = 0; i < count; i += 1) series.add();
        counter.inc({ route, x: "1" }, count);
      }
      expect((await exposer(() => figuresOf(ours.all))(false)).body).toBe(await theirs.metrics());
    }),
  );
});

test("a large scrape lets others have a turn, and is the same as if it had not", async () => {
  const routes = Array.from({ length: 64 }, (_, i) => `/route-${i}/`);
  const metrics = metricsOf({ routes });
  let turns = 0;
  const turn = (): void => {
    turns += 1;
    if (!isDone) setImmediate(turn);
  };
  let isDone = false;
  setImmediate(turn);
  const { body } = await metrics.text(false);
  isDone = true;
  expect(turns).toBeGreaterThanOrEqual(3);
  expect(body.match(/^headgate_requests_total\{/gm)).toHaveLength(65 * (toldMethods.length + statusClasses.length - 1));
});

test("continuous scrapes take only a part of the time: each waits for the pause after the one before", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const metrics = metricsOf({ routes: Array.from({ length: 64 }, (_, i) => `/route-${i}/`) });
  const { body } = await metrics.text(false);
  let isWritten = false;
  const second = metrics.text(false).then(() => {
    isWritten = true;
  });
  // A scrape of 250,000 characters takes 4 ms and a few turns of the event loop.
  const pauseMs = body.length / 10_000;
  expect(pauseMs).toBeGreaterThan(20);
  for (const ms of [0, pauseMs - 1]) {
    vi.advanceTimersByTime(ms);
    for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => void setImmediate(resolve));
    expect(isWritten).toBe(false);
  }
  vi.advanceTimersByTime(2);
  await second;
});
