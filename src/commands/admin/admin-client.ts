// Calls the admin API of a running gateway: one function sends every request, over the Unix socket or over TCP, and answers have
// the types of the API's schemas. A call that fails rejects with a CommandError, which says why and has the exit code. Nothing is
// tried again, and no redirect is followed, because it could take the token elsewhere.
import type { ClientRequest, IncomingMessage, RequestOptions } from "node:http";
import type { Static, TSchema } from "typebox";
import type { ClientsWanted, RuleWanted, ShownRule, Status } from "../../admin/control-plane.ts";
import { request as sendPlain } from "../../admin/node-http.ts";
import type * as schemas from "../../admin/schemas.ts";
import { asError, errorCode } from "../../core/failure.ts";
import { CommandError, exitCodes } from "../io.ts";
import type { TrialArguments } from "./invocation.ts";

/** How a gateway is reached. */
export type Where =
  | { readonly kind: "socket"; readonly path: string }
  /** `tokenFile`: where the token is from, for messages. `ca`: in PEM; null: Node's own list. */
  | {
      readonly kind: "url";
      readonly url: URL;
      readonly token: string;
      readonly tokenFile: string;
      readonly ca: string | null;
    };

interface FetchedRule {
  readonly rule: ShownRule;
  /** As in ETag and If-Match. */
  readonly tag: string;
}

interface Sent {
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The name of a schema of the API. */
type SchemaName = {
  [Name in keyof typeof schemas]: (typeof schemas)[Name] extends TSchema ? Name : never;
}[keyof typeof schemas];

interface Answered<Name extends SchemaName> {
  readonly json: Static<(typeof schemas)[Name]>;
  readonly headers: IncomingMessage["headers"];
}

/** An answer of success, and what was asked. */
export interface GatewayAnswer {
  readonly schema: SchemaName;
  /** Method and target. */
  readonly call: string;
  readonly json: unknown;
}

type Send = (options: RequestOptions) => ClientRequest;

/** A reload looks names up, which may take some seconds. */
const answerMs = 30_000;
/** For a call and its whole answer. */
const longestCallMs = 120_000;
/** The longest list of rules has a tenth of it. */
const maxAnswerBytes = 64 * 1024 * 1024;
/** No command needs more answers at a time. */
const keptAnswers = 4;

/** `silentMs`: how long a gateway may say nothing; a test shortens it. */
export async function openAdminClient(where: Where, silentMs = answerMs): Promise<AdminClient> {
  return new AdminClient(where, await senderTo(where), silentMs);
}

/** Loads TLS only if it is used. */
export async function senderTo(where: Where): Promise<Send> {
  const isTls = where.kind === "url" && where.url.protocol === "https:";
  return isTls ? (await import("node:https")).request : sendPlain;
}

/** Each request has a connection of its own, past any proxy. No variable of the environment turns the verification off. */
export function reachOf(where: Where): RequestOptions & { readonly ca?: string; readonly rejectUnauthorized?: true } {
  if (where.kind === "socket") return { agent: false, socketPath: where.path };
  const ca = where.ca === null ? {} : { ca: where.ca };
  return { agent: false, rejectUnauthorized: true, ...addressOf(where.url), ...ca };
}

export class AdminClient {
  readonly where: Where;
  /** The last ones, the newest at the end: they are asked what they lack if one cannot be shown. */
  readonly answers: GatewayAnswer[] = [];
  readonly #send: Send;
  readonly #silentMs: number;

  constructor(where: Where, send: Send, silentMs: number) {
    this.where = where;
    this.#send = send;
    this.#silentMs = silentMs;
  }

  async status(): Promise<Status> {
    const status = await this.#ask("Status", "GET /api/status");
    const isStatus = typeof status === "object" && status !== null && "version" in status && "state" in status;
    if (!isStatus) throw this.#unavailable("what answers is not the admin API of a gateway");
    return status;
  }

  policies() {
    return this.#ask("PolicyList", "GET /api/policies");
  }

  config(against: "previous" | null) {
    return this.#ask("Config", `GET /api/config${against === null ? "" : `?against=${against}`}`);
  }

  clients({ policy, sort, search, limit }: ClientsWanted) {
    const query = new URLSearchParams({
      ...{ sort, limit: `${limit}` },
      ...(policy === null ? {} : { policy }),
      ...(search === null ? {} : { search }),
    });
    return this.#ask("ClientList", `GET /api/clients?${query}`);
  }

