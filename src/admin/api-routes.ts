// The calls of the admin API: each with its schemas, and what it asks the control plane for. The OpenAPI document is made of the
// same schemas.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { TypeBoxTypeProvider } from "@fastify/type-provider-typebox";
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  RawServerDefault,
} from "fastify";
import type { Static, TSchema } from "typebox";
import { withoutHidden } from "../core/hidden-characters.ts";
import type { AdminIdentity } from "./admin-tokens.ts";
import type {
  AdminCaller,
  ClientControl,
  ControlPlane,
  ControlRefusal,
  ControlResult,
  RecentRequests,
  RuleControl,
  RuleVersions,
  RuleWanted,
  TaggedRule,
} from "./control-plane.ts";
import { type AdminError, errors } from "./errors.ts";
import { addDocumentation } from "./openapi.ts";
import { entityTag, jsonType, readCondition } from "./request-fields.ts";
import { Type } from "./schema-kinds.ts";
import * as schemas from "./schemas.ts";
import { SharedAnswers, Turns } from "./turns.ts";

/** Who has asked for which change, and what came of it. */
export interface AuditLine {
  readonly id: string;
  readonly caller: string;
  /** Null on the Unix socket. */
  readonly peer: string | null;
  readonly call: string;
  readonly status: number;
  readonly before: unknown;
  readonly after: unknown;
}

/** What a route needs of the listener. */
export interface ApiListener {
  caller(request: FastifyRequest): AdminCaller;
  identity(request: FastifyRequest): AdminIdentity;
  /** Calls and streams with the same one share what there is. */
  peer(request: FastifyRequest): string;
  nowMs(): number;
  /** Counts a check with a token. Returns after how many seconds the peer may send it; 0: now. */
  spendGuess(request: FastifyRequest): number;
  hasStreams(request: FastifyRequest): boolean;
  stream(request: FastifyRequest, reply: FastifyReply): void;
  onWrite(line: AuditLine): void;
}

type App = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>;

/** What all routes share. */
interface RouteContext extends ApiListener {
  readonly plane: ControlPlane;
  /**
   * Runs the work when it is the call's turn; answers 503 if too many calls wait. What changes something has turns of its
   * own.
   */
  inTurn<T>(reply: FastifyReply, work: () => Promise<T> | T): Promise<T | ErrorAnswer>;
  /** For an answer that costs much: instead of a turn, all who ask for it meanwhile share one. `make`: in JSON. */
  shared(make: () => Promise<Buffer>): SharedAnswers<Buffer>;
}

/** Of the longest list of rules, which takes 150 ms, less than a tenth of the time. */
const maxPauseMs = 2_000;

/** Adds all calls. Returns a function that lists the methods of a URL's path; an unknown path has none. */
export async function addRoutes(
  app: App,
  plane: ControlPlane,
  listener: ApiListener,
  version: string,
): Promise<(url: string) => readonly string[]> {
  const methods = noteMethods(app);
  await addDocumentation(app as unknown as FastifyInstance, version);
  const [reads, writes] = [new Turns(), new Turns()];
  const context: RouteContext = {
    ...listener,
    plane,
    async inTurn(reply, work) {
      const { request } = reply;
      const turns = isRead(request) ? reads : writes;
      const peer = listener.peer(request);
      return turns.hasRoom(peer) ? turns.take(peer, work) : refuse(reply.header("retry-after", "1"), errors.overloaded);
    },
    shared: (make) => new SharedAnswers(unlessSame(make), { monotonicMs: listener.nowMs }, maxPauseMs),
  };
  addGatewayRoutes(app, context);
  addReloads(app, context);
  addDrain(app, context);
  addEvents(app, context);
  addRecent(app, context, plane.recent);
  addClients(app, context, plane.clients);
  addRules(app, context, plane.rules);
  return methods;
}

function isRead({ method, routeOptions }: FastifyRequest): boolean {
  return method === "GET" || method === "HEAD" || routeOptions.config.isRead === true;
}

/** Returns what was returned before if it is the same, because slow readers keep an answer in memory. */
function unlessSame(make: () => Promise<Buffer>): () => Promise<Buffer> {
  let last: Buffer | null = null;
  return async () => {
    const made = await make();
    if (last?.equals(made) !== true) last = made;
    return last;
  };
}

