// The dashboard's file: it is what its source generates, every panel is explained, and neither the dashboard nor the
// rules use a metric that the gateway does not have. prometheus.night.ts checks that the queries return numbers.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { dashboardText } from "../../deploy/grafana/source/dashboard.ts";
import { exchangeOf, metricsOf, storeOf, twoAddresses } from "../telemetry/scrape.ts";
import {
  type DashboardPanel,
  dashboardFile,
  everything,
  filledIn,
  panelsOf,
  shippedDashboard,
} from "./dashboard-queries.ts";
import { readRules } from "./rules.ts";

const panels = panelsOf(shippedDashboard());

test("the shipped file is what the source generates: run `npm run dashboard` after a change", () => {
  expect(readFileSync(dashboardFile, "utf8")).toBe(dashboardText());
});

test("every panel has a title of its own, a description, a unit, and names for its lines", () => {
  expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length);
  for (const { title, description = "", fieldConfig, targets = [] } of panels) {
    expect(description.length, title).toBeGreaterThan(30);
    expect(fieldConfig?.defaults.unit, title).toMatch(/^\w+$/);
    expect(targets.length, title).toBeGreaterThan(0);
    for (const { legendFormat } of targets) expect(legendFormat, title).not.toBe("");
  }
});

test("a panel shows either rates or levels: all of its queries have the unit it names", () => {
  const hasRate: Readonly<Record<string, boolean>> = { reqps: true, cps: true, short: false, bytes: false };
  for (const { title, fieldConfig, targets = [] } of panels) {
    const expected = hasRate[fieldConfig?.defaults.unit ?? ""];
    if (expected === undefined) continue;
    for (const { expr } of targets) expect(/\brate\(/.test(expr), `${title}: ${expr}`).toBe(expected);
  }
});

test("decisions are shown by policy, because a request has one for each policy that applies", () => {
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  const ofDecisions = queries.filter((expr) => expr.includes("headgate_decisions_total"));
  expect(ofDecisions.length).toBeGreaterThan(0);
  for (const expr of ofDecisions) expect(expr).toMatch(/^sum by \(policy\b/);
});

test("the memory for counters is shown by state: what is used beside what is free", () => {
  const memory = panels.find(({ title }) => title === "Memory for counters");
  expect((memory?.targets ?? []).map(({ expr }) => expr)).toEqual([
    expect.stringMatching(/^sum by \(state\) \(headgate_counters_memory_bytes\{/),
  ]);
});

test("no id is used twice, no panel covers another, and every line is full", () => {
  const { panels: top } = shippedDashboard();
  const all = [...top, ...top.flatMap((panel) => panel.panels ?? [])];
  expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
  for (const group of [top, ...top.map((panel) => panel.panels ?? [])]) {
    const cells = group.flatMap(cellsOf);
    expect(new Set(cells).size).toBe(cells.length);
    const widths = Map.groupBy(group, ({ gridPos }) => gridPos.y);
    for (const line of widths.values()) expect(line.reduce((sum, { gridPos }) => sum + gridPos.w, 0)).toBe(24);
  }
});

test("the first screen fits on a screen, and everything below it is collapsed", () => {
  const { panels: top } = shippedDashboard();
  const open = top.filter(({ type }) => type !== "row");
  // A unit is 38 pixels high with its gap. Of 1080 pixels, the bars of browser and Grafana leave room for 20 units.
  expect(Math.max(...open.map(({ gridPos }) => gridPos.y + gridPos.h))).toBeLessThanOrEqual(20);
  expect(top.filter(({ type }) => type === "row").map(({ panels = [] }) => panels.length > 0)).toEqual([
    true,
    true,
    true,
    true,
    true,
  ]);
});

test("every query selects the chosen job and instance", () => {
  for (const { title, targets = [] } of panels) {
    for (const { expr } of targets) {
      const selectors = [...expr.matchAll(/\{([^}]*)\}/g)].map(([, labels = ""]) => labels);
      expect(selectors.length, title).toBeGreaterThan(0);
      for (const labels of selectors) expect(labels, title).toMatch(/^job=~"\$job", instance=~"\$instance"/);
      expect(filledIn(expr, everything, 60), "no other variable is left").not.toMatch(/\$/);
    }
  }
  expect(() => filledIn("$unknown", everything, 60)).toThrow("no variable unknown");
});

test("a process of another program in the same job is in no panel: each figure of a process is taken of gateways alone", () => {
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  const ofProcesses = queries.filter((expr) => /\b(?:nodejs|process)_\w+\{/.test(expr));
  expect(ofProcesses.length).toBeGreaterThan(10);
  for (const expr of ofProcesses)
    expect(expr).toMatch(/\band (?:ignoring \(kind\) )?headgate_draining|\bheadgate_heap_limit/);
});

test("no query names a whole bound that Prometheus 3 names in another way, and none turns a missing series into a number", () => {
  const pages = ["metrics.md", "monitoring.md", "runbooks.md"].map((name) =>
    readFileSync(new URL(`../../docs/${name}`, import.meta.url), "utf8"),
  );
  const queries = [
    ...panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
    ...readRules().map(({ expr }) => expr),
  ];
  for (const text of [...queries, ...pages]) expect(text).not.toMatch(/\ble=~?"(?:\d+|5e-5|0\.0000\d+)"/);
  for (const query of queries) expect(query).not.toMatch(/\bvector\b|\babsent_over_time\b|\bor \(*\d/);
  const absences = readRules().filter(({ expr }) => expr.includes("absent("));
  expect(absences.map(({ alert }) => alert)).toEqual(["HeadgateMissing"]);
});

test("the gateway has every metric that panels, variables and rules use", async () => {
  const known = await knownNames();
  const rules = readRules();
  const recorded = new Set(rules.map(({ record }) => record));
  const { templating, annotations } = shippedDashboard();
  const asked = [
    ...panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
    ...templating.list.map(({ query }) => query),
    ...annotations.list.map(({ expr }) => expr),
    ...rules.map(({ expr }) => expr),
  ].flatMap(namesIn);
  expect(asked.length).toBeGreaterThan(100);
  const made = new Set(["up", "ALERTS"]);
  expect([...new Set(asked)].filter((name) => !known.has(name) && !recorded.has(name) && !made.has(name))).toEqual([]);
  expect(namesIn('sum by (a) (rate(headgate_nothing_total{a="headgate_x"}[5m]))')).toEqual(["headgate_nothing_total"]);
});

test("each metric of the gateway has a panel, or a file that says when to look at it", async () => {
  const drawn = panels.flatMap(({ targets = [] }) => targets.flatMap(({ expr }) => namesIn(expr)));
  const without = (await ownFamilies()).filter((name) => !drawn.some((each) => familyOf(each) === name));
  expect(without.sort()).toEqual(Object.keys(withoutPanel).sort());
  for (const [name, file] of Object.entries(withoutPanel)) {
    expect(readFileSync(new URL(`../../${file}`, import.meta.url), "utf8"), file).toContain(name);
  }
});

test("the provisioning names the Prometheus and the dashboard's folder", () => {
  const provisioning = new URL("../../deploy/grafana/provisioning/", import.meta.url);
  const read = (file: string) => parse(readFileSync(new URL(file, provisioning), "utf8"));
  const scrape = parse(readFileSync(new URL("../../deploy/prometheus/prometheus.yaml", import.meta.url), "utf8"));
  const [source] = read("datasources/prometheus.yaml").datasources;
  expect(source).toMatchObject({ type: "prometheus", url: "http://prometheus:9090", isDefault: true });
  expect(source.jsonData.timeInterval, "rates would be taken over too few scrapes").toBe(scrape.global.scrape_interval);
  expect(read("dashboards/headgate.yaml").providers).toMatchObject([{ type: "file", allowUiUpdates: false }]);
});

/** Metrics that no panel draws, with the file that says when to look at them. */
const withoutPanel: Readonly<Record<string, string>> = {
  headgate_clients_unread_total: "docs/client-address.md",
  headgate_shared_reads: "docs/log-lines.md",
  headgate_shared_rules_state: "docs/shared-counters.md",
  headgate_shared_rules_untold: "docs/shared-counters.md",
  headgate_store_late_total: "docs/shared-counters.md",
  headgate_store_state: "deploy/prometheus/alerts.rules.yaml",
  headgate_tokens_ending: "docs/authentication.md",
  headgate_waiting_body_bytes: "docs/runbooks.md",
  headgate_worker_restarts_total: "deploy/prometheus/alerts.rules.yaml",
};

/** Without the suffixes of a histogram. */
function familyOf(name: string): string {
  return name.replace(/_(?:bucket|sum|count)$/, "");
}

function cellsOf({ gridPos: { x, y, w, h } }: DashboardPanel): string[] {
  return Array.from({ length: w * h }, (_, i) => `${x + (i % w)}:${y + Math.floor(i / w)}`);
}

/** Names of metrics and recorded series in an expression, except in quoted strings. */
function namesIn(expr: string): string[] {
  const bare = expr.replaceAll(/"[^"]*"/g, '""');
  return bare.match(/\b(?:headgate|nodejs|process)_\w+|\b[a-z_]+:\w+:\w+|\bup\b|\bALERTS\b/g) ?? [];
}

async function knownNames(): Promise<Set<string>> {
  return new Set((await scrapedText()).split("\n").flatMap((line) => /^[a-z]\w*/.exec(line)?.[0] ?? []));
}

async function ownFamilies(): Promise<string[]> {
  return [...(await scrapedText()).matchAll(/^# TYPE (headgate_\w+)/gm)].map(([, name = ""]) => name);
}

async function scrapedText(): Promise<string> {
  const metrics = metricsOf({ store: storeOf(), upstreamAddresses: twoAddresses });
  metrics.observe(exchangeOf());
  return (await metrics.text(false)).body;
}
