// A real Prometheus before gateways: started with the repository's own configuration and rules, in which only the
// targets and the intervals are replaced.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import type { Cleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startProcessGroup } from "../support/process-group.ts";
import { freeAddress } from "../support/unavailable.ts";

/**
 * The same gateways again, as other installations have them. `le`: as Prometheus 3 names the buckets when it ingests them,
 * and as Prometheus 2 has those of gateways that wrote whole numbers.
 */
export const otherJobs = [
  {
    job_name: "finance-limits-admin",
    labels: { cluster: "eu-1", env: "prod", tenant: "shop" },
    le: { regex: "(\\d+)", replacement: "$1.0" },
  },
  { job_name: "kubernetes-pods", labels: { app: "limits" }, le: { regex: "(\\d+)[.]0", replacement: "$1" } },
];

const shipped = new URL("../../deploy/prometheus/", import.meta.url);

export interface Target {
  /** What the label `instance` says. */
  readonly instance: string;
  readonly adminPort: number;
}

/** One time series of an answer. Values are as Prometheus gives them: instant in seconds, value as text. */
export interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly values: readonly (readonly [atSeconds: number, value: string])[];
}

export interface Prometheus {
  /** Throws what Prometheus says if the query is wrong. */
  queryRange(expr: string, range: { startSeconds: number; endSeconds: number; stepSeconds: number }): Promise<Series[]>;
  /** The `data` of an answer of its API. */
  api(path: string, parameters?: Readonly<Record<string, string>>): Promise<unknown>;
}

export async function startPrometheus(
  cleanup: Cleanup,
  targets: readonly Target[],
  intervalSeconds: number,
  /** Of another program, which the job kubernetes-pods scrapes too. Null: there is only the shipped job. */
  programPort: number | null,
): Promise<Prometheus> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-prometheus-"));
  cleanup(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(shipped, folder, { recursive: true });
  const file = join(folder, "prometheus.yaml");
  writeFileSync(file, adapted(readFileSync(file, "utf8"), targets, intervalSeconds, programPort));
  const url = await freeAddress();
  const options = [`--config.file=${file}`, `--storage.tsdb.path=${join(folder, "data")}`, "--log.level=error"];
  const { end } = startProcessGroup("prometheus", [...options, `--web.listen-address=${new URL(url).host}`], {
    stdout: "ignore",
    stderr: "inherit",
  });
  cleanup(end);
  await eventually(
    "Prometheus is ready",
    async () => (await fetch(`${url}/-/ready`).catch(() => null))?.ok === true,
    20_000,
  );
  const api = async (path: string, parameters: Readonly<Record<string, string>> = {}): Promise<unknown> => {
    const response = await fetch(`${url}/api/v1/${path}?${new URLSearchParams(parameters)}`);
    const answer = (await response.json()) as { status: string; data: unknown; error?: string };
    if (answer.status !== "success") throw new Error(`${answer.error} in ${JSON.stringify(parameters)}`);
    return answer.data;
  };
  return {
    api,
    async queryRange(query, { startSeconds, endSeconds, stepSeconds }) {
      const range = { start: `${startSeconds}`, end: `${endSeconds}`, step: `${stepSeconds}` };
      const { result } = (await api("query_range", { query, ...range })) as { result: Series[] };
      return result;
    },
  };
}

function adapted(
  text: string,
  targets: readonly Target[],
  intervalSeconds: number,
  programPort: number | null,
): string {
  const config = parse(text) as {
    global: Record<string, string>;
    scrape_configs: Record<string, unknown>[];
  };
  const interval = `${intervalSeconds}s`;
  config.global = { scrape_interval: interval, evaluation_interval: interval };
  const [job] = config.scrape_configs;
  if (job === undefined) throw new Error("nothing is scraped");
  const configs = (added: Record<string, string>) =>
    targets.map(({ instance, adminPort }) => ({
      targets: [`127.0.0.1:${adminPort}`],
      labels: { instance, ...(Object.keys(added).length > 0 && { ...added, pod: `pod-of-${instance}` }) },
    }));
  const programs = [{ targets: [`127.0.0.1:${programPort}`], labels: { instance: "another-program" } }];
  config.scrape_configs = [
    { ...job, static_configs: configs({}) },
    ...(programPort === null ? [] : otherJobs).map(({ job_name, labels, le }) => ({
      job_name,
      static_configs: [...configs(labels), ...(job_name === "kubernetes-pods" ? programs : [])],
      metric_relabel_configs: [{ source_labels: ["le"], target_label: "le", ...le }],
    })),
  ];
  return stringify(config);
}