  /** `key`: such as `client:203.0.113.7`. */
  client(key: string) {
    return this.#ask("ClientState", `GET /api/clients/${encodeURIComponent(key)}`);
  }

  /** `id`: as in X-Request-Id. */
  request(id: string) {
    return this.#ask("RequestAnswer", `GET /api/requests/${encodeURIComponent(id)}`);
  }

  /** The last refusals of a client. `key`: as for `client`. */
  refusals(key: string, limit: number) {
    return this.#ask("RefusalList", `GET /api/refusals?${new URLSearchParams({ key, limit: `${limit}` })}`);
  }

  async rules(): Promise<readonly ShownRule[]> {
    return (await this.#ask("RuleList", "GET /api/rules")).rules;
  }

  async rule(id: string): Promise<FetchedRule> {
    const { json: rule, headers } = await this.#call("Rule", `GET /api/rules/${encodeURIComponent(id)}`);
    return { rule, tag: headers.etag ?? "*" };
  }

  /** `replaces`: the tag of the rule with this id; null: there must be none. */
  putRule(id: string, wanted: RuleWanted, replaces: string | null) {
    const headers = replaces === null ? { "if-none-match": "*" } : { "if-match": replaces };
    return this.#ask("Rule", `PUT /api/rules/${encodeURIComponent(id)}`, { body: wanted, headers });
  }

  /** Resolves with what it was. */
  removeRule(id: string) {
    return this.#ask("Rule", `DELETE /api/rules/${encodeURIComponent(id)}`);
  }

  forgive(key: string) {
    return this.#ask("Forgiven", `DELETE /api/clients/${encodeURIComponent(key)}`);
  }

  /** `trial`: null for good. */
  reload(trial: TrialArguments | null) {
    if (trial === null) return this.#ask("ReloadAnswer", "POST /api/reload", { body: {} });
    const { confirmWithin, refusedShare, unconfirmed } = trial;
    const unless = refusedShare === null ? {} : { unless: { refusedShare } };
    return this.#ask("ReloadAnswer", "POST /api/reload", { body: { confirmWithin, ...unless, unconfirmed } });
  }

  confirm() {
    return this.#ask("ConfirmAnswer", "POST /api/reload/confirm", { body: {} });
  }

  takeBack() {
    return this.#ask("ReloadAnswer", "POST /api/reload/take-back", { body: {} });
  }

  drain() {
    return this.#ask("DrainAnswer", "POST /api/drain", { body: {} });
  }

  async #ask<Name extends SchemaName>(schema: Name, call: string, sent?: Sent): Promise<Answered<Name>["json"]> {
    return (await this.#call(schema, call, sent)).json;
  }

  /** Sends one request. Resolves with an answer of success alone, which should fit the schema. `call`: method and target. */
  async #call<Name extends SchemaName>(schema: Name, call: string, sent: Sent = {}): Promise<Answered<Name>> {
    const { json, headers } = await this.#read(await this.#open(call, sent));
    if (this.answers.push({ schema, call, json }) > keptAnswers) this.answers.shift();
    return { json: json as Answered<Name>["json"], headers };
  }

