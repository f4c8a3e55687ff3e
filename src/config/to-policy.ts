// Makes a policy from the keys that were written and found valid.
import type { KeyPart, LimitOverride, Policy, Rate } from "../core/policy.ts";
import { overrideParts } from "./override-pairs.ts";
import type { WrittenPolicy } from "./policy-context.ts";
import { isTokenDigest } from "./policy-leaves.ts";

export function toPolicy(written: WrittenPolicy): Policy {
  const { name, cost, match, charge, mode, exempt } = written;
  const limit = written.concurrency ?? written.limit;
  if (limit === null) throw new Error("the checks let no policy be without a limit");
  return {
    name,
    rate: rateOf(written),
    limit,
    cost,
    key: written.key.map(keyPartOf),
    match,
    chargeStatuses: charge.statuses.length === 0 ? null : charge.statuses,
    mode,
    exempt,
    overrides: written.overrides.map(overrideOf),
  };
}

function rateOf({ concurrency, per, timezone, windowMs }: WrittenPolicy): Rate {
  if (concurrency !== null) return { kind: "concurrency" };
  if (per !== null) return { kind: "calendar", per, timezone: timezone ?? "UTC" };
  if (windowMs === null) throw new Error("the checks let no policy be without a window");
  return { kind: "sliding", windowMs };
}

function keyPartOf(text: string): KeyPart {
  const [kind = "", ...name] = text.split(":");
  switch (kind) {
    case "header":
    case "claim":
      return { kind, name: name.join(":") };
    case "client":
    case "token":
    case "subject":
    case "method":
    case "route":
      return { kind };
    default:
      throw new Error("the definition accepts no such part of a key");
  }
}

function overrideOf(written: WrittenPolicy["overrides"][number]): LimitOverride {
  const part = overrideParts.find((name) => written[name] !== null);
  if (part === undefined) throw new Error("the checks let no override be without a part");
  const value = written[part] ?? "";
  return { part, value: part === "token" && isTokenDigest(value) ? value.toLowerCase() : value, limit: written.limit };
}
