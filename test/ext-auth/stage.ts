// A gateway that answers checks, and a caller that writes them byte by byte.
import type { Authenticator } from "../../src/core/authentication.ts";
import type { Clock } from "../../src/core/clock.ts";
import type { Settings } from "../../src/core/settings.ts";
import type { Cleanup } from "../support/cleanup.ts";
import { type Overrides, startTestGateway, type TestGateway } from "../support/gateway.ts";
import { type FramedResponse, RawConnection } from "../support/raw-connection.ts";
import { startUpstream } from "../support/upstream.ts";

export interface DecisionStage {
  readonly gateway: TestGateway;
  /** One call over a connection of its own. `fields` are whole lines. */
  ask(target: string, fields: string, method?: string): Promise<FramedResponse>;
  connect(): RawConnection;
}

export async function stageDecision(
  cleanup: Cleanup,
  extAuth: Partial<Settings["extAuth"]> = {},
  overrides: Overrides = {},
  options: { readonly clock?: Clock; readonly authenticator?: Authenticator } = {},
): Promise<DecisionStage> {
  const upstream = cleanup(await startUpstream());
  const gateway = await startTestGateway({
    upstreamUrl: upstream.url,
    overrides: {
      extAuth: { http: { host: "127.0.0.1", port: 0, maxConnections: 100 }, trustedCallers: ["127.0.0.1"], ...extAuth },
      drain: { timeoutMs: 0 },
      ...overrides,
    },
    ...options,
  });
  cleanup(() => gateway.close());
  const connect = (): RawConnection => {
    return cleanup(new RawConnection(gateway.extAuth?.port ?? 0));
  };
  return {
    gateway,
    connect,
    ask: async (target, fields, method = "GET") => {
      const connection = connect().write(`${method} ${target} HTTP/1.1\r\nHost: headgate\r\n${fields}\r\n`);
      const answer = await connection.read({ method });
      connection.destroy();
      return answer;
    },
  };
}

export const token = "Authorization: Bearer t\r\n";
