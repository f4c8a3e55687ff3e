// The rules for Prometheus: promtool accepts them, every alert fires when it should and not in similar situations
// (deploy/prometheus/tests), and names its runbook.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { panelsOf, shippedDashboard } from "./dashboard-queries.ts";
import { readRules, readRulesIn, rulesFolder } from "./rules.ts";

const installed = spawnSync("promtool", ["--version"]).status === 0;
// HEADGATE_REQUIRE=all turns what is missing into a failure.
const { HEADGATE_REQUIRE } = process.env;
const skip = !installed && HEADGATE_REQUIRE !== "all";
const needs = "(needs promtool: apt-get install prometheus)";

const runbooks = readFileSync(new URL("../../docs/runbooks.md", import.meta.url), "utf8");
const alerts = readRules().filter(({ alert }) => alert !== undefined);
const cases = readdirSync(new URL("tests/", rulesFolder)).map((file) => `tests/${file}`);

function promtool(...args: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr, error } = spawnSync("promtool", args, {
    cwd: fileURLToPath(rulesFolder),
    encoding: "utf8",
  });
  if (error !== undefined) throw error;
  return { status, output: stdout + stderr };
}

test.skipIf(skip)(`promtool accepts the configuration and its rules ${needs}`, () => {
  const { status, output } = promtool("check", "config", "--lint-fatal", "prometheus.yaml");
  expect(status, output).toBe(0);
  expect(output).toMatch(/2 rule files found/);
});

// promtool evaluates hours of each alert, for up to three seconds of processor time for one file and seven for all. The time
// only ends a promtool that hangs.
test.skipIf(skip).each(cases)(`the rules do what %s says ${needs}`, { timeout: 60_000 }, (file) => {
  const { status, output } = promtool("test", "rules", file);
  expect(status, output).toBe(0);
  expect(output.match(/SUCCESS/g)).toHaveLength(1);
});

test("every alert and every recording rule is in those tests, and every alert fires in one", () => {
  const texts = cases.map((file) => readFileSync(new URL(file, rulesFolder), "utf8")).join("\n");
  const silent = readRules().filter(({ alert, record }) =>
    alert === undefined
      ? !texts.includes(`'${record}{`)
      : !texts.includes(`ALERTS{alertname="${alert}", alertstate="firing"`),
  );
  expect(silent.map(({ alert, record }) => alert ?? record)).toEqual([]);
});

test("every alert has a severity, a summary, a description and a runbook", () => {
  for (const { alert = "", labels, annotations } of alerts) {
    expect(alert).toMatch(/^Headgate[A-Z]/);
    expect(labels?.severity, alert).toMatch(/^(?:critical|warning|info)$/);
    expect(Object.keys(annotations ?? {}), alert).toEqual(["summary", "description", "runbook_url"]);
    expect(annotations?.runbook_url).toBe(`docs/runbooks.md#${alert.toLowerCase()}`);
    expect(annotations?.summary.length, alert).toBeGreaterThan(20);
    expect(annotations?.description.length, alert).toBeGreaterThan(10);
  }
});

test("the command in docs/monitoring.md makes a whole URL of every runbook_url", () => {
  const page = readFileSync(new URL("../../docs/monitoring.md", import.meta.url), "utf8");
  const [, script = ""] = /^sed -i '([^']+)' alerts\.rules\.yaml$/m.exec(page) ?? [];
  const input = readFileSync(new URL("alerts.rules.yaml", rulesFolder));
  const { stdout } = spawnSync("sed", [script], { input, encoding: "utf8" });
  const urls = readRulesIn(stdout).map(({ annotations }) => new URL(annotations?.runbook_url ?? "").href);
  expect(urls).toEqual(
    alerts.map(({ alert = "" }) => `https://wiki.example/headgate/docs/runbooks.md#${alert.toLowerCase()}`),
  );
});

test("docs/monitoring.md says how many rules there are", () => {
  const page = readFileSync(new URL("../../docs/monitoring.md", import.meta.url), "utf8");
  expect(page).toContain(`| ${alerts.length} alerts,`);
  expect(page).toContain(`| ${readRules().length - alerts.length} recording rules:`);
});

test("every alert has a section with its severity in the runbooks, and every section an alert", () => {
  const sections = [...runbooks.matchAll(/^## (\w+)\n\n\*(\w+)\*/gm)].map(
    ([, name, severity]) => `${name} ${severity}`,
  );
  expect(sections).toEqual(alerts.map(({ alert, labels }) => `${alert} ${labels?.severity}`));
});

test("every panel that the runbooks name is on the dashboard, and every log line in the source", () => {
  const titles = panelsOf(shippedDashboard()).map(({ title }) => title);
  const named = [...runbooks.matchAll(/“([^”]+)”/g)].map(([, title = ""]) => title.replaceAll(/\s+/g, " "));
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((title) => !titles.includes(title))).toEqual([]);
  const lines = [...runbooks.matchAll(/log lines? `([^`]+)`(?: and `([^`]+)`)?/g)].flatMap(([, ...names]) =>
    names.filter((name) => name !== undefined),
  );
  expect(lines.length).toBeGreaterThan(5);
  const source = sourceText();
  expect(lines.filter((line) => !source.includes(line))).toEqual([]);
});

/** The text of src/, and the lines about files, which begin with the name that each group of files has in the log. */
function sourceText(): string {
  const src = new URL("../../src/", import.meta.url);
  const text = readdirSync(src, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => readFileSync(new URL(path, src), "utf8"))
    .join("\n");
  expect(text).toMatch(/`\$\{what\} not usable/);
  const names = [...text.matchAll(/createFileLog(?:<\w+>)?\(log, "([^"]+)"/g)].map(([, name]) => `${name} not usable`);
  return [text, ...names].join("\n");
}
