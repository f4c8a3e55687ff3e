// The settings of counters in a store of a test's own.
import type { Settings } from "../../src/core/settings.ts";

export function sharedCounters(port: number): Settings["counters"] {
  const servers = { kind: "one" as const, address: { host: "127.0.0.1", port } };
  return {
    memoryBytes: 2 ** 20,
    snapshot: null,
    redis: {
      connection: { servers, database: 0, username: null, passwordFile: null, tls: null },
      store: {
        // A machine that is busy with other tests must not look like a store that fails.
        ...{ prefix: "headgate:", waitMs: 1_000, lease: { durationMs: 1_000, most: 1_000 } },
        ...{ onFailure: "local", replicas: "auto", maxKeys: 1_000 },
      },
    },
  };
}
