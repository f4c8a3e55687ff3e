// Reads the shipped rules.
import { readdirSync, readFileSync } from "node:fs";
import { parse } from "yaml";

export const rulesFolder = new URL("../../deploy/prometheus/", import.meta.url);

export interface Rule {
  readonly alert?: string;
  readonly record?: string;
  readonly expr: string;
  readonly labels?: { readonly severity: string };
  readonly annotations?: { readonly summary: string; readonly description: string; readonly runbook_url: string };
}

export function readRules(): Rule[] {
  return readdirSync(rulesFolder)
    .filter((file) => file.endsWith(".rules.yaml"))
    .flatMap((file) => readRulesIn(readFileSync(new URL(file, rulesFolder), "utf8")));
}

/** `text`: a file of rules. */
export function readRulesIn(text: string): Rule[] {
  const { groups } = parse(text) as { groups: { rules: Rule[] }[] };
  return groups.flatMap(({ rules }) => rules);
}
