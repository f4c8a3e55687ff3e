// Commands against a gateway: the real one with an upstream, its socket and tokens, and one that a test makes up.
import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { join } from "node:path";
import { expect } from "vitest";
import { z } from "zod";
import { run } from "../../../src/commands/admin/run.ts";
import { parseArguments } from "../../../src/commands/arguments.ts";
import { readToken, writeToken } from "../../admin/api-stage.ts";
import { digestOf } from "../../auth/digest.ts";
import type { Cleanup } from "../../support/cleanup.ts";
import type { TestGateway } from "../../support/gateway.ts";
import { startFromFile } from "../../support/gateway-from-file.ts";
import { listen } from "../../support/loopback-server.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { startUpstream } from "../../support/upstream.ts";
import { testIo } from "../test-io.ts";

/** As test gateways have it. */
export const ownVersion = "0.0.0-test";

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  /** Of standard output; undefined if that is no JSON. */
  readonly json: unknown;
}

export interface RunOptions {
  readonly env?: Record<string, string>;
  readonly version?: string;
  readonly cwd?: string;
}

/** Runs a command in this process. Words with blanks are given as a list. */
export async function headgate(words: string | readonly string[], options: RunOptions = {}): Promise<Ran> {
  const { env = {}, version = ownVersion, cwd = "/" } = options;
  const argv = typeof words === "string" ? words.split(" ") : words;
  const parsed = parseArguments(argv);
  if (!parsed.ok) throw new Error(parsed.message);
  if (parsed.invocation.command !== "admin") throw new Error(`${argv[0]} asks no gateway`);
  const io = testIo({ env, cwd });
  const code = await run(parsed.invocation.args, io, version);
  return { code, out: io.outText(), err: io.errText(), json: parsedJson(io.outText()) };
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function expectFit(schema: object, json: unknown): void {
  const { error } = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]).safeParse(json);
  expect(error?.issues ?? null).toBeNull();
}

export interface CommandStage {
  readonly gateway: TestGateway;
  readonly folder: string;
  readonly socket: string;
  /** Files with a token each. */
  readonly readFile: string;
  readonly writeFile: string;
  /** Puts another configuration in place of the one before. */
  write(yaml: string): void;
  /** Over the socket. */
  headgate(words: string | readonly string[], options?: RunOptions): Promise<Ran>;
  /** Sends so many requests, and resolves with the ids of those that were refused. */
  refusedOf(count: number, token?: string): Promise<string[]>;
}

/** `yaml`: the configuration without its listeners. FOLDER stands for a folder of the test. */
export async function stageCommands(cleanup: Cleanup, yaml: string, admin = ""): Promise<CommandStage> {
  const upstream = cleanup(await startUpstream());
  const folder = scratchFolder(cleanup);
  const at = (name: string) => join(folder, name);
  const socket = at("admin.sock");
  const lines = [`${digestOf(readToken)} read # dashboard`, `${digestOf(writeToken)} write # ops`];
  writeFileSync(at("admin.txt"), `${lines.join("\n")}\n`);
  writeFileSync(at("tokens.txt"), `${digestOf("alices-token")} # alice\n${digestOf("bobs-token")} # bob\n`);
  writeFileSync(at("read.token"), `${readToken}\n`);
  writeFileSync(at("write.token"), `${writeToken}\n`);
  const file = at("headgate.yaml");
  const write = (text: string): void => {
    const section = `admin: { port: 0, socket: ${socket}, tokensFile: FOLDER/admin.txt${admin} }`;
    writeFileSync(file, `${section}\nreload: { watch: false }\n${text}`.replaceAll("FOLDER", folder));
  };
  write(yaml);
  const gateway = await startFromFile(cleanup, upstream.url, file);
  return {
    ...{ gateway, folder, socket, write, readFile: at("read.token"), writeFile: at("write.token") },
    headgate: (words, options) =>
      headgate([...(typeof words === "string" ? words.split(" ") : words), "--socket", socket], options),
    async refusedOf(count, token = "x") {
      const headers = { authorization: `Bearer ${token}`, connection: "close" };
      const refused: string[] = [];
      for (let i = 0; i < count; i += 1) {
        const response = await fetch(`${gateway.url}/v2/x`, { headers });
        await response.text();
        if (response.status >= 400) refused.push(response.headers.get("x-request-id") ?? "");
      }
      return refused;
    },
  };
}

/** What a made-up gateway answers: a status and JSON, or another text. */
export type MadeUp = (method: string, path: string, body: string, request: IncomingMessage) => [number, unknown];

/** Starts what answers in place of a gateway, and resolves with the options that reach it. `received`: the calls so far. */
export async function startMadeUp(cleanup: Cleanup, answer: MadeUp) {
  const received: string[] = [];
  const server: Server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    received.push(`${request.method} ${request.url}${body === "" ? "" : ` ${body}`}`);
    const [status, json] = answer(request.method ?? "", request.url ?? "", body, request);
    response.statusCode = status;
    response.end(typeof json === "string" ? json : JSON.stringify(json));
  });
  const port = await listen(server);
  cleanup(() => {
    server.closeAllConnections();
    server.close();
  });
  const folder = scratchFolder(cleanup);
  writeFileSync(join(folder, "token"), "made-up-token\n");
  const options = ["--url", `http://127.0.0.1:${port}`, "--token-file", join(folder, "token")];
  return { server, received, options, url: `http://127.0.0.1:${port}` };
}
