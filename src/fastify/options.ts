// What a Fastify app passes and gets, as types.
import type { WrittenOf } from "../config/definition.ts";
import type { Exposition } from "../telemetry/exposition.ts";
import type { pluginOptions } from "./plugin-options.ts";

type PluginKeys = WrittenOf<typeof pluginOptions>;

/** Keys of the configuration file: docs/configuration.md explains each. Durations and sizes are texts such as "60s". */
export interface HeadgateOptions extends Omit<PluginKeys, "upstream"> {
  /** Where requests go that no route of the app takes. */
  readonly upstream?: (NonNullable<PluginKeys["upstream"]> & { readonly url: string }) | null;
}

/** The decoration of the app. */
export interface Headgate {
  /** The text of a scrape. `accept`: the Accept header, which chooses between OpenMetrics and Prometheus' own format. */
  metrics(accept?: string): Promise<Exposition>;
}

declare module "fastify" {
  interface FastifyInstance {
    headgate: Headgate;
  }
  interface FastifyContextConfig {
    /** `false` leaves the route out: it is neither limited nor asked for a token. */
    headgate?: boolean;
  }
}
