// What is loaded after the start may be missing: that takes nobody down, and nothing leaves without its fields.
import { expect, test, vi } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { startTestGateway } from "../support/gateway.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { startUpstream } from "../support/upstream.ts";

vi.mock("../../src/transport/node/mount.ts", () => ({
  createMount: async () => {
    throw new Error("not whole");
  },
}));

const cleanup = useCleanup();

test("without the mount, simple requests are served and all others answered", async () => {
  const upstream = await startUpstream();
  cleanup(() => upstream.close());
  const gateway = await startTestGateway({ upstreamUrl: upstream.url });
  cleanup(() => gateway.close());
  const connection = new RawConnection(gateway.traffic.port);
  cleanup(() => connection.destroy());
  const fields = "Host: a\r\nAuthorization: Bearer t\r\n";
  const inChunks = `POST /v2/x HTTP/1.1\r\n${fields}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`;
  connection.write(`GET /v2/x HTTP/1.1\r\n${fields}\r\n`);
  expect((await connection.read()).status).toBe(200);
  // The first waits for what is being loaded, the second comes behind.
  for (const remaining of ["98", "97"]) {
    connection.write(inChunks);
    const answer = await connection.read();
    expect(answer.status).toBe(500);
    expect(valuesOf(answer.rawHeaders, "RateLimit-Remaining")).toEqual([remaining]);
    expect(answer.body).not.toContain("not whole");
  }
  expect(gateway.logLines.filter(({ msg }) => msg === "internal error")).toHaveLength(2);
});