async function send(reply: FastifyReply, answer: SharedAnswers<Buffer>): Promise<void> {
  const made = await answer.rendered();
  reply.type(jsonType).send(made);
}

/** Each portion is made in a turn of the event loop. */
async function textOf(rules: RuleControl): Promise<Buffer> {
  const portions: string[] = [];
  for await (const portion of rules.list()) portions.push(JSON.stringify(portion).slice(1, -1));
  return Buffer.from(`{"rules":[${portions.join()}]}`);
}

function noteMethods(app: App): (url: string) => readonly string[] {
  const paths = new Map<string, { readonly pattern: RegExp; readonly methods: Set<string> }>();
  app.addHook("onRoute", ({ url, method }) => {
    const pattern = new RegExp(`^${url.replaceAll(".", "\\.").replaceAll(/:\w+/g, "[^/]+")}$`);
    const known = paths.get(url) ?? { pattern, methods: new Set() };
    for (const each of [method].flat()) known.methods.add(each);
    paths.set(url, known);
  });
  return (url) => {
    const [path = ""] = url.split("?", 1);
    return [...paths.values()].filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => [...methods]);
  };
}

const descriptions = new Map([
  [200, "The answer."],
  [201, "There was none with this id."],
  [202, "It begins."],
  [400, "The request does not fit its schema, or cannot be meant."],
  [401, "No token, or a wrong one."],
  [403, "The token may read and not write, or a page of another origin asks."],
  [404, "There is no such thing."],
  [409, "Not now, or not without force; there are as many rules as can be; or the configuration is wrong."],
  [412, "If-Match or If-None-Match does not hold."],
  [413, "The body is larger than 64 KiB."],
  [415, "The body is not application/json."],
  [421, "The listener does not answer for this host."],
  [429, "Too many wrong tokens, or checks that name a token."],
  [503, "Too many calls at once."],
]);

const always = [400, 401, 403, 421, 429, 503];
const withBody = [...always, 413, 415];

/** The schemas of a call's answers, by status: those of success, and its errors. */
function answers<S extends TSchema, Good extends 200 | 201 | 202 = 200>(
  schema: S,
  statuses: readonly number[] = always,
  good: readonly Good[] = [200 as Good],
) {
  const described = (status: number, each: TSchema) => ({ ...each, description: descriptions.get(status) ?? "" });
  const all = [
    ...good.map((status) => [status, described(status, schema)]),
    ...statuses.map((status) => [status, described(status, schemas.ErrorAnswer)]),
  ];
  return Object.fromEntries(all) as Record<Good, S> & Record<"4xx", typeof schemas.ErrorAnswer>;
}

/** What the OpenAPI document and the validator know of a call. `of`: the schemas of what it takes and answers. */
function callsOf(tag: string) {
  return <Schemas extends FastifySchema>(operationId: string, summary: string, of: Schemas) => ({
    schema: { tags: [tag], operationId, summary, ...of },
  });
}

function addGatewayRoutes(app: App, { plane, inTurn, shared, identity }: RouteContext): void {
  const call = callsOf("gateway");
  const [config, compared] = ([null, "previous"] as const).map((against) => {
    return shared(async () => Buffer.from(JSON.stringify(await plane.config(against))));
  }) as [SharedAnswers<Buffer>, SharedAnswers<Buffer>];
  app.get(
    "/api/openapi.json",
    call("getOpenApi", "This document", { response: answers(Type.Object({})) }),
    (_request, reply) => inTurn(reply, () => app.swagger()),
  );
  app.get(
    "/api/status",
    call("getStatus", "What runs, and how the upstream and the store are", { response: answers(schemas.Status) }),
    (request, reply) =>
      inTurn(reply, async () => {
        const { name, role } = identity(request);
        return { ...(await plane.status()), caller: { name, role } };
      }),
  );
  app.get(
    "/api/policies",
    call("getPolicies", "The policies, and what each has said since the start", {
      response: answers(schemas.PolicyList),
    }),
    (_request, reply) => inTurn(reply, () => plane.policies()),
  );
  app.get(
    "/api/config",
    call("getConfig", "The configuration in force, without secrets, and where each value comes from", {
      querystring: schemas.ConfigQuery,
      response: answers(schemas.Config),
    }),
    ({ query: { against = null } }, reply) => send(reply, against === null ? config : compared),
  );
}

