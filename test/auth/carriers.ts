// The ways in which a request with or without a token can come, all with the same rules and policies of a file. Each request
// names its client.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { loadSettings } from "../../src/config/load.ts";
import type { Clock } from "../../src/core/clock.ts";
import type { Settings } from "../../src/core/settings.ts";
import type { HeadgateOptions } from "../../src/fastify/options.ts";
import { type Asked, openCarriers } from "../support/carriers.ts";
import type { Cleanup } from "../support/cleanup.ts";
import type { Overrides, TestGateway } from "../support/gateway.ts";
import { scratchFolder } from "../support/scratch.ts";
import type { TlsListener } from "../support/tls-listener.ts";

export interface TokenAsk extends Pick<Asked, "method" | "fields"> {
  readonly client: string;
  /** /v1/x. */
  readonly path?: string;
  /** Null: no Authorization. */
  readonly token: string | null;
}

export interface TokenAnswer {
  readonly status: number | "reset";
  /** In lower case. */
  readonly fields: ReadonlyMap<string, string>;
}

export interface TokenCarrier {
  readonly name: string;
  ask(asked: TokenAsk): Promise<TokenAnswer>;
}

export interface TokenStage {
  readonly carriers: readonly TokenCarrier[];
  readonly gateway: TestGateway;
  readonly settings: Settings;
}

export interface StageOptions {
  readonly tls: TlsListener;
  /** Keys that the gateway and the plugin have in common. */
  readonly yaml: string;
  /** The lines of the tokens file. */
  readonly tokens: readonly string[];
  readonly clock?: Clock;
  readonly workers?: number;
  readonly counters?: Partial<Settings["counters"]>;
  /** Default: without the plugin. */
  readonly withPlugin?: boolean;
  /** Of the gateway. The plugin always leaves such requests to the app. */
  readonly unmatched?: Settings["unmatched"];
  /** Default: `/v1/` and `/v2/`. */
  readonly routes?: readonly string[];
}

export async function stageTokens(cleanup: Cleanup, options: StageOptions): Promise<TokenStage> {
  const folder = scratchFolder(cleanup);
  writeFileSync(join(folder, "tokens.txt"), `${options.tokens.join("\n")}\n`);
  writeFileSync(join(folder, "c.yaml"), options.yaml);
  const loaded = loadSettings({ file: join(folder, "c.yaml"), env: {}, cwd: folder, overrides: [] });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.errors));
  const { auth, policies, fields, refusals, log, maxHeaderBytes, maxTargetBytes } = loaded.settings;
  const trusted = { trustedProxies: ["127.0.0.1"], header: "x-forwarded-for", ipv6Prefix: 64 } as const;
  const { tls, yaml, clock, routes = ["/v1/", "/v2/"], workers, unmatched, counters } = options;
  const overrides: Overrides = {
    ...{ auth, policies, fields, refusals, log, maxHeaderBytes, maxTargetBytes },
    ...{ clientAddress: trusted, routes },
    ...(workers === undefined ? {} : { workers }),
    ...(unmatched === undefined ? {} : { unmatched }),
    ...(counters === undefined ? {} : { counters }),
  };
  const withClock = clock === undefined ? {} : { clock };
  const plugin = options.withPlugin === true ? pluginOptions(yaml, routes, folder) : null;
  const opened = await openCarriers(cleanup, tls, { overrides, plugin, maxHeaderBytes, ...withClock });
  const names = [
    "HTTP/1.1",
    "HTTP/2",
    "auth-request",
    "gRPC",
    ...(plugin === null ? [] : ["plugin" as const]),
  ] as const;
  const carriers = names.map((name) => ({
    name,
    async ask({ path: target = "/v1/x", ...asked }: TokenAsk): Promise<TokenAnswer> {
      const { status, rawHeaders } = await opened.ask[name]({ target, ...asked }, cleanup);
      const pairs = rawHeaders.flatMap((field, i) =>
        i % 2 === 0 ? [[field.toLowerCase(), rawHeaders[i + 1] ?? ""] as const] : [],
      );
      return { status, fields: new Map(pairs) };
    },
  }));
  return { carriers, gateway: opened.gateway, settings: loaded.settings };
}

function pluginOptions(yaml: string, routes: readonly string[], folder: string): HeadgateOptions {
  // The bound of a head is one of the server.
  const { maxHeaderBytes: _, ...options }: HeadgateOptions & { maxHeaderBytes?: string } = parse(yaml);
  return {
    ...options,
    auth: { ...options.auth, ...(yaml.includes("tokensFile") ? { tokensFile: join(folder, "tokens.txt") } : {}) },
    routes: [...routes],
    clientAddress: { trustedProxies: ["127.0.0.1"] },
  };
}
