// A start that fails says why, whatever happens when what was opened is closed.
import { createServer } from "node:net";
import { expect, test } from "vitest";
import { createAuthenticator } from "../../src/auth/authenticator.ts";
import { systemClock } from "../../src/core/clock.ts";
import { useCleanup } from "../support/cleanup.ts";
import { startTestGateway, testSettings } from "../support/gateway.ts";
import { deadUrl } from "../support/unavailable.ts";

const cleanup = useCleanup();

test("a start rejects with the reason why it failed, also if something cannot be closed", async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => void taken.listen({ host: "127.0.0.1", port: 0 }, resolve));
  cleanup(() => new Promise((resolve) => void taken.close(resolve)));
  const address = taken.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  const authenticator = {
    ...createAuthenticator(null, systemClock),
    close() {
      throw new Error("cannot be closed");
    },
  };
  const { listen } = testSettings(deadUrl);
  const started = startTestGateway({
    upstreamUrl: deadUrl,
    overrides: { listen: { ...listen, port: address.port } },
    authenticator,
  });
  await expect(started).rejects.toMatchObject({ listener: "traffic", cause: { code: "EADDRINUSE" } });
});