function addReloads(app: App, { plane, inTurn, caller, onWrite }: RouteContext): void {
  const call = callsOf("gateway");
  const write = <T>(request: FastifyRequest, reply: FastifyReply, work: () => Promise<ControlResult<T>>) =>
    inTurn(reply, async () => {
      const outcome = await work();
      const status = outcome.ok ? 200 : refusals[outcome.why].status;
      const after = outcome.ok ? outcome.value : outcome.details;
      onWrite({ ...auditOf(request, caller(request)), status, before: null, after });
      return resultOf(reply, outcome);
    });
  app.post(
    "/api/reload",
    call("reload", "Reloads, as SIGHUP does; with `confirmWithin`, on trial", {
      body: schemas.ReloadWanted,
      response: answers(schemas.ReloadAnswer, [...withBody, 409]),
    }),
    (request, reply) => {
      const work = () => plane.reload(request.body, caller(request).name);
      if (request.body.dryRun !== true) return write(request, reply, work);
      return inTurn(reply, async () => resultOf(reply, await work()));
    },
  );
  app.post(
    "/api/reload/confirm",
    call("confirmReload", "Confirms a reload on trial", {
      body: schemas.Nothing,
      response: answers(schemas.ConfirmAnswer, [...withBody, 409]),
    }),
    (request, reply) => write(request, reply, () => plane.confirm(caller(request).name)),
  );
  app.post(
    "/api/reload/take-back",
    call("takeBackReload", "Takes a reload on trial back: the configuration before it is in force again", {
      body: schemas.Nothing,
      response: answers(schemas.ReloadAnswer, [...withBody, 409]),
    }),
    (request, reply) => write(request, reply, () => plane.takeBack(caller(request).name)),
  );
}

function addDrain(app: App, { plane, caller, onWrite }: RouteContext): void {
  const call = callsOf("gateway");
  app.post(
    "/api/drain",
    call("drain", "Drains and ends the gateway, as SIGTERM does", {
      body: schemas.Nothing,
      response: answers(schemas.DrainAnswer, withBody, [202]),
    }),
    async (request, reply) => {
      onWrite({ ...auditOf(request, caller(request)), status: 202, before: null, after: plane.drainTimes() });
      // Afterwards, because a drain closes this connection.
      reply.raw.once("close", () => plane.drain());
      reply.code(202).header("connection", "close");
      return plane.drainTimes();
    },
  );
}

function addEvents(app: App, { hasStreams, stream }: RouteContext): void {
  const content = { "text/event-stream": { schema: schemas.ControlEvent } };
  app.get(
    "/api/events",
    {
      exposeHeadRoute: false,
      ...callsOf("gateway")("getEvents", "A stream of events, until a drain (server-sent events)", {
        response: { ...answers(schemas.ErrorAnswer, always, []), 200: { description: "Events.", content } },
      }),
    },
    async (request, reply) => {
      if (!hasStreams(request)) return refuse(reply.header("retry-after", "10"), errors.tooManyStreams);
      stream(request, reply);
      return undefined;
    },
  );
}

function addRecent(app: App, { inTurn }: RouteContext, recent: RecentRequests): void {
  const call = callsOf("traffic");
  app.get(
    "/api/history",
    call("getHistory", "The last 15 minutes in steps of 5 s", {
      querystring: schemas.HistoryQuery,
      response: answers(schemas.History),
    }),
    ({ query: { steps = null } }, reply) => inTurn(reply, () => recent.history(steps === null ? null : Number(steps))),
  );
  app.get(
    "/api/policies/history",
    call("getPolicyHistory", "What each policy has said in the last 15 minutes, in steps of 5 s", {
      response: answers(schemas.PolicyHistory),
    }),
    (_request, reply) => inTurn(reply, () => recent.policyHistory()),
  );
  app.get(
    "/api/requests/:id",
    call(
      "getRequest",
      "Why the gateway refused a request, or how the upstream failed it. It keeps the last 10,000 (`admin.recent.refusals`), at most five a second of each client",
      { params: schemas.RequestParameter, response: answers(schemas.RequestAnswer, [...always, 404]) },
    ),
    ({ params: { id } }, reply) =>
      inTurn(reply, async () => (await recent.request(id)) ?? refuse(reply, errors.unknownRequest)),
  );
  app.get(
    "/api/refusals",
    call(
      "getRefusals",
      "The last refusals and failures of the upstream, of all clients or of one, of those that are remembered",
      {
        querystring: schemas.RefusalsQuery,
        response: answers(schemas.RefusalList),
      },
    ),
    ({ query: { key = null, limit = "50" } }, reply) =>
      inTurn(reply, async () => resultOf(reply, await recent.refusals(key, Number(limit)))),
  );
}

