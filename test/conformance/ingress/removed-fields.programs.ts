// What a backend behind nginx, HAProxy and Caddy sees of the fields that only a trusted proxy may send, each sent by a client.
import { describe, expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { freePort } from "../../support/free-port.ts";
import { startTestGateway } from "../../support/gateway.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { request } from "../../support/stage.ts";
import { startRecordingUpstream } from "../recording-upstream.ts";
import { ingresses } from "./ingresses.ts";
import { droppedNames } from "./removed-fields.ts";

const cleanup = useCleanup();
const { HEADGATE_REQUIRE } = process.env;
const lie = "6.6.6.6";
/** Other spellings, which CGI, WSGI, Rack or PHP read as the same names; and of fields that the gateway reads or frames by. */
const odd = [
  ...droppedNames.filter((_, i) => i % 6 === 1).map((name) => name.replaceAll("-", "_")),
  ..."x_forwarded_for X.Forwarded.For x_real-ip client_ip content_length x_request_id".split(" "),
];

describe.each(ingresses)("$name", ({ name, debianPackage, isInstalled, start }) => {
  test.skipIf(!isInstalled && HEADGATE_REQUIRE !== "all")(
    `no backend sees a field of the table, whether the gateway answers or not (needs ${name}: apt-get install ${debianPackage})`,
    async () => {
      const backend = cleanup(await startRecordingUpstream());
      // When the gateway has stopped, no other test is given its port.
      const http = { host: "127.0.0.1", port: await freePort(), maxConnections: 100 };
      const overrides = {
        extAuth: { http, trustedCallers: ["127.0.0.1"] },
        policies: [slidingPolicy({ limit: 1_000, windowMs: 60_000 })],
        drain: { timeoutMs: 0 },
      };
      const gateway = cleanup(await startTestGateway({ upstreamUrl: backend.url, overrides }));
      const around = { extAuthPort: gateway.extAuth?.port ?? 0, backendPort: Number(new URL(backend.url).port) };
      const { port } = await start(cleanup, { ...around, whenDown: "open" });
      /** What the backend gets of one request with these fields; null if it gets none. */
      const seen = async (names: readonly string[]): Promise<readonly string[] | null> => {
        const connection = cleanup(new RawConnection(port));
        await connection.ask(request("/v2/x", { fields: names.map((each) => `${each}: ${lie}\r\n`).join("") }));
        connection.destroy();
        return backend.take()[0]?.lines.slice(1) ?? null;
      };
      const batches = [0, 1, 2].map((part) => droppedNames.filter((_, i) => i % 3 === part));
      for (const state of ["answers", "stopped"]) {
        for (const batch of [...batches, ["X-Forwarded-For"], ["X-Forwarded-Host"], ["X-Forwarded-Proto"]]) {
          const lines = await seen(batch);
          expect(lines, `${state}: ${batch.join()}`).not.toBeNull();
          expect(lines?.filter((line) => line.includes(lie))).toEqual([]);
          expect(lines?.filter((line) => /^x-forwarded-for:/i.test(line)).map((line) => line.toLowerCase())).toEqual([
            "x-forwarded-for: 127.0.0.1",
          ]);
        }
        for (const each of odd)
          expect([state, each, (await seen([each]))?.join("\n") ?? ""]).toEqual([
            state,
            each,
            expect.not.stringContaining(lie),
          ]);
        // And what is none of these passes.
        expect((await seen(["X-Own"]))?.map((line) => line.toLowerCase())).toContain(`x-own: ${lie}`);
        if (state === "answers") await gateway.close();
      }
    },
  );
});
