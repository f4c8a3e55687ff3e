// The two kinds of panels, a number (stat) and a chart, and how a description of one becomes Grafana's. What all panels
// have in common is set here, so that none depends on Grafana's defaults.
import type { Builder, Dataquery } from "@grafana/grafana-foundation-sdk/cog";
import {
  BigValueColorMode,
  BigValueGraphMode,
  LegendDisplayMode,
  LegendPlacement,
  ReduceDataOptionsBuilder,
  SortOrder,
  StackingConfigBuilder,
  StackingMode,
  TooltipDisplayMode,
  VisibilityMode,
  VizLegendOptionsBuilder,
  VizTooltipOptionsBuilder,
} from "@grafana/grafana-foundation-sdk/common";
import {
  type DynamicConfigValue,
  MappingType,
  type Panel,
  ThresholdsConfigBuilder,
  ThresholdsMode,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { DataqueryBuilder } from "@grafana/grafana-foundation-sdk/prometheus";
import { PanelBuilder as StatBuilder } from "@grafana/grafana-foundation-sdk/stat";
import { PanelBuilder as ChartBuilder } from "@grafana/grafana-foundation-sdk/timeseries";
import { health } from "./colors.ts";

/** Grafana's names of units. `percentunit`: a share from 0 to 1. */
export type Unit = "reqps" | "percentunit" | "s" | "bytes" | "short" | "cps";

export interface Query {
  readonly expr: string;
  /** In Grafana's notation: `{{reason}}` stands for the value of the label. */
  readonly legend: string;
  /** The colour of the only line, or one for each value of the label at the end of the legend. Default: Grafana's palette. */
  readonly color?: string | Readonly<Record<string, string>>;
}

interface PanelSpec {
  readonly title: string;
  /** What the panel shows, and which values are normal. */
  readonly description: string;
  readonly unit: Unit;
  /** In columns; the dashboard has 24. */
  readonly width: number;
  readonly queries: readonly Query[];
  /** Shown when there is no series. */
  readonly noValue?: string;
}

export interface ChartSpec extends PanelSpec {
  readonly kind: "chart";
  /** Stacks the series: they are parts of a whole. */
  readonly stacked?: boolean;
  readonly max?: number;
}

export interface StatSpec extends PanelSpec {
  readonly kind: "stat";
  /** The lowest values that are shown as a warning, and as a failure. */
  readonly limits?: readonly [attention: number, failed: number];
  /** Words shown instead of numbers, with their colours. */
  readonly words?: Readonly<Record<number, readonly [text: string, color: string]>>;
}

export type AnyPanelSpec = ChartSpec | StatSpec;

export const datasource = { type: "prometheus", uid: `\${datasource}` };
const chartHeight = 8;
const statHeight = 4;

export function buildPanel(spec: AnyPanelSpec, id: number): Builder<Panel> {
  return spec.kind === "chart" ? chart(spec, id) : stat(spec, id);
}

function chart(spec: ChartSpec, id: number): ChartBuilder {
  const { stacked = false } = spec;
  const built = new ChartBuilder()
    .id(id)
    .title(spec.title)
    .description(spec.description)
    .datasource(datasource)
    .unit(spec.unit)
    .min(0)
    .height(chartHeight)
    .span(spec.width)
    .lineWidth(1)
    .fillOpacity(stacked ? 40 : 8)
    .showPoints(VisibilityMode.Never)
    .stacking(new StackingConfigBuilder().mode(stacked ? StackingMode.Normal : StackingMode.None))
    .legend(
      new VizLegendOptionsBuilder()
        .showLegend(true)
        .displayMode(LegendDisplayMode.List)
        .placement(LegendPlacement.Bottom),
    )
    .tooltip(new VizTooltipOptionsBuilder().mode(TooltipDisplayMode.Multi).sort(SortOrder.Descending))
    .targets(targets(spec));
  if (spec.max !== undefined) built.max(spec.max);
  if (spec.noValue !== undefined) built.noValue(spec.noValue);
  for (const query of spec.queries) colorLines(built, query);
  return built;
}

function colorLines(built: ChartBuilder, { legend, color = {} }: Query): void {
  if (typeof color === "string") {
    built.overrideByName(legend, [fixedColor(color)]);
    return;
  }
  for (const [value, ofValue] of Object.entries(color)) {
    const name = legend.replace(/\{\{\w+\}\}$/, value);
    // A label before the last one may have any value.
    if (name.includes("{{")) built.overrideByRegexp(`/ ${value}$/`, [fixedColor(ofValue)]);
    else built.overrideByName(name, [fixedColor(ofValue)]);
  }
}

function stat(spec: StatSpec, id: number): StatBuilder {
  const [attention, failed] = spec.limits ?? [];
  const steps = [
    { value: null, color: spec.limits === undefined ? "text" : health.well },
    ...(attention === undefined ? [] : [{ value: attention, color: health.attention }]),
    ...(failed === undefined ? [] : [{ value: failed, color: health.failed }]),
  ];
  const built = new StatBuilder()
    .id(id)
    .title(spec.title)
    .description(spec.description)
    .datasource(datasource)
    .unit(spec.unit)
    .height(statHeight)
    .span(spec.width)
    .graphMode(spec.words === undefined ? BigValueGraphMode.Area : BigValueGraphMode.None)
    .colorMode(BigValueColorMode.Value)
    // A state is that of now. A number stands over a chart of the whole range, and must not be green because its last minute was.
    .reduceOptions(new ReduceDataOptionsBuilder().calcs([spec.words === undefined ? "mean" : "lastNotNull"]))
    .thresholds(new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(steps))
    .targets(targets(spec));
  if (spec.noValue !== undefined) built.noValue(spec.noValue);
  if (spec.words !== undefined) {
    const options = Object.entries(spec.words).map(([value, [text, color]]) => [value, { text, color }]);
    built.mappings([{ type: MappingType.ValueToText, options: Object.fromEntries(options) }]);
  }
  return built;
}

function targets({ queries }: PanelSpec): Builder<Dataquery>[] {
  return queries.map(({ expr, legend }, i) =>
    new DataqueryBuilder()
      .datasource(datasource)
      .refId(String.fromCharCode(65 + i))
      .expr(expr)
      .legendFormat(legend)
      .range(),
  );
}

function fixedColor(color: string): DynamicConfigValue {
  return { id: "color", value: { mode: "fixed", fixedColor: color } };
}