function addClients(app: App, context: RouteContext, clients: ClientControl): void {
  const { inTurn, caller, onWrite } = context;
  const call = callsOf("traffic");
  app.get(
    "/api/clients",
    call("getClients", "Keys with what they have used", {
      querystring: schemas.ClientsQuery,
      response: answers(schemas.ClientList),
    }),
    ({ query: { policy = null, sort = "used", search = null, limit = "50" } }, reply) =>
      inTurn(reply, async () => resultOf(reply, await clients.list({ policy, sort, search, limit: Number(limit) }))),
  );
  app.get(
    "/api/clients/:key",
    call("getClient", "What every policy knows of one client", {
      params: schemas.KeyParameter,
      response: answers(schemas.ClientState, [...always, 404]),
    }),
    ({ params: { key } }, reply) => inTurn(reply, async () => resultOf(reply, await clients.find(key))),
  );
  app.delete(
    "/api/clients/:key",
    call("forgiveClient", "Forgives a client: its windows and periods are empty from the next request on", {
      params: schemas.KeyParameter,
      response: answers(schemas.Forgiven, [...always, 404]),
    }),
    (request, reply) =>
      inTurn(reply, async () => {
        const outcome = await clients.forgive(request.params.key);
        const status = outcome.ok ? 200 : refusals[outcome.why].status;
        const before = outcome.ok ? outcome.value : null;
        onWrite({ ...auditOf(request, caller(request)), status, before, after: null });
        return resultOf(reply, outcome);
      }),
  );
  addCheck(app, context, clients);
}

function addCheck(app: App, { inTurn, caller, onWrite, spendGuess }: RouteContext, clients: ClientControl): void {
  const call = callsOf("traffic");
  app.post(
    "/api/check",
    {
      config: { isRead: true },
      ...call(
        "check",
        "What a request would get, and why, without charging it; one with a token spends the budget of wrong tokens",
        { body: schemas.CheckWanted, response: answers(schemas.CheckAnswer, withBody) },
      ),
    },
    (request, reply) => {
      const { body } = request;
      if (!namesToken(body)) return inTurn(reply, async () => resultOf(reply, await clients.check(body)));
      const waitSeconds = spendGuess(request);
      if (waitSeconds > 0) return refuse(reply.header("retry-after", `${waitSeconds}`), errors.tooManyGuesses);
      return inTurn(reply, async () => {
        const outcome = await clients.check(body);
        const status = outcome.ok ? 200 : refusals[outcome.why].status;
        // Without the headers and the target, because both may contain the token.
        const after = outcome.ok ? { client: outcome.value.client, auth: outcome.value.auth } : outcome.details;
        onWrite({ ...auditOf(request, caller(request)), status, before: null, after });
        return resultOf(reply, outcome);
      });
    },
  );
}

/** Returns whether the check has a token, so that the answer tells if it is right. */
function namesToken({ headers = {} }: Static<typeof schemas.CheckWanted>): boolean {
  return Object.keys(headers).some((name) => name.toLowerCase() === "authorization");
}

function addRules(app: App, context: RouteContext, rules: RuleControl): void {
  const { inTurn, shared } = context;
  const call = callsOf("rules");
  const list = shared(() => textOf(rules));
  app.get(
    "/api/rules",
    call("getRules", "The rules that hold", { response: answers(schemas.RuleList) }),
    (_request, reply) => send(reply, list),
  );
  app.get(
    "/api/rules/:id",
    call("getRule", "One rule, with its entity tag in ETag", {
      params: schemas.RuleParameter,
      response: answers(schemas.Rule, [...always, 404]),
    }),
    ({ params: { id } }, reply) =>
      inTurn(reply, () => {
        const found = rules.find(id);
        return found === null ? refuse(reply, errors.unknownRule) : tagged(reply, found);
      }),
  );
  addPutRule(app, context, rules);
  addDeleteRule(app, context, rules);
}

