// A gateway with its gRPC port open and a clock that stands still, and a client that is trusted there.

import type { Client } from "@grpc/grpc-js";
import { expect } from "vitest";
import { httpDate } from "../../../src/core/clock.ts";
import type { Settings } from "../../../src/core/settings.ts";
import type { Cleanup } from "../../support/cleanup.ts";
import { FakeClock } from "../../support/clock.ts";
import { type Overrides, startTestGateway, type TestGateway, testSettings } from "../../support/gateway.ts";
import { startUpstream } from "../../support/upstream.ts";
import { openClient } from "./client.ts";

export interface GrpcStage {
  readonly gateway: TestGateway;
  /** Those that the gateway was started with. */
  readonly settings: Settings;
  readonly client: Client;
  readonly port: number;
  readonly clock: FakeClock;
  /** The fields of an answer now, to a client that has `remaining` left and whose window began now or has not begun. */
  fields(remaining: number): Record<string, string>;
}

export async function stageGrpc(cleanup: Cleanup, overrides: Overrides = {}): Promise<GrpcStage> {
  const upstream = cleanup(await startUpstream());
  const clock = new FakeClock();
  const { extAuth, ...rest } = overrides;
  const all: Overrides = {
    extAuth: { grpc: { host: "127.0.0.1", port: 0, maxConnections: 10 }, trustedCallers: ["127.0.0.1"], ...extAuth },
    drain: { delayMs: 0, timeoutMs: 100 },
    ...rest,
  };
  const gateway = cleanup(await startTestGateway({ upstreamUrl: upstream.url, clock, overrides: all }));
  const port = gateway.grpc?.port ?? 0;
  return {
    gateway,
    settings: testSettings(upstream.url, all),
    client: openClient(cleanup, port),
    port,
    clock,
    fields(remaining) {
      const reset = Math.ceil((clock.wallMs() + 60_000) / 1000);
      const values = { limit: "100", remaining: `${remaining}`, reset: `${reset}` };
      const named = ["ratelimit", "x-ratelimit"].flatMap((prefix) =>
        Object.entries(values).map(([name, value]) => [`${prefix}-${name}`, value]),
      );
      const id = expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
      return { date: httpDate(clock.wallMs()), "x-request-id": id, ...Object.fromEntries(named) };
    },
  };
}
