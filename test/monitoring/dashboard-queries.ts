// Reads the shipped dashboard: its panels, including those in collapsed rows, and their queries with the variables
// filled in.
import { readFileSync } from "node:fs";

export interface DashboardPanel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string; readonly refId: string }[];
  readonly panels?: readonly DashboardPanel[];
  readonly fieldConfig?: FieldConfig;
  readonly options?: { readonly reduceOptions?: { readonly calcs: readonly string[] } };
}

export interface FieldConfig {
  readonly defaults: {
    readonly unit: string;
    readonly max?: number;
    readonly noValue?: string;
    readonly custom?: { readonly stacking?: { readonly mode: string } };
    readonly thresholds?: { readonly steps: readonly { readonly value: number | null; readonly color: string }[] };
    readonly mappings?: readonly { readonly options: Readonly<Record<string, { text: string; color: string }>> }[];
  };
  readonly overrides: readonly {
    readonly matcher: { readonly id: string; readonly options: string };
    readonly properties: readonly { readonly value: { readonly fixedColor: string } }[];
  }[];
}

export interface ShippedDashboard {
  readonly panels: readonly DashboardPanel[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly query: string }[] };
  readonly annotations: { readonly list: readonly { readonly expr: string }[] };
}

/** Values of the variables: regular expressions, into which Grafana turns a choice. */
export interface Choice {
  readonly job: string;
  readonly instance: string;
  readonly route: string;
}

export const everything: Choice = { job: ".*", instance: ".*", route: ".*" };

export const dashboardFile = new URL("../../deploy/grafana/headgate.json", import.meta.url);

export function shippedDashboard(): ShippedDashboard {
  return JSON.parse(readFileSync(dashboardFile, "utf8"));
}

/** All panels that have queries. */
export function panelsOf({ panels }: ShippedDashboard): DashboardPanel[] {
  return panels.flatMap((panel) => (panel.type === "row" ? (panel.panels ?? []) : [panel]));
}

/** The colour that the first matching override gives to a line of this name; undefined if the palette decides. */
export function fixedColorOf({ fieldConfig }: DashboardPanel, name: string): string | undefined {
  const override = fieldConfig?.overrides.find(({ matcher: { id, options } }) =>
    id === "byRegexp" ? new RegExp(options.replaceAll(/^\/|\/$/g, "")).test(name) : options === name,
  );
  return override?.properties[0]?.value.fixedColor;
}

/** `rateSeconds`: the value of $__rate_interval. Throws if the query has an unknown variable. */
export function filledIn(expr: string, choice: Choice, rateSeconds: number): string {
  const values: Readonly<Record<string, string>> = { ...choice, __rate_interval: `${rateSeconds}s` };
  return expr.replaceAll(/\$(\w+)/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`no variable ${name}`);
    return value;
  });
}
