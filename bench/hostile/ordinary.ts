// Measures what ordinary traffic costs for each connection, request and byte. An attack is compared with ordinary
// traffic that has as many connections, requests and bytes.
import type { Carrier, Counters } from "./attack.ts";
import { attackNamed } from "./attacks.ts";
import { type GatewayPlace, startGateway, threadsCpuUs } from "./gateway-process.ts";
import { type Bench, run } from "./run.ts";

/** CPU in microseconds. */
export interface Ordinary {
  readonly connectionUs: number;
  readonly requestUs: number;
  readonly byteUs: number;
  /** A byte of a response. */
  readonly answerByteUs: number;
}

/** In milliseconds of CPU. */
export function costOf(counters: Counters, ordinary: Ordinary): number {
  const { connections, requests, bytes, answered } = counters;
  const heads = connections * ordinary.connectionUs + requests * ordinary.requestUs;
  return (heads + bytes * ordinary.byteUs + answered * ordinary.answerByteUs) / 1000;
}

/** The names of the loads that measure the costs of a carrier. */
const loadsOf: Readonly<Record<Carrier, { fresh: string; kept: string; request: string; bytes: string }>> = {
  http1: plain("ordinary-get", "ordinary-upload"),
  proxy: plain("ordinary-get", "ordinary-upload"),
  tunnel: plain("ordinary-get", "ordinary-upload"),
  admin: plain("ordinary-probe", "ordinary-upload"),
  "ext-auth": plain("ordinary-check", "ordinary-upload"),
  grpc: plain("ordinary-grpc-check", "ordinary-upload"),
  upstream: plain("ordinary-get", "ordinary-download"),
  tls: {
    fresh: "ordinary-tls-fresh",
    kept: "ordinary-tls-get",
    request: "ordinary-tls-get",
    bytes: "ordinary-tls-upload",
  },
  http2: {
    fresh: "ordinary-tls-fresh",
    kept: "ordinary-tls-get",
    request: "ordinary-http2-get",
    bytes: "ordinary-http2-upload",
  },
};

function plain(request: string, bytes: string) {
  return { fresh: "ordinary-fresh", kept: "ordinary-get", request, bytes };
}

export class OrdinaryCosts {
  readonly #bench: Bench;
  readonly #place: GatewayPlace;
  readonly #measured = new Map<string, Promise<{ perRequestUs: number; perByteUs: number }>>();

  constructor(bench: Bench, place: GatewayPlace) {
    this.#bench = bench;
    this.#place = place;
  }

  async of(carrier: Carrier): Promise<Ordinary> {
    const { fresh, kept, request, bytes } = loadsOf[carrier];
    const { perRequestUs: freshUs } = await this.#cost(fresh);
    const { perRequestUs: keptUs } = await this.#cost(kept);
    return {
      connectionUs: Math.max(0, freshUs - keptUs),
      requestUs: (await this.#cost(request)).perRequestUs,
      byteUs: (await this.#cost(bytes)).perByteUs,
      answerByteUs: (await this.#cost("ordinary-download")).perByteUs,
    };
  }

  #cost(name: string): Promise<{ perRequestUs: number; perByteUs: number }> {
    const known = this.#measured.get(name) ?? this.#measure(name);
    this.#measured.set(name, known);
    return known;
  }

  async #measure(name: string): Promise<{ perRequestUs: number; perByteUs: number }> {
    const load = attackNamed(name);
    const gateway = await startGateway(this.#place, load);
    try {
      // The first run warms the compiler.
      await run({ ...this.#bench, seconds: 0.7 }, gateway, load);
      const before = threadsCpuUs(gateway.child.pid);
      const { requests, bytes } = await run({ ...this.#bench, seconds: 1.2 }, gateway, load);
      const cpuUs = threadsCpuUs(gateway.child.pid) - before;
      return { perRequestUs: cpuUs / requests, perByteUs: cpuUs / bytes };
    } finally {
      await gateway.child.stop();
    }
  }
}
