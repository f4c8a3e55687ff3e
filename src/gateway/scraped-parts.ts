// What a scrape of the metrics reads of one thread. The telemetry is made before the parts that it counts, because they
// report to it; a scrape comes when all of them are made.
import type { ClientBytes } from "../core/client-share.ts";
import type { SharedStoreFigures } from "../core/store-link.ts";
import type { SharedReads } from "../exchange/shared-reads.ts";
import type { Store } from "../limits/store/store.ts";
import type { TrafficListener } from "../listener/traffic-listener.ts";
import type { TelemetryOptions } from "../telemetry/telemetry.ts";
import type { InForce } from "./configuration.ts";

interface Parts {
  readonly inForce: InForce;
  readonly traffic: TrafficListener;
  readonly store: Store | null;
  readonly reads: SharedReads | null;
}

type Sources = Pick<
  TelemetryOptions,
  | "limiter"
  | "counters"
  | "upstreamConnections"
  | "upstreamAddresses"
  | "tunnels"
  | "waitingBodyBytes"
  | "clientConnections"
  | "sharesReads"
  | "tokens"
  | "certificate"
>;

export class ScrapedParts {
  readonly sources: Sources;
  readonly storeFigures: () => SharedStoreFigures;
  #parts: Parts | null = null;

  constructor(waitingBodies: ClientBytes) {
    const inForce = (): InForce => this.parts.inForce;
    this.sources = {
      // The series of the policies are made when the first configuration is in force.
      limiter: { stats: () => this.#parts?.inForce.configuration.limiter.stats() ?? [] },
      counters: () => inForce().configuration.limiter.counterFigures(),
      upstreamConnections: () => inForce().upstreams.connections(),
      upstreamAddresses: () => inForce().upstreams.addresses(),
      tunnels: () => inForce().upstreams.tunnels(),
      waitingBodyBytes: () => waitingBodies.bytes,
      clientConnections: () => this.parts.traffic.connectionCount,
      sharesReads: () => this.parts.reads !== null,
      tokens: () => inForce().configuration.files.authenticator.tokens(),
      certificate() {
        const { certificate } = inForce().configuration.files;
        return certificate && { expiresMs: certificate.value.expiresMs, isCurrent: certificate.isCurrent };
      },
    };
    this.storeFigures = () => {
      const { store } = this.parts;
      if (store === null) throw new Error("the counters are not shared");
      return store.figures();
    };
  }

  get parts(): Parts {
    if (this.#parts === null) throw new Error("a scrape before all parts are made");
    return this.#parts;
  }

  /** Set once. */
  set parts(parts: Parts) {
    this.#parts = parts;
  }
}
