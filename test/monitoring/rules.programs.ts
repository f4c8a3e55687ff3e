// The rules for Prometheus: promtool accepts them, and every alert has a test and names its runbook. rules.long.ts runs the tests.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { panelsOf, shippedDashboard } from "./dashboard-queries.ts";
import { promtool, promtoolNeeded, ruleTests, skipPromtool } from "./promtool.ts";
import { readRules, readRulesIn, rulesFolder } from "./rules.ts";

const runbooks = readFileSync(new URL("../../docs/runbooks.md", import.meta.url), "utf8");
const alerts = readRules().filter(({ alert }) => alert !== undefined);

test.skipIf(skipPromtool)(`promtool accepts the configuration and its rules ${promtoolNeeded}`, () => {
  const { status, output } = promtool("check", "config", "--lint-fatal", "prometheus.yaml");
  expect(status, output).toBe(0);
  expect(output).toMatch(/2 rule files found/);
});

test("every alert and every recording rule is in the tests of the rules, and every alert fires in one", () => {
  const texts = ruleTests.map((file) => readFileSync(new URL(file, rulesFolder), "utf8")).join("\n");
  const silent = readRules().filter(({ alert, record }) =>
    alert === undefined
      ? !texts.includes(`'${record}{`)
      : !texts.includes(`ALERTS{alertname="${alert}", alertstate="firing"`),
  );
  expect(silent.map(({ alert, record }) => alert ?? record)).toEqual([]);
});

test("no rule groups or joins by labels that the installation chooses, or asks for a job, except where a gateway is told from others", () => {
  const found = readRules().filter(({ expr }) => /\bby \(|\bon \(|\b(?:job|instance)[=!]/.test(expr));
  expect(found.map(({ alert, record }) => alert ?? record)).toEqual(["HeadgateDown", "target:headgate:known"]);
});

test("the command in docs/monitoring.md for a label of each gateway changes every rule about an installation", () => {
  const page = readFileSync(new URL("../../docs/monitoring.md", import.meta.url), "utf8");
  const [, script = ""] = /^sed -i '([^']+)' alerts\.rules\.yaml recording\.rules\.yaml$/m.exec(page) ?? [];
  const input = ["alerts", "recording"].map((name) => readFileSync(new URL(`${name}.rules.yaml`, rulesFolder), "utf8"));
  const { stdout } = spawnSync("sed", [script], { input: input.join(""), encoding: "utf8" });
  const before = input.join("").split("instance, pod, node, host").length;
  expect(before).toBeGreaterThan(20);
  expect(stdout.split("(instance, kubernetes_pod_name, pod, node, host").length).toBe(before);
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

test("the list above the runbooks has every alert once", () => {
  const [list = ""] = runbooks.split("\n## ");
  const listed = [...list.matchAll(/\[(\w+)\]\(#(headgate\w+)\)/g)].map(
    ([, name, anchor]) => `Headgate${name} ${anchor}`,
  );
  expect(listed.sort()).toEqual(alerts.map(({ alert = "" }) => `${alert} ${alert.toLowerCase()}`).sort());
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
  const groups = text.matchAll(/(?:createFileLog(?:<\w+>)?|watchCertificate)\([^"]*"([^"]+)"/g);
  const names = [...groups].map(([, name]) => `${name} not usable`);
  return [text, ...names].join("\n");
}
