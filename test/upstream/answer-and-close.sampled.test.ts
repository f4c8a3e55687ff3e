// An upstream that answers an upload and closes: every order of its head, its body, its end and its reset, before and behind
// more of the upload. What it has answered whole is passed on, though the write of the upload fails; what is not whole never
// looks whole.
import { beforeAll, describe, expect, test } from "vitest";
import { startTestApp } from "../fastify/app.ts";
import { Authority } from "../support/certificates.ts";
import { useCleanup, useSharedCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { upstreamConnections } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { inFullOr } from "../support/runs.ts";
import { request } from "../support/stage.ts";
import { mark, type PeerThread, type Step, startPeerThread } from "./peer-thread.ts";

const cleanup = useCleanup();

type Event = "head" | "body" | "fin" | "cut" | "rst";
type Framing = "a length" | "chunks" | "no length";

const text = "refused";
const answers: Readonly<Record<Framing, readonly [fields: string, body: string]>> = {
  "a length": [`Content-Length: ${text.length}\r\n`, text],
  chunks: ["Transfer-Encoding: chunked\r\n", `${text.length}\r\n${text}\r\n0\r\n\r\n`],
  "no length": ["", text],
};

/** `cut` is an end without one of TLS. */
const plainOrders: readonly (readonly Event[])[] = [
  ["head", "body", "rst"],
  ["head", "body", "fin"],
  ["head", "body", "fin", "rst"],
  ["head", "body"],
  ["head", "rst"],
  ["head", "fin"],
  ["head", "fin", "rst"],
  ["rst"],
  ["fin"],
  ["fin", "rst"],
];
const tlsOrders: readonly (readonly Event[])[] = [
  ...plainOrders,
  ["head", "body", "cut"],
  ["head", "body", "cut", "rst"],
  ["head", "cut"],
  ["cut"],
  ["cut", "rst"],
];

/** `whole`: with this body. `broken`: a head, and no end. */
type Outcome = { readonly status: 401; readonly body: string } | { readonly status: 502 } | "broken";

/** What RFC 9112, 6.3 and 9.5, make of it. */
function expectedOf(order: readonly Event[], framing: Framing): Outcome {
  if (!order.includes("head")) return { status: 502 };
  const body = order.includes("body") ? text : "";
  const isWhole = framing === "no length" ? order.includes("fin") : body !== "";
  return isWhole ? { status: 401, body } : "broken";
}

const uploads = ["an upload that is done", "more of an upload behind it", "more of an upload before it"] as const;
type Upload = (typeof uploads)[number];

const stepsOf = (order: readonly Event[], framing: Framing): Step[] => {
  const [fields, body] = answers[framing];
  return order.map((event): Step => {
    if (event === "head") return `write HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n${fields}\r\n`;
    return event === "body" ? `write ${body}` : event;
  });
};

const carriers = ["gateway", "plugin"].flatMap((by) => ["plain", "TLS"].map((transport) => [by, transport] as const));

describe.each(carriers)("the %s, %s", (by, transport) => {
  const shared = useSharedCleanup();
  let peer: PeerThread;
  let port: number;
  let active = async (): Promise<number> => 0;

  beforeAll(async () => {
    const authority = transport === "TLS" ? new Authority(shared) : null;
    peer = await startPeerThread(shared, authority?.issue() ?? null);
    const tls =
      authority === null
        ? {}
        : { tls: { ca: authority.certFile, serverName: null, cert: null, key: null, insecureSkipVerify: false } };
    const url = authority === null ? `http://127.0.0.1:${peer.port}` : `https://localhost:${peer.port}`;
    if (by === "plugin") {
      const { ca } = tls.tls ?? {};
      const upstream = ca === undefined ? { url } : { url, tls: { ca } };
      const policies = [{ name: "p", limit: 10_000, window: "60s" }];
      ({ port } = await startTestApp(shared, { options: { routes: ["/v2/"], policies, upstream } }));
      return;
    }
    const gateway = await startTestGateway({
      upstreamUrl: url,
      overrides: {
        policies: [slidingPolicy({ limit: 10_000, windowMs: 60_000 })],
        upstream: tls,
        drain: { timeoutMs: 0 },
      },
    });
    shared(() => gateway.close());
    port = gateway.traffic.port;
    active = async () => (await upstreamConnections(gateway)).active;
  });

  async function answerTo(order: readonly Event[], framing: Framing, upload: Upload): Promise<Outcome> {
    const client = cleanup(new RawConnection(port));
    // As much as is sent on at once.
    const more = "x".repeat(8_000);
    const length = upload === "an upload that is done" ? mark.length : mark.length + 2 * more.length;
    const asked = peer.asked();
    client.write(request("/v2/x", { method: "POST", fields: `Content-Length: ${length}\r\n`, body: mark }));
    await asked;
    if (upload === "more of an upload before it") client.write(more);
    peer.act(stepsOf(order, framing));
    if (upload === "more of an upload behind it") client.write(more);
    const outcome = await client.read().then(
      ({ status, body }): Outcome => (status === 401 ? { status, body } : { status: status as 502 }),
      (): Outcome => "broken",
    );
    // It is the last one on its connection unless the whole request was read and the gateway answered.
    if (outcome !== "broken") client.socket.end();
    expect(await within("the connection ends", client.closed)).toMatch(/^(end|ECONNRESET)$/);
    await eventually("its slot is free", async () => (await active()) === 0);
    return outcome;
  }

  const orders = transport === "TLS" ? tlsOrders : plainOrders;
  const framings = Object.keys(answers) as Framing[];
  const cases = orders.flatMap((order) => framings.map((framing) => [order.join(" "), framing, order] as const));
  describe.each(uploads)("with %s", (upload) => {
    // `npm test` tries each with one of the uploads, another one for each carrier.
    const nth =
      uploads.indexOf(upload) + carriers.findIndex((carrier) => carrier[0] === by && carrier[1] === transport);
    const few = cases.filter((_, i) => (i + Math.floor(i / framings.length) + nth) % uploads.length === 0);
    test.each(inFullOr(cases, few))("%s, with %s", async (_, framing, order) => {
      // Nothing says that it is whole, so it goes on.
      if (framing === "no length" && order.join() === "head,body") return;
      expect(await answerTo(order, framing, upload)).toEqual(expectedOf(order, framing));
    });
  });
});
