// The tests of the rules in an installation that has other names: the job is called otherwise, each target has labels that the
// installation adds, and Prometheus 3 has rewritten the buckets. The same alerts must fire, with the added labels.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parse, stringify } from "yaml";
import { rulesFolder } from "./rules.ts";

interface RuleTests {
  readonly rule_files: readonly string[];
  readonly tests: readonly RuleTest[];
}

interface RuleTest {
  readonly input_series: readonly InputSeries[];
  readonly promql_expr_test?: readonly {
    readonly exp_samples: readonly { readonly labels: string; readonly value: number }[];
  }[];
}

interface InputSeries {
  readonly series: string;
  readonly values: string;
}

const added = { cluster: "eu-1", env: "prod", tenant: "shop" };

/** `file`: of `ruleTests`. Returns its text with other names, and how many samples it expects. */
export function relabelled(file: string): { text: string; expected: number } {
  const { rule_files, tests, ...others } = parse(readFileSync(new URL(file, rulesFolder), "utf8")) as RuleTests;
  const changed = tests.filter(knowsGatewaysByMetric).map(({ input_series, promql_expr_test = [], ...test }) => ({
    ...test,
    // The texts of alerts have a file of their own.
    alert_rule_test: undefined,
    input_series: withMarks(input_series.map(({ series, values }) => ({ series: relabel(series), values }))),
    promql_expr_test: promql_expr_test.map((expr) => ({
      ...expr,
      exp_samples: expr.exp_samples.map(({ labels, value }) => ({ labels: relabel(labels), value })),
    })),
  }));
  const rules = rule_files.map((name) => fileURLToPath(new URL(name, new URL("tests/", rulesFolder))));
  const expected = changed.flatMap(({ promql_expr_test }) =>
    promql_expr_test.flatMap(({ exp_samples }) => exp_samples),
  );
  return { text: stringify({ ...others, rule_files: rules, tests: changed }), expected: expected.length };
}

/** A gateway that cannot be scraped has no metric now: other-names.test.yaml is about those. */
function knowsGatewaysByMetric({ input_series }: RuleTest): boolean {
  return !input_series.some(({ series, values }) => /^up\{job="[^"]*headgate/.test(series) && /\b0x/.test(values));
}

function relabel(series: string): string {
  const [, name = "", text = ""] = /^([\w:]+)\{(.*)\}$/.exec(series) ?? [];
  const labels = Object.fromEntries(
    [...text.matchAll(/(\w+)="([^"]*)"/g)].map(([, label = "", value = ""]) => [label, value]),
  );
  const { job, instance, le } = labels;
  // HeadgateMissing is about no target.
  if (job === undefined) return series;
  const all = {
    ...labels,
    ...added,
    job: job.replace("headgate", "limits"),
    ...(instance === undefined ? {} : { pod: `pod-of-${instance}` }),
    ...(le === undefined ? {} : { le: le.replace(/^\d+$/, "$&.0") }),
  };
  return `${name}{${Object.entries(all)
    .map(([label, value]) => `${label}="${value}"`)
    .join(", ")}}`;
}

/** Adds the metric by which each gateway is known, where the test does not have it. */
function withMarks(series: readonly InputSeries[]): readonly InputSeries[] {
  const ofGateways = series.map((each) => each.series).filter((each) => /\bjob="[^"]*limits/.test(each));
  const marked = new Set(ofGateways.filter((each) => each.startsWith("headgate_draining{")).map(targetOf));
  const targets = new Set(ofGateways.map(targetOf));
  return [
    ...series,
    ...[...targets]
      .filter((target) => !marked.has(target))
      .map((target) => ({ series: `headgate_draining{${target}}`, values: "0x400" })),
  ];
}

function targetOf(series: string): string {
  const own = [...series.matchAll(/(?:job|instance|pod|cluster|env|tenant)="[^"]*"/g)].map(([label]) => label);
  return own.sort().join(", ");
}
