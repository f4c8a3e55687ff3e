// The gateways under search, one for each configuration that an input needs, and the upstreams behind them.
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Server } from "node:net";
import { Authority } from "../../../test/support/certificates.ts";
import { type Carrier, exhaustedAddress, openSocket, writePieces } from "./conversation.ts";
import { GatewayProcess } from "./gateway-process.ts";
import { ordinaryGet } from "./http1-class.ts";

export type Profile = "plain" | "tls" | "proxied" | "answered" | "answered over tls";

export interface Running {
  readonly gateway: GatewayProcess;
  /** Sets what the upstream answers, for inputs that are `answered`. */
  answerWith(bytes: Buffer, pieceBytes: number): void;
}

interface Script {
  bytes: Buffer;
  pieceBytes: number;
}

export class Stage {
  readonly #main: string;
  readonly #watchesTurns: boolean;
  readonly #running = new Map<Profile, Promise<Running>>();
  readonly #cleanups: (() => unknown)[] = [];

  constructor(main: string, options: { readonly watchesTurns?: boolean } = {}) {
    this.#main = main;
    this.#watchesTurns = options.watchesTurns ?? false;
  }

  /** Starts it when it is first asked for, and again after it has ended. */
  async running(profile: Profile): Promise<Running> {
    const known = await this.#running.get(profile);
    if (known !== undefined && !known.gateway.hasEnded) return known;
    const starting = this.#start(profile);
    this.#running.set(profile, starting);
    return starting;
  }

  async close(): Promise<void> {
    for (const each of this.#running.values()) await (await each).gateway.stop();
    for (const close of this.#cleanups.reverse()) await close();
  }

  async #start(profile: Profile): Promise<Running> {
    const script: Script = { bytes: Buffer.alloc(0), pieceBytes: 0 };
    const upstream = profile.startsWith("answered") ? scripted(script) : ordinaryUpstream();
    await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
    this.#cleanups.push(() => upstream.close());
    const config = this.#config(profile, (upstream.address() as AddressInfo).port);
    const gateway = await GatewayProcess.start({ main: this.#main, config, watchesTurns: this.#watchesTurns });
    if (profile === "plain" || profile === "tls") await exhaust(gateway, profile === "tls");
    return {
      gateway,
      answerWith(bytes, pieceBytes) {
        script.bytes = bytes;
        script.pieceBytes = pieceBytes;
      },
    };
  }

  #config(profile: Profile, upstreamPort: number): string {
    const listen: Record<string, unknown> = { host: "127.0.0.1", port: 0 };
    const trustedProxies: string[] = [];
    if (profile.endsWith("tls")) {
      const { certFile, keyFile } = new Authority((close) => this.#cleanups.push(close)).issue();
      listen["tls"] = { cert: certFile, key: keyFile, http2: true };
    }
    if (profile === "proxied") {
      listen["proxyProtocol"] = true;
      for (let i = 0; i < 1023; i += 1) trustedProxies.push(`10.${i >> 8}.${i & 255}.0/24`);
      trustedProxies.push("127.0.0.0/8");
    }
    // JSON is YAML. The window outlasts the search, so that an address without quota stays one.
    return JSON.stringify({
      listen,
      admin: { host: "127.0.0.1", port: 0 },
      upstream: { url: `http://127.0.0.1:${upstreamPort}` },
      routes: Array.from({ length: 64 }, (_, i) => `/v${i}/`),
      clientAddress: { trustedProxies },
      policies: [{ name: "per-ip", limit: 100, window: "24h" }],
      extAuth: {
        http: { enabled: profile === "plain", port: 0 },
        grpc: { enabled: profile === "plain", port: 0 },
        trustedCallers: ["127.0.0.0/8"],
      },
    });
  }
}

/** Reads each request to its end, and answers it. */
function ordinaryUpstream(): Server {
  return createHttpServer({ keepAliveTimeout: 60_000 }, (req, res) => {
    req.resume();
    req.once("end", () => res.end("ok"));
  });
}

/** Answers the first bytes of each request with the script, whatever they are. */
function scripted(script: Script): Server {
  return createServer({ noDelay: true }, (socket) => {
    socket.on("error", () => {});
    socket.on("data", () => void writePieces(socket, script));
  });
}

/** Spends the quota of one address. */
async function exhaust(gateway: GatewayProcess, isSecure: boolean): Promise<void> {
  const socket = await openSocket(gateway, { ...exhausted, alpn: isSecure ? "http/1.1" : null });
  let received = "";
  await new Promise<void>((resolve) => {
    socket.on("data", (bytes) => {
      received += bytes.toString("latin1");
      if (received.includes(" 429 ")) resolve();
      else if (received.endsWith("ok")) socket.write(ordinaryGet);
    });
    socket.on("close", () => resolve());
    socket.write(ordinaryGet);
  });
  socket.destroy();
}

const exhausted: Carrier = { listener: "traffic", alpn: null, address: exhaustedAddress };
