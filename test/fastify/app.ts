// A Fastify app with the plugin on a free loopback port, closed after the test.
import type { AddressInfo } from "node:net";
import { type FastifyInstance, type FastifyServerOptions, fastify } from "fastify";
import type { Authenticator } from "../../src/core/authentication.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { type HeadgateOptions, serverOptions } from "../../src/fastify/index.ts";
import { createPlugin } from "../../src/fastify/plugin.ts";
import type { Cleanup } from "../support/cleanup.ts";
import { RawConnection } from "../support/raw-connection.ts";

export interface TestApp {
  readonly app: FastifyInstance;
  readonly port: number;
  /** Lines of the access log, and whatever else headgate and the app wrote. */
  readonly lines: readonly Record<string, unknown>[];
  connect(options?: ConstructorParameters<typeof RawConnection>[1]): RawConnection;
}

export interface TestAppOptions {
  readonly options?: HeadgateOptions;
  /** Beside those that the plugin asks for. */
  readonly server?: FastifyServerOptions;
  readonly clock?: Clock;
  readonly authenticator?: Authenticator;
  /** Called before the plugin is registered. */
  readonly before?: (app: FastifyInstance) => void;
  /** Adds routes, behind the plugin. */
  readonly routes?: (app: FastifyInstance) => void;
}

export async function startTestApp(cleanup: Cleanup, test: TestAppOptions = {}): Promise<TestApp> {
  const lines: Record<string, unknown>[] = [];
  const logger = { level: "debug", stream: { write: (line: string) => void lines.push(JSON.parse(line)) } };
  const app = cleanup(fastify({ ...serverOptions(), logger, forceCloseConnections: true, ...test.server }));
  test.before?.(app);
  const { clock = systemClock, authenticator } = test;
  const environment = { clock, nodeVersion: process.versions.node };
  const plugin = createPlugin(authenticator === undefined ? environment : { ...environment, authenticator });
  await app.register(plugin, test.options ?? {});
  test.routes?.(app);
  await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  return {
    app,
    port,
    lines,
    connect(options) {
      return cleanup(new RawConnection(port, options));
    },
  };
}

/** The lines of the access log. */
export const accessLines = ({ lines }: Pick<TestApp, "lines">): Record<string, unknown>[] =>
  lines.filter(({ msg }) => msg === "request");