  #open(call: string, { body, headers }: Sent): Promise<IncomingMessage> {
    const { where } = this;
    const [method = "", path = ""] = call.split(" ");
    const text = body === undefined ? null : JSON.stringify(body);
    const options: RequestOptions = {
      ...{ ...reachOf(where), method, path, timeout: this.#silentMs },
      // A trickle is never silent.
      signal: AbortSignal.timeout(longestCallMs),
      headers: {
        accept: "*/*",
        ...(where.kind === "url" ? { authorization: `Bearer ${where.token}` } : {}),
        ...(text === null ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(text) }),
        ...headers,
      },
    };
    return new Promise((resolve, reject) => {
      const outgoing = this.#send(options);
      outgoing.on("response", resolve);
      outgoing.on("upgrade", (_response, socket) => {
        socket.destroy();
        reject(this.#unavailable("what answers is not the admin API of a gateway (status 101)"));
      });
      outgoing.on("error", (error) => reject(this.#unreachable(error)));
      outgoing.on("timeout", () => outgoing.destroy(new Error(`nothing was heard for ${this.#silentMs / 1000} s`)));
      outgoing.end(text ?? undefined);
    });
  }

  async #read(response: IncomingMessage) {
    const { statusCode: status = 0, headers } = response;
    const whole = await bytesOf(response, maxAnswerBytes).catch((error: unknown) => {
      throw this.#unreachable(asError(error));
    });
    if (whole === null) throw this.#unreachable(new Error("the answer is longer than 64 MiB"));
    const json = parsed(whole.toString());
    if (json === undefined)
      throw this.#unavailable(`what answers is not the admin API of a gateway (status ${status}, no JSON)`);
    if (status >= 200 && status < 300) return { json, headers };
    throw this.#refusal(status, json, headers);
  }

  #refusal(status: number, json: unknown, headers: IncomingMessage["headers"]): CommandError {
    const details = detailsOf(json);
    const own = this.where.kind === "url" ? ` (--token-file ${this.where.tokenFile})` : "";
    const notPermitted = (message: string) => new CommandError(exitCodes.notPermitted, message, details);
    switch (status) {
      case 401:
        return notPermitted(`the gateway does not accept the token${own}`);
      case 403:
        return notPermitted(
          `a token that may write is needed${own}: "headgate token --admin write" makes one for admin.tokensFile`,
        );
      case 421:
        return this.#unavailable("add the host of --url to its admin.hosts", details);
      case 429: {
        const wait = headers["retry-after"];
        return notPermitted(
          `too many wrong tokens came from here${wait === undefined ? "" : `; try again in ${wait} s`}`,
        );
      }
      case 400:
      case 404:
      case 409:
      case 412:
      case 413:
      case 500:
        return new CommandError(exitCodes.refused, details[0] ?? `the gateway answers ${status}`, details.slice(1));
      default:
        return this.#unavailable(`it answers ${status}`, details);
    }
  }

  #unavailable(why: string, details: readonly string[] = [], cause?: unknown): CommandError {
    const message = `the gateway at ${whereText(this.where)} cannot be asked: ${why}`;
    return new CommandError(exitCodes.unavailable, message, details, cause);
  }

  #unreachable(error: Error): CommandError {
    const why = whyUnreachable(error, this.where);
    if (["EACCES", "EPERM"].includes(errorCode(error) ?? "")) {
      return new CommandError(exitCodes.notPermitted, `cannot open ${whereText(this.where)}: ${why}`, [], error);
    }
    return this.#unavailable(why, [], error);
  }
}

/** Null: it is longer. */
export async function bytesOf(message: IncomingMessage, maxBytes: number): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of message) {
    bytes += chunk.length;
    if (bytes > maxBytes) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

export function whereText(where: Where): string {
  return where.kind === "socket" ? where.path : where.url.origin;
}

/** Where the listener of a URL is. */
function addressOf({ hostname, port, protocol }: URL): RequestOptions {
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? (protocol === "https:" ? 443 : 80) : Number(port),
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // It is something else that answers.
    return undefined;
  }
}

/** The sentences of an error of the API; what has another form says nothing. */
function detailsOf(json: unknown): string[] {
  const errors =
    typeof json === "object" && json !== null && "errors" in json && Array.isArray(json.errors) ? json.errors : [];
  return errors.flatMap((each: unknown) => {
    const isText = typeof each === "object" && each !== null && "errMsg" in each && typeof each.errMsg === "string";
    return isText ? [(each as { readonly errMsg: string }).errMsg] : [];
  });
}

function whyUnreachable(error: Error, where: Where): string {
  const code = errorCode(error);
  if (where.kind === "url" && where.url.protocol === "https:" && isAboutCertificate(code)) {
    return `its certificate is not trusted (${code}); name its authority with --ca`;
  }
  switch (code) {
    case "ENOENT":
      return "there is no such socket; is the gateway running, with this admin.socket?";
    case "ECONNREFUSED":
      return where.kind === "socket" ? "nobody listens on the socket; the gateway has ended" : "nobody listens there";
    case "EACCES":
    case "EPERM":
      return "only the user of the gateway may open its socket";
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return "the host name has no address";
    case "ECONNRESET":
    case "EPIPE":
      return "it has closed the connection; it may be ending";
    default:
      return code === undefined ? error.message : `${code}`;
  }
}

function isAboutCertificate(code = ""): boolean {
  return /CERT|SIGNED|SIGNATURE|UNABLE_TO|ISSUER|ALTNAME/.test(code);
}
