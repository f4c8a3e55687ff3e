// What a Fastify app passes and gets, as types.
import type { Exposition } from "../telemetry/exposition.ts";

/** Keys of the configuration file: docs/configuration.md explains each. Durations and sizes are texts such as "60s". */
export interface HeadgateOptions {
  readonly policies?: readonly PolicyOptions[];
  readonly enforcement?: "on" | "shadow";
  readonly counters?: { readonly memory?: string | number };
  readonly refusals?: { readonly perSecond?: number; readonly burst?: number };
  readonly auth?: {
    readonly mode?: "off" | "presence" | "tokens";
    /** The first rule that fits decides, and `mode` if none does. */
    readonly rules?: readonly {
      readonly paths?: readonly string[];
      readonly methods?: readonly string[];
      readonly mode: "off" | "presence" | "tokens";
      /** With mode tokens: all of them. */
      readonly scopes?: readonly string[];
    }[];
    readonly realm?: string;
    readonly tokensFile?: string | null;
  };
  readonly clientAddress?: {
    readonly trustedProxies?: readonly string[];
    readonly header?: "x-forwarded-for" | "forwarded";
    readonly ipv6Prefix?: number;
    readonly dropHeaders?: readonly string[];
  };
  readonly cors?: { readonly origins?: readonly string[]; readonly preflights?: "forward" | "answer" };
  readonly errors?: { readonly format?: "v2" | "problem" | "plain" };
  readonly requestId?: { readonly keep?: "any" | "trusted" };
  readonly fields?: readonly ("standard" | "legacy" | "structured")[];
  readonly resetFormat?: "epoch" | "delta";
  /** Path prefixes that are gated; the default is `["/"]`. What is outside of them is left to the app. */
  readonly routes?: readonly string[];
  readonly maxBodyBytes?: string | number;
  readonly maxTargetBytes?: string | number;
  /**
   * `body`, `bodyRate`: the rate of bodies that go to the upstream. `linger`: how long a request that has been answered may be
   * sent.
   */
  readonly timeouts?: { readonly body?: string; readonly bodyRate?: string | number; readonly linger?: string };
  /** Where requests go that no route of the app takes. */
  readonly upstream?: {
    readonly url: string;
    readonly hostHeader?: string;
    readonly tls?: {
      readonly ca?: string | null;
      readonly serverName?: string | null;
      readonly cert?: string | null;
      readonly key?: string | null;
      readonly insecureSkipVerify?: boolean;
    };
    readonly connectTimeout?: string;
    readonly responseTimeout?: string;
    readonly bodyTimeout?: string;
    /** At most a second, whatever it says: see docs/fastify.md. */
    readonly keepAlive?: string | 0;
    readonly maxConnections?: number;
    readonly maxHeaderBytes?: string | number;
  } | null;
  readonly log?: { readonly access?: boolean; readonly subject?: "plain" | "hashed" | "off" };
}

/** One of `limit` with `window`, `limit` with `per`, and `concurrency`. */
export interface PolicyOptions {
  readonly name: string;
  readonly limit?: number | null;
  readonly window?: string | null;
  readonly per?: "minute" | "hour" | "day" | "month" | null;
  /** For `per`; UTC without it. */
  readonly timezone?: string | null;
  readonly concurrency?: number | null;
  readonly match?: { readonly paths?: readonly string[]; readonly methods?: readonly string[] };
  /** Only requests whose token was verified, or all the rest; both without it. */
  readonly who?: "verified" | "others" | null;
  /** client, token, subject, method, route or header:NAME. */
  readonly key?: readonly string[];
  readonly cost?: number;
  readonly charge?: { readonly statuses: readonly number[] };
  readonly mode?: "enforce" | "shadow";
  readonly exempt?: readonly string[];
  readonly overrides?: readonly OverrideOptions[];
}

/** `limit`, and one of the others. */
export interface OverrideOptions {
  readonly client?: string | null;
  /** Its name, or its SHA-256 digest in hex. */
  readonly token?: string | null;
  readonly subject?: string | null;
  readonly header?: string | null;
  readonly limit: number;
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
