// The keys of the configuration whose values two settings have differently, as a log line names them.
import { isDeepStrictEqual } from "node:util";
import type { Settings } from "../core/settings.ts";

/** Dotted, such as `upstream.url`; a policy by its name, as in `policies.per-ip`. */
export function changedKeys(before: Settings, after: Settings): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((key) => {
    const [old, now] = [before[key as keyof Settings], after[key as keyof Settings]];
    return key === "policies" ? changedPolicies(before, after) : differing(old, now, key);
  });
}

function changedPolicies({ policies: before }: Settings, { policies: after }: Settings): string[] {
  const names = [...new Set([...before, ...after].map(({ name }) => name))];
  const changed = names.filter((name) => {
    const [old, now] = [before, after].map((policies) => policies.find((policy) => policy.name === name));
    return !isDeepStrictEqual(old, now);
  });
  if (changed.length > 0 || isDeepStrictEqual(before, after)) return changed.map((name) => `policies.${name}`);
  // Only their order is another.
  return ["policies"];
}

function differing(old: unknown, now: unknown, key: string): string[] {
  if (isDeepStrictEqual(old, now)) return [];
  if (!isSection(old) || !isSection(now)) return [key.replace(/Ms$/, "")];
  return [...new Set([...Object.keys(old), ...Object.keys(now)])].flatMap((name) =>
    differing(old[name], now[name], `${key}.${name}`),
  );
}

function isSection(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
