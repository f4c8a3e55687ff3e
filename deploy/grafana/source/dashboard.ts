// The dashboard as a whole: one screen that answers the four questions, and a closed row of details for each.
import {
  AnnotationQueryBuilder,
  type Dashboard,
  DashboardBuilder,
  DashboardCursorSync,
  RowBuilder,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { firstScreen } from "./first-screen.ts";
import { itself } from "./itself.ts";
import { limits } from "./limits.ts";
import { type AnyPanelSpec, buildPanel, datasource } from "./panel.ts";
import { traffic } from "./traffic.ts";
import { upstream } from "./upstream.ts";
import { variables } from "./variables.ts";

const details: readonly (readonly [title: string, panels: readonly AnyPanelSpec[]])[] = [
  ["What is happening: traffic and connections", traffic],
  ["How much is refused: limits and tokens", limits],
  ["Is the gateway itself well", itself],
  ["Is the upstream well", upstream],
];

export function buildDashboard(): Dashboard {
  let id = 0;
  const nextId = (): number => {
    id += 1;
    return id;
  };
  const dashboard = new DashboardBuilder("Headgate")
    .uid("headgate")
    .description(
      "Is made by `npm run dashboard`: change deploy/grafana/source and make it anew. docs/monitoring.md explains it.",
    )
    .tags(["headgate", "rate-limiting"])
    .time({ from: "now-1h", to: "now" })
    .refresh("30s")
    .tooltip(DashboardCursorSync.Crosshair)
    .variables([...variables])
    .annotation(firingAlerts());
  for (const spec of firstScreen) dashboard.withPanel(buildPanel(spec, nextId()));
  for (const [title, panels] of details) {
    const row = new RowBuilder(title).id(nextId()).collapsed(true);
    for (const spec of panels) row.withPanel(buildPanel(spec, nextId()));
    dashboard.withRow(row);
  }
  return dashboard.build();
}

export function dashboardText(): string {
  return `${JSON.stringify(buildDashboard(), null, 2)}\n`;
}

/** From the alerts of deploy/prometheus, where they are loaded. */
function firingAlerts(): AnnotationQueryBuilder {
  return new AnnotationQueryBuilder()
    .name("Alerts")
    .datasource(datasource)
    .enable(true)
    .iconColor("red")
    .expr('ALERTS{alertname=~"Headgate.*", alertstate="firing", job=~"$job|"}')
    .titleFormat("{{alertname}}")
    .textFormat("{{instance}}");
}
