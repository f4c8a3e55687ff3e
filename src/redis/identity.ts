// What a server says about itself: by which the limiter sees that it may have forgotten, and what its operator should
// change.
import type { HostPort } from "../core/host-port.ts";
import type { StoreIdentity } from "../core/shared-store.ts";
import { StoreError } from "./call-failure.ts";
import type { Connection } from "./connection.ts";

type Fields = ReadonlyMap<string, string>;

/** Redis 6 accepts one section a command. */
const sections = ["server", "replication", "memory", "stats", "persistence"];
const oldest = [6, 2] as const;

/** Rejects with a StoreError. */
export async function identify(connection: Connection): Promise<StoreIdentity> {
  const [texts, saved] = await Promise.all([
    Promise.all(sections.map((section) => connection.ask("info", section))),
    connection.ask("config", "GET", "save").catch(() => null),
  ]);
  const fields = fieldsOf(texts.join("\n"));
  const run = fields.get("run_id");
  if (run === undefined) throw new StoreError({ kind: "failed", detail: "INFO does not name the run of the server" });
  return {
    epoch: `${run} ${fields.get("master_replid") ?? ""}`,
    evictedKeys: Number(fields.get("evicted_keys") ?? 0),
    server: `${serverName(fields)} at ${addressText(connection.address)}`,
    warnings: warningsOf(fields, savePoints(saved)),
  };
}

function fieldsOf(text: string): Fields {
  const lines = text.split("\n").map((line) => line.trim());
  return new Map(
    lines
      .filter((line) => !line.startsWith("#") && line.includes(":"))
      .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]),
  );
}

function serverName(fields: Fields): string {
  const valkey = fields.get("valkey_version");
  const [name, version] = valkey === undefined ? ["Redis", fields.get("redis_version") ?? "?"] : ["Valkey", valkey];
  return `${name} ${version.replace(/[^\w.-]/g, "").slice(0, 40)}`;
}

function addressText({ host, port }: HostPort): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** Null: the server does not say. */
function savePoints(reply: unknown): string | null {
  return Array.isArray(reply) && typeof reply[1] === "string" ? reply[1] : null;
}

function warningsOf(fields: Fields, savePoints: string | null): string[] {
  const warnings: string[] = [];
  const policy = fields.get("maxmemory_policy") ?? "noeviction";
  if (Number(fields.get("maxmemory") ?? 0) > 0 && policy !== "noeviction") {
    warnings.push(`maxmemory-policy is ${policy.replace(/[^\w-]/g, "").slice(0, 40)}: it can forget quotas`);
  }
  const isPersistent = fields.get("aof_enabled") === "1" || savePoints !== "";
  if (!isPersistent && fields.get("connected_slaves") === "0") {
    warnings.push("it has no persistence and no replica: a restart forgets what was counted");
  }
  if (isTooOld(fields.get("redis_version") ?? "")) warnings.push("versions below 6.2 are not supported");
  if (fields.get("role") === "slave") warnings.push("it is a replica: nothing can be counted there");
  return warnings;
}

function isTooOld(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major < oldest[0] || (major === oldest[0] && minor < oldest[1]);
}
