// The choices at the top of the dashboard. Every query uses them, so one dashboard serves any number of gateways.
import type { Builder } from "@grafana/grafana-foundation-sdk/cog";
import {
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  type VariableModel,
  VariableRefresh,
  VariableSort,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { datasource } from "./panel.ts";

export const variables: readonly Builder<VariableModel>[] = [
  new DatasourceVariableBuilder("datasource").label("Data source").type("prometheus"),
  choice("job", "Job", "label_values(headgate_build_info, job)"),
  choice("instance", "Instance", 'label_values(headgate_build_info{job=~"$job"}, instance)'),
  choice("route", "Route", 'label_values(headgate_requests_total{job=~"$job", instance=~"$instance"}, route)'),
];

/** Any number of the values that Prometheus has; at first all of them. */
function choice(name: string, label: string, query: string): Builder<VariableModel> {
  const all = { selected: true, text: ["All"], value: ["$__all"] };
  return new QueryVariableBuilder(name)
    .label(label)
    .datasource(datasource)
    .query(query)
    .definition(query)
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .sort(VariableSort.AlphabeticalAsc)
    .multi(true)
    .includeAll(true)
    .allValue(".*")
    .current(all);
}