const ofRuleWrites = { params: schemas.RuleParameter, headers: schemas.Conditions };

function addPutRule(app: App, { inTurn, caller, onWrite }: RouteContext, rules: RuleControl): void {
  app.put(
    "/api/rules/:id",
    callsOf("rules")("putRule", "Sets or replaces a rule", {
      ...ofRuleWrites,
      body: schemas.RuleWanted,
      response: answers(schemas.Rule, [...withBody, 409, 412], [200, 201]),
    }),
    (request, reply) =>
      inTurn(reply, async () => {
        const condition = readCondition(request.headers["if-match"], request.headers["if-none-match"]);
        if (condition === null) return refuse(reply, errors.badCondition);
        const by = caller(request);
        const outcome = await rules.put(request.params.id, request.body, condition, by);
        const { status, before, after } = changeOf(outcome, 201);
        const shown = outcome.ok ? (after?.rule ?? null) : loggable(request.body);
        onWrite({ ...auditOf(request, by), status, before, after: shown });
        if (!outcome.ok) return refuseFor(reply, outcome);
        return after === null ? refuse(reply, errors.failed) : tagged(reply.code(status), after);
      }),
  );
}

function addDeleteRule(app: App, { inTurn, caller, onWrite }: RouteContext, rules: RuleControl): void {
  app.delete(
    "/api/rules/:id",
    callsOf("rules")("deleteRule", "Removes a rule; answers what it was", {
      ...ofRuleWrites,
      response: answers(schemas.Rule, [...always, 404, 412]),
    }),
    (request, reply) =>
      inTurn(reply, async () => {
        const condition = readCondition(request.headers["if-match"], request.headers["if-none-match"]);
        if (condition === null || condition.kind === "missing") return refuse(reply, errors.badCondition);
        const outcome = await rules.remove(request.params.id, condition, caller(request));
        const { status, before } = changeOf(outcome, 200);
        onWrite({ ...auditOf(request, caller(request)), status, before, after: null });
        if (!outcome.ok) return refuseFor(reply, outcome);
        return before === null ? refuse(reply, errors.unknownRule) : before;
      }),
  );
}

/** Returns what a call has changed, and the status of its answer; `statusIfNew`: if there was no such rule before. */
function changeOf(outcome: ControlResult<RuleVersions>, statusIfNew: number) {
  if (!outcome.ok) return { status: refusals[outcome.why].status, before: null, after: null };
  const { before, after } = outcome.value;
  return { status: before === null ? statusIfNew : 200, before: before?.rule ?? null, after };
}

/** Removes the hidden characters from the note of a refused rule, because the log shows it. */
function loggable(wanted: RuleWanted): RuleWanted {
  return wanted.note === undefined ? wanted : { ...wanted, note: withoutHidden(wanted.note) };
}

function tagged(reply: FastifyReply, { rule, revision }: TaggedRule) {
  reply.header("etag", entityTag(revision));
  return rule;
}

const refusals: Readonly<Record<ControlRefusal, { readonly status: number; readonly message: string }>> = {
  unacceptable: { status: 400, message: "Bad Request" },
  absent: { status: 404, message: "Not Found" },
  conflict: { status: 409, message: "Conflict" },
  full: { status: 409, message: "Conflict" },
  mismatch: { status: 412, message: "Precondition Failed" },
};

type ErrorAnswer = Static<typeof schemas.ErrorAnswer>;

function resultOf<T>(reply: FastifyReply, outcome: ControlResult<T>): T | ErrorAnswer {
  return outcome.ok ? outcome.value : refuseFor(reply, outcome);
}

function refuseFor(reply: FastifyReply, { why, details }: Extract<ControlResult<unknown>, { ok: false }>): ErrorAnswer {
  const { status, message } = refusals[why];
  reply.code(status);
  return { message, errors: details.map((errMsg) => ({ errMsg })) };
}

function refuse(reply: FastifyReply, { status, message, errMsg }: AdminError): ErrorAnswer {
  reply.code(status);
  return { message, errors: [{ errMsg }] };
}

function auditOf({ id, method, url }: FastifyRequest, { name, peer }: AdminCaller) {
  return { id, caller: name, peer, call: `${method} ${url.slice(0, maxLoggedUrl)}` };
}

const maxLoggedUrl = 512;
