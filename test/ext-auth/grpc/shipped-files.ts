// What Envoy would ask with a file of deploy/ingress/, read from the file itself: where it connects, what it says of itself, and
// the descriptor that its actions make of a request.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";

type Yaml = Record<string, unknown>;

const folder = join(import.meta.dirname, "../../../deploy/ingress");

export function readDocuments(file: string): Yaml[] {
  return parseAllDocuments(readFileSync(join(folder, file), "utf8")).map((document) => {
    if (document.errors.length > 0) throw document.errors[0];
    return document.toJS() as Yaml;
  });
}

/** By a path of names and indices, such as "spec.rules.0". */
export function at(yaml: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((value, key) => (value as Yaml | undefined)?.[key], yaml);
}

export interface EnvoyFile {
  /** The filter that asks. */
  readonly filter: Yaml;
  readonly virtualHost: Yaml;
  readonly clusters: ReadonlyMap<string, Yaml>;
  /** initial_metadata of the service that is asked. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly grpcService: Yaml;
}

export function readEnvoyFile(file: string): EnvoyFile {
  const [yaml] = readDocuments(file);
  const manager = at(yaml, "static_resources.listeners.0.filter_chains.0.filters.0.typed_config");
  const filter = at(manager, "http_filters.0.typed_config") as Yaml;
  const grpcService = (filter["grpc_service"] ?? at(filter, "rate_limit_service.grpc_service")) as Yaml;
  const metadata = (grpcService["initial_metadata"] ?? []) as { key: string; value: string }[];
  const clusters = at(yaml, "static_resources.clusters") as Yaml[];
  return {
    filter,
    virtualHost: at(manager, "route_config.virtual_hosts.0") as Yaml,
    clusters: new Map(clusters.map((cluster) => [String(cluster["name"]), cluster])),
    metadata: Object.fromEntries(metadata.map(({ key, value }) => [key, value])),
    grpcService,
  };
}

/** The entries that the actions of one rate limit make, as route_components.proto says. */
export function descriptorOf(actions: unknown, request: { address: string; fields: Record<string, string> }): object {
  const entries = (actions as Yaml[]).map((action) => {
    if ("remote_address" in action) return { key: "remote_address", value: request.address };
    const { header_name: name, descriptor_key: key } = action["request_headers"] as Record<string, string>;
    return { key, value: request.fields[name ?? ""] };
  });
  return { entries };
}
