// `headgate config`: the configuration in force as it could be written, where it was written, and what the last reload has changed.
import type { Config } from "../../admin/control-plane.ts";
import { flow } from "../../config/effective.ts";
import { systemClock } from "../../core/clock.ts";
import { describeChange } from "../../core/reload.ts";
import type { ConnectedGateway } from "./connect.ts";
import { instantText, type Report, tableLines, trialEndText } from "./printed.ts";

export async function reportConfig({ client, status }: ConnectedGateway, against: "previous" | null): Promise<Report> {
  const answer = await client.config(against);
  const nowMs = systemClock.wallMs();
  return {
    answer,
    lines: () => (against === null ? configLines(answer, nowMs) : changeLines(answer, status.store !== null, nowMs)),
  };
}

function configLines({ loaded, values, origins, restart }: Config, nowMs: number): string[] {
  return [
    `# loaded at ${instantText(loaded, nowMs)}; secrets are masked`,
    ...(values === null
      ? ["# a program passed the settings"]
      : Object.entries(values).map(([key, value]) => flow({ [key]: value }, true).replace(/^\{ (.*) \}$/s, "$1"))),
    ...(origins.length === 0 ? [] : ["", "# written at:"]),
    ...tableLines(origins.map(({ key, place }) => [`# ${key}`, place])),
    ...restart.map(({ key, inForce, wanted }) => `# ${key}: ${inForce} → ${wanted} needs a restart`),
  ];
}

function changeLines({ lastReload, lastTrial }: Config, hasStore: boolean, nowMs: number): string[] {
  if (lastReload == null) return ["No reload has changed anything since the start."];
  const { at, by, caller, changed, changes, reset, loosened } = lastReload;
  const others = changed.filter((key) => !changes.some((change) => `${change.key}.`.startsWith(`${key}.`)));
  const cause =
    by === "trial" && lastTrial
      ? `: a reload on trial was ${trialEndText(lastTrial)}`
      : ` (${by}${caller === null ? "" : ` by ${caller}`})`;
  return [
    `The last change was at ${instantText(at, nowMs)}${cause}:`,
    ...changes.map((change) => `  ${describeChange(change, hasStore)}`),
    ...others.map((key) => `  ${key}: read again`),
    ...reset.map((name) => `  policies.${name}: started empty, because its name, kind or key was new`),
    ...loosened.map((key) => `  ${key}: gave up protection`),
  ];
}
