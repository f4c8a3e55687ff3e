// Serves the files of the console under /console/: a page that shows the gateway by its API. They are open, but exist only where
// the API does, for the same hosts and pages. All files are read with the first request, and no path of a request reaches
// the disk. The policy of the page lets it load and ask nothing but its own origin.
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { extname } from "node:path";
import { errorBody } from "../core/local-reply.ts";
import { type AdminAccess, findForeign } from "./access.ts";
import type { AdminConnections } from "./connections.ts";
import { type AdminError, errors } from "./errors.ts";
import { hasBody, jsonType } from "./request-fields.ts";
import { type SignInCode, signInPath } from "./sign-in-code.ts";

export interface ConsoleOptions {
  /** A reload replaces what it returns. */
  readonly access: () => AdminAccess;
  /** Of a link that was printed; by default there is none. */
  readonly signIn?: SignInCode | undefined;
  /** Called when a file cannot be read. The client only gets a fixed text. */
  readonly onFailure: (error: Error) => void;
}

interface ConsoleFile {
  readonly type: string;
  readonly bytes: Buffer;
  readonly entityTag: string;
}

const script = "text/javascript; charset=utf-8";

/** Of the files in the folder `console` beside this one; others are not served. */
const types: ReadonlyMap<string, string> = new Map([
  [".html", "text/html; charset=utf-8"],
  [".css", "text/css; charset=utf-8"],
  [".svg", "image/svg+xml"],
  [".js", script],
]);

/** Seen from here, also where this file is compiled. The page shows a section of it beside a problem. */
const runbooks = new URL("../../docs/runbooks.md", import.meta.url);

/** Their packages are dependencies. The hooks import `preact` by its bare name, which a browser does not resolve. */
const libraries: readonly (readonly [name: string, module: string])[] = [
  ["preact.js", "preact"],
  ["hooks.js", "preact/hooks"],
  ["htm.js", "htm"],
];

const fields = {
  "cache-control": "no-cache",
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "require-trusted-types-for 'script'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  // A page that has opened this one must not lead it elsewhere, such as to another token.
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
} as const;

export class ConsoleFiles {
  readonly #options: ConsoleOptions;
  readonly #connections: AdminConnections;
  readonly #read: typeof readConsoleFiles;
  #files: Promise<FilesByName> | null = null;

  /** A test replaces `read`. */
  constructor(options: ConsoleOptions, connections: AdminConnections, read = readConsoleFiles) {
    this.#options = options;
    this.#connections = connections;
    this.#read = read;
  }

  /** Returns false for a request that is not for the console: the caller must answer it. */
  handle(request: IncomingMessage, response: ServerResponse): boolean {
    if (!/^\/console(?:[/?]|$)/.test(request.url ?? "")) return false;
    const reached = this.#connections.reached(request.socket);
    const problem = findForeign(request.rawHeaders, reached, this.#options.access());
    if (problem === errors.notFound) return false;
    // No body is wanted, and each of its chunks would cost more than the request.
    if (hasBody(request.headers)) response.setHeader("connection", "close");
    const { signIn } = this.#options;
    if (problem !== null) refuse(response, problem);
    else if (signIn !== undefined && request.method === "POST" && request.url === signInPath) {
      const exchanged = signIn.exchange(request.rawHeaders, reached, this.#options.access());
      if ("error" in exchanged) refuse(response, exchanged.error);
      else answer(response, 200, JSON.stringify(exchanged));
    } else if (request.method !== "GET" && request.method !== "HEAD") refuse(response, errors.methodNotAllowed);
    else void this.#answer(request, response);
    return true;
  }

  /** Never rejects. If the files cannot be read, the next request tries again. */
  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      this.#files ??= this.#read();
      send(request, response, await this.#files);
    } catch (error) {
      this.#files = null;
      this.#options.onFailure(error as Error);
      refuse(response, errors.failed);
    }
  }
}

/** A fifth of the files is for readers of the source, and not sent: comments with lines of their own, indentation, and blanks of styles. */
const commentLines = /^ *(?:\/\/.*|\/\*[\s\S]*?\*\/|<!--.*-->)\n/gm;
const indentation = /^(?: +|\n)/gm;
const blanksOfStyles = /(?<=[{};,:])\s| (?=\{)/g;

/** No template of the scripts, and no text of the page, has an indentation that means something. */
function sentOf(name: string, text: string): string {
  const code = text.replaceAll(commentLines, "").replaceAll(indentation, "");
  return name.endsWith(".css") ? code.replaceAll(blanksOfStyles, "") : code;
}

/** By the names under which they are served; the page has the empty one. */
export async function readConsoleFiles(): Promise<FilesByName> {
  const folder = new URL("console/", import.meta.url);
  const names = (await readdir(folder)).filter((name) => types.has(extname(name)));
  const files = await Promise.all([
    ...names.map(async (name) => {
      const text = await readFile(new URL(name, folder), "utf8");
      const file = fileOf(types.get(extname(name)) ?? "", Buffer.from(sentOf(name, text)));
      return [name === "index.html" ? "" : name, file] as const;
    }),
    ...libraries.map(async ([name, module]) => {
      const text = await readFile(new URL(import.meta.resolve(module)), "utf8");
      // The map that its last line names is not served.
      const own = text.replaceAll('from"preact"', 'from"./preact.js"').replace(/\/\/# sourceMappingURL=.*\n?/, "");
      return [name, fileOf(script, Buffer.from(own))] as const;
    }),
    readFile(runbooks).then((bytes) => ["runbooks.md", fileOf("text/plain; charset=utf-8", bytes)] as const),
  ]);
  return new Map(files);
}

type FilesByName = ReadonlyMap<string, ConsoleFile>;

function fileOf(type: string, bytes: Buffer): ConsoleFile {
  return { type, bytes, entityTag: `"${createHash("sha256").update(bytes).digest("base64url")}"` };
}

function send({ url = "", headers }: IncomingMessage, response: ServerResponse, files: FilesByName): void {
  const [path = ""] = url.split("?", 1);
  // Relative names in the page need the slash.
  if (path === "/console") {
    response.writeHead(308, { ...fields, location: "/console/", "content-length": 0 }).end();
    return;
  }
  const file = files.get(path.slice("/console/".length));
  if (file === undefined) {
    refuse(response, errors.notFound);
    return;
  }
  const { type, bytes, entityTag } = file;
  const tagged = { ...fields, etag: entityTag };
  if (headers["if-none-match"] === entityTag) response.writeHead(304, tagged).end();
  // Node leaves the body out of an answer to HEAD.
  else response.writeHead(200, { ...tagged, "content-type": type, "content-length": bytes.length }).end(bytes);
}

function refuse(response: ServerResponse, error: AdminError): void {
  answer(
    response,
    error.status,
    errorBody(error),
    error.status === 405 ? { allow: "GET, HEAD", connection: "close" } : {},
  );
}

function answer(response: ServerResponse, status: number, body: string, more: OutgoingHttpHeaders = {}): void {
  response.writeHead(status, { ...fields, ...more, "cache-control": "no-store", "content-type": jsonType }).end(body);
}
