// The shipped dashboard and rules with a real Prometheus and real traffic: every query of every panel and of every rule
// returns numbers. A query that is misspelled, or that joins series with different labels, returns none.
import { spawnSync } from "node:child_process";
import { beforeAll, describe, expect, test } from "vitest";
import { useSharedCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { skipRedis } from "../support/redis-servers.ts";
import { type Choice, everything, filledIn, panelsOf, shippedDashboard } from "./dashboard-queries.ts";
import { otherJobs, type Series } from "./prometheus.ts";
import { readRules } from "./rules.ts";
import { figureOfProgram, openScene, type Scene } from "./scene.ts";

const installed = spawnSync("prometheus", ["--version"]).status === 0;
// HEADGATE_REQUIRE=all turns what is missing into a failure.
const { HEADGATE_REQUIRE } = process.env;
const skip = skipRedis || (!installed && HEADGATE_REQUIRE !== "all");
const playMs = 30_000;
const rateSeconds = 8;

interface Rule {
  readonly name: string;
  readonly query: string;
  readonly type: "alerting" | "recording";
  readonly health: string;
  readonly lastError?: string;
  readonly state?: string;
}

describe.skipIf(skip)(
  "in a real Prometheus (needs prometheus and redis-server: apt-get install prometheus redis-server)",
  () => {
    const cleanup = useSharedCleanup();
    let scene: Scene;
    let range: { startSeconds: number; endSeconds: number; stepSeconds: number };

    beforeAll(async () => {
      scene = await openScene(cleanup, 1, true);
      const startSeconds = Date.now() / 1000;
      await scene.play(playMs);
      range = { startSeconds, endSeconds: Date.now() / 1000, stepSeconds: 1 };
    }, playMs + 60_000);

    const coarse = () => ({ ...range, stepSeconds: 5 });

    const rules = async (): Promise<Rule[]> =>
      ((await scene.prometheus.api("rules")) as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules);

    /** What a query reads, without the series that are always 0: it tells why the query returned nothing. */
    const rawSeries = async (expr: string): Promise<string> => {
      const names = [...new Set(expr.match(/headgate_\w+/g))].join("|");
      const found = await scene.prometheus.queryRange(`{__name__=~"up|${names}"}`, range);
      const moved = found.filter(({ values }) => values.some(([, value]) => value !== "0"));
      return moved.map(({ metric, values }) => `${JSON.stringify(metric)} ${JSON.stringify(values)}`).join("\n");
    };

    const chosen: readonly (readonly [string, Choice])[] = [
      ["everything", everything],
      ["one gateway and one route", { job: "headgate", instance: "gateway-a:9464", route: "/v2/" }],
      ...otherJobs.map(({ job_name }) => [`the job ${job_name}`, { ...everything, job: job_name }] as const),
    ];
    test.each(chosen)("every query of every panel returns numbers, for %s", async (_, choice) => {
      const empty: string[] = [];
      for (const { title, targets } of panelsOf(shippedDashboard())) {
        for (const { expr: written, refId } of targets ?? []) {
          // What would be a line at zero is left out, and the panel says so in words.
          const expr = written.replace(/ > 0$/, "");
          const series = await scene.prometheus.queryRange(filledIn(expr, choice, rateSeconds), range);
          if (!series.some(hasNumber)) empty.push(`${title} ${refId}: ${expr}\n${await rawSeries(expr)}`);
        }
      }
      expect(empty).toEqual([]);
    });

    test("the share of requests with nothing left is the same whatever a version of Prometheus calls the bucket", async () => {
      const { targets = [] } = panelsOf(shippedDashboard()).find(({ title }) => title === "Remaining quota") ?? {};
      for (const { expr } of targets) {
        const means: number[] = [];
        for (const job of ["headgate", ...otherJobs.map(({ job_name }) => job_name)]) {
          const series = await scene.prometheus.queryRange(filledIn(expr, { ...everything, job }, rateSeconds), range);
          const values = series.flatMap(({ values }) => values.map(([, value]) => Number(value)));
          means.push(values.reduce((sum, value) => sum + value, 0) / values.length);
        }
        expect(Math.min(...means)).toBeGreaterThan(0.01);
        expect(Math.max(...means) - Math.min(...means)).toBeLessThan(0.1);
      }
    });

    test("another program in the same job is in no panel", async () => {
      const [program] = await scene.prometheus.queryRange('process_open_fds{instance="another-program"}', range);
      expect(Number(program?.values[0]?.[1])).toBe(figureOfProgram);
      for (const { title, targets } of panelsOf(shippedDashboard())) {
        for (const { expr } of targets ?? []) {
          const found = await scene.prometheus.queryRange(filledIn(expr, everything, rateSeconds), coarse());
          expect(
            found.map(({ metric }) => metric["instance"]),
            title,
          ).not.toContain("another-program");
          const values = found.flatMap(({ values }) => values.map(([, value]) => Number(value)));
          expect(
            values.filter((value) => value === figureOfProgram),
            title,
          ).toEqual([]);
        }
      }
    });

    test("no query of a panel or a rule returns a number if a series that it asks for is missing", async () => {
      const panels = panelsOf(shippedDashboard()).flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
      const rules = readRules().filter(({ alert, record }) => !saysWhatIsMissing.includes(alert ?? record ?? ""));
      const queries = [...panels, ...rules.map(({ expr }) => expr)].flatMap((expr) => {
        const filled = filledIn(expr, everything, rateSeconds);
        return selectorsIn(filled).map((selector) => filled.replaceAll(selector, "headgate_missing"));
      });
      expect(queries.length).toBeGreaterThan(150);
      for (let i = 0; i < queries.length; i += 20) {
        const answers = queries.slice(i, i + 20).map(async (query) => {
          expect(await scene.prometheus.queryRange(query, coarse()), query).toEqual([]);
        });
        await Promise.all(answers);
      }
    });

    const units = (fate: string) => `headgate_store_units_total{fate="${fate}"}`;
    test.each([
      `${units("granted")} - ignoring (fate) ${units("spent")} - ignoring (fate) ${units("returned")} - ignoring (fate) headgate_store_held_units`,
      "sum without (outcome) (headgate_auth_total) - sum without (route, method, status_class) (headgate_requests_total)",
      "headgate_request_duration_seconds_count - sum without (method, status_class) (headgate_requests_total)",
    ])("what the pages promise of sums holds at each instant: %s", async (difference) => {
      const series = await scene.prometheus.queryRange(difference, range);
      expect(series.length).toBeGreaterThanOrEqual(2);
      for (const { metric, values } of series) {
        expect(new Set(values.map(([, value]) => value)), JSON.stringify(metric)).toEqual(new Set(["0"]));
      }
    });

    test("the load is mixed enough that only the expected panels show nothing but zeros", async () => {
      const allZero: string[] = [];
      for (const { title, targets } of panelsOf(shippedDashboard())) {
        const queries = (targets ?? []).map(({ expr }) => filledIn(expr, everything, rateSeconds));
        const answers = await Promise.all(queries.map((query) => scene.prometheus.queryRange(query, range)));
        if (!answers.flat().some(({ values }) => values.some(([, value]) => Number(value) > 0))) allZero.push(title);
      }
      // The load has no PROXY header and no ingress, and reaches no limit on connections. No client exceeds its share or
      // sends most of the requests. Nobody sets a rule, or forgives. Nothing is reloaded, the counters have room, and their
      // snapshots can be written. Of small limits, units are held for a moment only.
      const beyond = [
        ...["Client connections shed", "Clients over their share", "Ingress checks"],
        ...["Busiest client", "Rules in force", "Blocked requests", "Forgiven keys"],
        ...["Reloads", "Reloads on trial", "Keys that need a restart"],
        ...["Coarse keys", "Merged admissions", "Failed snapshots"],
        ...["Clients counted with their network", "Units held"],
      ];
      expect(allZero.filter((title) => !beyond.includes(title))).toEqual([]);
    });

    test("the variables have something to choose from", async () => {
      for (const { name, query } of shippedDashboard().templating.list) {
        const [, series, label] = /^label_values\((.*), (\w+)\)$/.exec(query) ?? [];
        if (series === undefined || label === undefined) continue;
        const parameters = { "match[]": filledIn(series, everything, rateSeconds) };
        const values = await scene.prometheus.api(`label/${label}/values`, parameters);
        const expected: Record<string, string[]> = {
          job: ["finance-limits-admin", "headgate", "kubernetes-pods"],
          instance: ["gateway-a:9464", "gateway-b:9464"],
          route: ["/v1/", "/v2/", "none"],
        };
        expect(values, name).toEqual(expected[name]);
      }
    });

    test("the annotation for alerts is a query that Prometheus accepts", async () => {
      for (const { expr } of shippedDashboard().annotations.list) {
        await scene.prometheus.queryRange(filledIn(expr, everything, rateSeconds), range);
      }
    });

    test("every rule is evaluated, and every recorded series has numbers", async () => {
      const found = await rules();
      expect(
        found.filter(({ health }) => health !== "ok").map(({ name, lastError }) => `${name}: ${lastError}`),
      ).toEqual([]);
      const recorded = found.filter(({ type }) => type === "recording");
      expect(recorded.length).toBeGreaterThan(10);
      const empty: string[] = [];
      for (const { name } of recorded) {
        if (!(await scene.prometheus.queryRange(name, range)).some(hasNumber)) empty.push(name);
      }
      expect(empty).toEqual([]);
    });

    test("every alert compares series that exist", async () => {
      const empty: string[] = [];
      for (const { name, query, type } of await rules()) {
        if (type !== "alerting" || query.startsWith("absent(")) continue;
        // With `bool`, a comparison that is false returns 0 instead of no series.
        const compared = query.replaceAll(/ (==|!=|<=|>=|<|>) /g, " $1 bool ");
        expect(compared, "there is something to compare").not.toBe(query);
        if (!(await scene.prometheus.queryRange(compared, range)).some(hasNumber)) empty.push(name);
      }
      expect(empty).toEqual([]);
    });

    test("the first request after the upstream went away makes its alert pending", async () => {
      await scene.upstream.close();
      await scene.knock();
      const isPending = async (): Promise<boolean> =>
        (await rules()).some(({ name, state }) => name === "HeadgateUpstreamDown" && state === "pending");
      await eventually("the alert is pending", isPending, 10_000);
    });
  },
);

/** A gateway is known by one of three series; the alert is that there is none. */
const saysWhatIsMissing = ["target:headgate:known", "HeadgateMissing"];

/** What an expression selects, as a regular expression for each: a name alone, or with its labels. */
function selectorsIn(expr: string): RegExp[] {
  const found = new Set(expr.match(/(?<![\w:"])(?:[a-z_]+:)?(?:headgate|nodejs|process)_[\w:]+(?:\{[^}]*\})?/g));
  return [...found].map(
    (selector) => new RegExp(`(?<![\\w:"])${selector.replaceAll(/[{}|.*[\]()+?^$]/g, "\\$&")}(?![\\w:{])`, "g"),
  );
}

function hasNumber({ values }: Series): boolean {
  return values.some(([, value]) => Number.isFinite(Number(value)));
}
