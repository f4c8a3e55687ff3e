// Gateways and apps with the plugin between the clients and the upstream of peers.py: every carrier, with and without TLS on
// either side, with one thread and with two.
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { type FastifyServerOptions, fastify } from "fastify";
import { headgate, serverOptions } from "../../../src/fastify/index.ts";
import { Authority, type Issued } from "../../support/certificates.ts";
import type { Cleanup } from "../../support/cleanup.ts";
import { freePort } from "../../support/free-port.ts";
import { startGatewayProcess } from "../../support/gateway-process.ts";
import { startProcessGroup } from "../../support/process-group.ts";

const python = "/usr/bin/python3";
/** For `test.skipIf`, and for the name of the test. */
export const skipPeers = spawnSync(python, ["--version"]).status !== 0 && process.env["HEADGATE_REQUIRE"] !== "all";
export const peersNeeded = "(needs python3)";
const script = fileURLToPath(new URL("peers.py", import.meta.url));
const maxBodyBytes = "64MiB";

/** What carries the bytes between client and upstream. The plugin has one thread, and no tunnels. */
export interface Place {
  readonly kind: "gateway" | "plugin";
  readonly tls: boolean;
  readonly upstream: "plain" | "tls";
  readonly threads: number;
}

const gateways: readonly Place[] = [1, 2].flatMap((threads) =>
  [true, false].flatMap((tls) =>
    (["plain", "tls"] as const).map((upstream) => ({ kind: "gateway" as const, tls, upstream, threads })),
  ),
);

export const allPlaces: readonly Place[] = [
  ...gateways,
  { kind: "plugin", tls: false, upstream: "plain", threads: 1 },
  { kind: "plugin", tls: true, upstream: "tls", threads: 1 },
];

/** Each carrier and each kind of upstream, with as few starts as can be. */
export const fewPlaces: readonly Place[] = [
  { kind: "gateway", tls: true, upstream: "plain", threads: 1 },
  { kind: "gateway", tls: false, upstream: "tls", threads: 2 },
  { kind: "plugin", tls: false, upstream: "plain", threads: 1 },
];

/** As in `gateway tls 2 to plain`: whether its clients use TLS, its threads, and its upstream. */
export const nameOf = ({ kind, tls, upstream, threads }: Place): string =>
  `${kind}${tls ? " tls" : ""} ${threads} to ${upstream}`;

export interface BytesOptions {
  readonly places: readonly Place[];
  readonly seed: number;
  /** So many in all, or as many as can be done in so many seconds. */
  readonly amount: { readonly bodies: number } | { readonly seconds: number };
  /** One in so many has more than 12 MiB, over HTTP/2 three; the others have up to 4 MiB. */
  readonly largeOneIn: number;
  /** So many uploads of 24 MiB over HTTP/2 come first. */
  readonly uploads: number;
  /** Clients at the same time. */
  readonly clients: number;
}

export interface BytesResult {
  readonly bodies: number;
  /** Over 12 MiB. */
  readonly large: number;
  /** Broken off or reset by one end: what arrived was the beginning. */
  readonly aborted: number;
  /** Of an app with Node's HTTP/2: complete, but reset by Node before their last, empty frame. */
  readonly endsLost: number;
  readonly wrong: number;
  readonly bytes: number;
  /** Without the start of the gateways. */
  readonly seconds: number;
  /** By place and carrier. */
  readonly by: Readonly<Record<string, number>>;
  /** Of each that was wrong, where and why. */
  readonly faults: readonly string[];
}

interface Entry {
  readonly name: string;
  readonly port: number;
  readonly tls: boolean;
  readonly carriers: readonly ("h1" | "h2" | "ws")[];
}

export async function passBodies(cleanup: Cleanup, options: BytesOptions): Promise<BytesResult> {
  const authority = new Authority(cleanup);
  const issued = authority.issue();
  const upstreams = { plain: await freePort(), tls: await freePort() };
  const open = async (place: Place): Promise<Entry> => {
    const url = place.upstream === "tls" ? `https://localhost:${upstreams.tls}` : `http://127.0.0.1:${upstreams.plain}`;
    const isPlugin = place.kind === "plugin";
    const port = await (isPlugin ? openPlugin : openGateway)(cleanup, url, place, issued, authority.certFile);
    const carriers = place.tls ? (["h2", "h1"] as const) : (["h1"] as const);
    return { name: nameOf(place), port, tls: place.tls, carriers: isPlugin ? carriers : [...carriers, "ws"] };
  };
  const entries: Entry[] = [];
  for (const place of options.places) entries.push(await open(place));
  const { seed, amount, largeOneIn, uploads, clients } = options;
  const files = { cert: issued.certFile, key: issued.keyFile, ca: authority.certFile };
  return await runPeers(cleanup, {
    seed,
    ...amount,
    largeOneIn,
    uploads,
    clients,
    upstreams,
    ...files,
    gateways: entries,
  });
}

async function openGateway(cleanup: Cleanup, url: string, place: Place, issued: Issued, ca: string): Promise<number> {
  const settings = [
    `maxBodyBytes=${maxBodyBytes}`,
    `workers=${place.threads}`,
    "log.access=false",
    ...(place.tls ? [`listen.tls.cert=${issued.certFile}`, `listen.tls.key=${issued.keyFile}`] : []),
    ...(place.upstream === "tls" ? [`upstream.tls.ca=${ca}`] : []),
  ];
  return (await startGatewayProcess(cleanup, url, settings)).port;
}

async function openPlugin(cleanup: Cleanup, url: string, place: Place, issued: Issued, ca: string): Promise<number> {
  // The types of an app with HTTP/2 are others; the plugin is the same.
  const tls = { http2: true, https: { key: issued.key, cert: issued.cert, allowHTTP1: true } } as FastifyServerOptions;
  const app = cleanup(fastify({ ...serverOptions(), ...(place.tls ? tls : {}), forceCloseConnections: true }));
  await app.register(headgate, {
    routes: ["/v2/"],
    maxBodyBytes,
    policies: [{ name: "none", limit: 1_000_000, window: "60s" }],
    // An answer that has begun may have to wait for its request, which takes long on a busy machine.
    upstream: { url, responseTimeout: "5m", bodyTimeout: "5m", ...(place.upstream === "tls" ? { tls: { ca } } : {}) },
    log: { access: false },
  });
  await app.listen({ port: 0, host: "127.0.0.1" });
  return (app.server.address() as AddressInfo).port;
}

async function runPeers(cleanup: Cleanup, options: object): Promise<BytesResult> {
  const { child, end } = startProcessGroup(python, [script, JSON.stringify(options)], { stderr: "inherit" });
  cleanup(end);
  let output = "";
  child.stdout.on("data", (data: Buffer) => {
    output += data.toString();
  });
  await once(child, "close");
  const lines = output.trim().split("\n");
  const figures = JSON.parse(lines.pop() ?? "") as Omit<BytesResult, "faults">;
  return { ...figures, faults: lines };
}
