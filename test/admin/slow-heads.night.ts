// A head that does not end is refused in time, although another server than Node's for HTTP listens.
import { connect } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { openAdmin } from "./api-stage.ts";

const cleanup = useCleanup();

test("a head may take 5 s on the admin listener", async () => {
  const admin = await openAdmin(cleanup);
  const socket = connect(admin.port, admin.host);
  socket.write("GET /livez HTTP/1.1\r\nHost: ");
  let text = "";
  for await (const chunk of socket) text += chunk;
  expect(text).toMatch(/^HTTP\/1\.1 408 /);
}, 12_000);
