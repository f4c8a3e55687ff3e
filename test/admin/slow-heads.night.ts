// A head that does not end is refused in time, although another server than Node's for HTTP listens.
import { connect } from "node:net";
import { expect, test } from "vitest";
import { startAdmin } from "../../src/admin/server.ts";
import { systemClock } from "../../src/core/clock.ts";
import { useCleanup } from "../support/cleanup.ts";

const cleanup = useCleanup();

test("a head may take 5 s on the admin listener", async () => {
  const admin = await startAdmin({
    host: "127.0.0.1",
    port: 0,
    clock: systemClock,
    metrics: async () => ({ contentType: "text/plain", body: "x 1\n" }),
    isAlive: () => true,
    ...{ api: null, certificate: null, socket: null },
    health: () => ({
      status: "ready",
      upstream: { state: "up", reason: null },
      store: null,
      rules: null,
      tokens: null,
    }),
    onError: (error) => expect.unreachable(error.message),
    onFailure: (error) => expect.unreachable(String(error)),
    peerKey: (address) => address ?? "",
    onClosedForRoom: () => {},
  });
  cleanup(() => admin.close());
  const socket = connect(admin.port, admin.host);
  socket.write("GET /livez HTTP/1.1\r\nHost: ");
  let text = "";
  for await (const chunk of socket) text += chunk;
  expect(text).toMatch(/^HTTP\/1\.1 408 /);
}, 12_000);
