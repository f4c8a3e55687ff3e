// The rules for Prometheus: its own tool finds nothing wrong with them, every alert fires when it should and says where
// to look, and what looks like a reason and is none stays quiet (deploy/prometheus/tests).
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { readRules, readRulesIn, rulesFolder } from "./rules.ts";

const installed = spawnSync("promtool", ["--version"]).status === 0;
// HEADGATE_REQUIRE=all turns what is missing into a failure.
const { HEADGATE_REQUIRE } = process.env;
const skip = !installed && HEADGATE_REQUIRE !== "all";
const needs = "(needs promtool: apt-get install prometheus)";

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

test.skipIf(skip)(`promtool finds nothing wrong with the configuration and its rules ${needs}`, () => {
  const { status, output } = promtool("check", "config", "--lint-fatal", "prometheus.yaml");
  expect(status, output).toBe(0);
  expect(output).toMatch(/2 rule files found/);
});

test.skipIf(skip)(`the rules do what their tests say ${needs}`, () => {
  const { status, output } = promtool("test", "rules", ...cases);
  expect(status, output).toBe(0);
  expect(output.match(/SUCCESS/g)?.length).toBe(cases.length);
});

test("every alert and every recording is in those tests, and every alert fires in one", () => {
  const texts = cases.map((file) => readFileSync(new URL(file, rulesFolder), "utf8")).join("\n");
  const silent = readRules().filter(({ alert, record }) =>
    alert === undefined
      ? !texts.includes(`'${record}{`)
      : !texts.includes(`ALERTS{alertname="${alert}", alertstate="firing"`),
  );
  expect(silent.map(({ alert, record }) => alert ?? record)).toEqual([]);
});

test("every alert says how bad it is, what is wrong, and where it is explained", () => {
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

test("every alert has its section in the runbooks, of its severity, and every section its alert", () => {
  const text = readFileSync(new URL("../../docs/runbooks.md", import.meta.url), "utf8");
  const sections = [...text.matchAll(/^## (\w+)\n\n\*(\w+)\*/gm)].map(([, name, severity]) => `${name} ${severity}`);
  expect(sections).toEqual(alerts.map(({ alert, labels }) => `${alert} ${labels?.severity}`));
});
