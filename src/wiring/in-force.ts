// The configuration in force. Listeners, requests and metrics read it here, and a reload replaces it in one synchronous
// step, so that each request sees the old configuration or the new one.
import type { Replaceable, TrafficSettings } from "../core/traffic-settings.ts";
import { RuntimeRef } from "../exchange/exchange.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Configuration } from "./configuration.ts";
import { closeFiles } from "./configured-files.ts";
import type { CheckRefs } from "./ext-auth.ts";
import { Upstreams } from "./upstreams.ts";

export class InForce {
  readonly runtime: RuntimeRef;
  readonly traffic: Replaceable<TrafficSettings>;
  /** Null: there are no listeners for checks. */
  readonly checks: CheckRefs | null;
  readonly upstreams: Upstreams;
  #configuration: Configuration;

  constructor(first: Configuration) {
    const { runtime, traffic, checks, upstream } = first;
    this.#configuration = first;
    this.runtime = new RuntimeRef(runtime);
    this.traffic = { current: traffic };
    this.checks = checks && {
      runtime: new RuntimeRef(checks.runtime),
      quotaRuntime: new RuntimeRef(checks.quotaRuntime),
      settings: { current: checks.settings },
    };
    this.upstreams = new Upstreams(upstream);
  }

  get configuration(): Configuration {
    return this.#configuration;
  }

  /** Nothing is awaited here: no request begins in between. */
  replace(next: Configuration, { log, telemetry }: { readonly log: Logger; readonly telemetry: Telemetry }): void {
    const before = this.#configuration;
    this.#configuration = next;
    this.runtime.current = next.runtime;
    this.traffic.current = next.traffic;
    if (this.checks !== null && next.checks !== null) {
      this.checks.runtime.current = next.checks.runtime;
      this.checks.quotaRuntime.current = next.checks.quotaRuntime;
      this.checks.settings.current = next.checks.settings;
    }
    const { routes, policies } = next.settings;
    telemetry.metrics.addSeries({ routes, policies: policies.map(({ name }) => name) });
    if (next.limiter !== before.limiter) before.limiter.replacedBy(next.limiter);
    if (next.upstream !== before.upstream) telemetry.upstreamReplaced();
    this.upstreams.replace(next.upstream);
    const { level } = next.settings.log;
    if (level !== before.settings.log.level) log.level = level;
    closeFiles(before.files, next.files);
  }

  /** Closes the connections to the upstream, those with a request too, and stops watching files. */
  close(): void {
    this.upstreams.close();
    closeFiles(this.#configuration.files, null);
  }
}
