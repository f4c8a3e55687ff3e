// Clients of HTTP/2 that others wrote, through TLS and the whole gateway: each gets every response whole, in both directions
// beyond the windows, is counted exactly, and leaves nothing behind. HAProxy is one, as a proxy in front.
import { test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { useTls } from "../../support/tls-listener.ts";
import { isInstalled } from "../fuzz/backends/backend.ts";
import { haproxyProgram, startProgram } from "../programs.ts";
import { http2Clients, token, visitBy } from "./clients.ts";
import { expectVisited, stageVisit } from "./stage.ts";

const cleanup = useCleanup();
const withTls = useTls();
const mayBeSkipped = process.env["HEADGATE_REQUIRE"] !== "all";

for (const { name, debianPackage, isInstalled, visit } of http2Clients) {
  const needs = debianPackage === "" ? "" : ` (needs ${debianPackage})`;
  test.skipIf(mayBeSkipped && !isInstalled())(`${name}: 30 requests, 25 of them admitted${needs}`, async () => {
    const { gateway, upstream, ca, bodyFile } = await stageVisit(cleanup, withTls);
    const made = await visit({ port: gateway.traffic.port, ca, bodyFile, cleanup });
    await expectVisited(made, gateway, upstream);
  });
}

test.skipIf(mayBeSkipped && !isInstalled("haproxy"))(
  "HAProxy in front, over HTTP/2: 30 requests, 25 of them admitted (needs haproxy)",
  async () => {
    const { gateway, upstream } = await stageVisit(cleanup, withTls);
    const server = `127.0.0.1:${gateway.traffic.port} ssl verify none alpn h2`;
    const haproxy = await startProgram(cleanup, haproxyProgram(server, { backend: "  http-reuse always" }));
    const visit = await visitBy(async (path, body) => {
      const upload = body === undefined ? {} : { method: "POST", body: new Uint8Array(body) };
      const response = await fetch(`http://127.0.0.1:${haproxy.port}${path}`, {
        ...upload,
        headers: { authorization: token },
      });
      return { status: response.status, body: await response.text() };
    });
    await expectVisited(visit, gateway, upstream);
  },
);
