// A gateway between a test's clients and its upstream, all of it closed after the test.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../../src/core/clock.ts";
import type { Cleanup } from "./cleanup.ts";
import { type Overrides, startTestGateway, type TestGateway } from "./gateway.ts";
import { RawConnection } from "./raw-connection.ts";
import { type RawUpstream, startRawUpstream, startUpstream, type TestUpstream } from "./upstream.ts";

export interface Stage<Upstream> {
  readonly upstream: Upstream;
  readonly gateway: TestGateway;
  connect(options?: ConstructorParameters<typeof RawConnection>[1]): RawConnection;
}

/** In front of an upstream that speaks byte for byte. */
export async function stageRaw(
  cleanup: Cleanup,
  onData: (socket: Socket, data: Buffer) => void,
  overrides: Overrides = {},
  clock?: Clock,
): Promise<Stage<RawUpstream>> {
  return stage(cleanup, await startRawUpstream(onData), overrides, clock);
}

/** In front of a node:http server that answers when the body is there. */
export async function stageHttp(
  cleanup: Cleanup,
  respond?: (req: IncomingMessage, res: ServerResponse, body: Buffer) => void,
  overrides: Overrides = {},
  clock?: Clock,
): Promise<Stage<TestUpstream>> {
  return stage(cleanup, await startUpstream(respond), overrides, clock);
}

async function stage<Upstream extends { readonly url: string; close(): Promise<void> }>(
  cleanup: Cleanup,
  upstream: Upstream,
  overrides: Overrides,
  clock?: Clock,
): Promise<Stage<Upstream>> {
  cleanup(() => upstream.close());
  const gateway = await startTestGateway({
    upstreamUrl: upstream.url,
    overrides: { drain: { timeoutMs: 0 }, ...overrides },
    ...(clock === undefined ? {} : { clock }),
  });
  cleanup(() => gateway.close());
  return {
    upstream,
    gateway,
    connect(options) {
      return cleanup(new RawConnection(gateway.traffic.port, options));
    },
  };
}

/** A request with a token. `fields` are whole lines. */
export function request(target: string, options: { method?: string; fields?: string; body?: string } = {}): string {
  const { method = "GET", fields = "", body = "" } = options;
  return `${method} ${target} HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer secret-token\r\n${fields}\r\n${body}`;
}

/** A response of these bytes, with its length. */
export function response(body: string, fields = "", statusLine = "200 OK"): string {
  return `HTTP/1.1 ${statusLine}\r\nContent-Length: ${body.length}\r\n${fields}\r\n${body}`;
}
