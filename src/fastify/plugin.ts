// Puts the gate in front of a Fastify app: one exchange for each request, before the app's own hooks and handlers, with the
// limits, the tokens, the fields, the metrics and the log of the gateway.
import { readFileSync } from "node:fs";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { FastifyInstance, FastifyPluginAsync, onRequestHookHandler } from "fastify";
import { wantsOpenMetrics } from "../admin/request-fields.ts";
import type { Authenticator } from "../core/authentication.ts";
import type { Clock } from "../core/clock.ts";
import { knownMethods } from "../core/method.ts";
import { createAppLog } from "./app-log.ts";
import { gates } from "./gate.ts";
import type { HeadgateOptions } from "./options.ts";
import { openPlugin } from "./parts.ts";
import { parsePluginOptions } from "./plugin-options.ts";

export interface PluginEnvironment {
  readonly clock: Clock;
  readonly nodeVersion: string;
  /** How tokens are checked, if not as the options say. */
  readonly authenticator?: Authenticator;
}

export function createPlugin(environment: PluginEnvironment): FastifyPluginAsync<HeadgateOptions> {
  async function headgate(app: FastifyInstance, options: HeadgateOptions): Promise<void> {
    if (gates.has(app.server)) throw new Error("headgate is registered with this app already: it gates the whole app");
    const settings = parsePluginOptions(options);
    const log = createAppLog(app.log, environment.clock);
    const clientConnections = countConnections(app.server);
    const parts = await openPlugin(settings, { ...environment, log, version, clientConnections });
    const { gate, metrics } = parts;
    gates.set(app.server, gate);
    const onRequest: onRequestHookHandler = (request, reply, done) => gate.begin(request, reply, done);
    app.addHook("onRequest", onRequest);
    app.addHook("onRoute", ({ config, url }) => {
      const value: unknown = config?.headgate;
      if (value !== undefined && typeof value !== "boolean") {
        throw new Error(`config.headgate of the route ${url}: expected true or false`);
      }
    });
    app.addHook("onReady", async () => hearWhatNodeAnswers(app));
    app.addHook("preClose", async () => {
      gate.announceEnd();
    });
    app.addHook("onClose", async () => parts.close());
    parts.mount(app);
    app.decorate("headgate", { metrics: (accept?: string) => metrics(wantsOpenMetrics(accept)) });
  }
  // What fastify-plugin would do: the hooks are those of the whole app.
  return Object.assign(headgate, {
    [Symbol.for("skip-override")]: true,
    [Symbol.for("fastify.display-name")]: "headgate",
    [Symbol.for("plugin-meta")]: { name: "headgate", fastify: "5.x" },
  });
}

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  readonly version: string;
};

function countConnections(server: Server): () => number {
  let open = 0;
  server.on("connection", (socket: Socket) => {
    open += 1;
    socket.once("close", () => {
      open -= 1;
    });
  });
  return () => open;
}

/**
 * Takes over what Node would answer by itself, without the fields: 100 and 417 to an Expect, before anybody has decided,
 * and a CONNECT by closing the connection. An app that has listeners of its own for these keeps them. Also takes over
 * unknown methods over HTTP/2, which Node passes on, and which Fastify's router would answer without a hook.
 */
function hearWhatNodeAnswers({ server, routing }: FastifyInstance): void {
  if (server.listenerCount("checkContinue") === 0) {
    server.on("checkContinue", (req: IncomingMessage, res: ServerResponse) => {
      gates.get(server)?.awaitContinue(req);
      routing(req, res);
    });
  }
  if (server.listenerCount("checkExpectation") === 0) {
    server.on("checkExpectation", (req: IncomingMessage, res: ServerResponse) => routing(req, res));
  }
  for (const event of ["request", "checkContinue", "checkExpectation"]) server.prependListener(event, makeRoutable);
  if (server.listenerCount("connect") === 0) {
    server.on("connect", (req: IncomingMessage, res: ServerResponse | Socket) => {
      if (res instanceof Socket) gates.get(server)?.refuseMethod(res);
      else routing(makeRoutable(req), res);
    });
  }
}

/** Gives the router a method and a path that it knows. The gate reads the raw headers, and refuses the request. */
function makeRoutable(req: IncomingMessage): IncomingMessage {
  if (knownMethods.has(req.method ?? "") && req.method !== "CONNECT") return req;
  req.url ??= "/";
  return Object.assign(req, { method: "TRACE" });
}
