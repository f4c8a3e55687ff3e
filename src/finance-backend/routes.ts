// Every path of the API in one table. A request is checked for its token, path and method, in this order, then handled.
// Synchronous, without sockets. A path is matched without decoding, because an id consists of digits.
import type { DatabaseSync } from "node:sqlite";
import * as answers from "./answers.ts";
import { CategoryTree } from "./categories.ts";
import { cryptoAccounts } from "./crypto.ts";
import {
  type ParseResult,
  parseTransactionQuery,
  parseV1TransactionQuery,
  type TransactionQuery,
} from "./transaction-query.ts";
import { type TransactionRow, transactionListing, v2Transaction } from "./transactions.ts";
import { readUser } from "./user.ts";
import { v1Records, v1User } from "./v1.ts";
import { maxId, parseInteger, QueryReader } from "./validation.ts";

export interface ApiRequest {
  readonly method: string;
  /** The request target in origin form. */
  readonly target: string;
  readonly authorization: string | undefined;
  readonly ifNoneMatch: string | undefined;
}

export type Api = (request: ApiRequest) => answers.ApiAnswer;

interface Call {
  readonly query: URLSearchParams;
  /** The unparsed id in the path; empty if the path has none. */
  readonly id: string;
  readonly ifNoneMatch: string | undefined;
}

interface Route {
  readonly path: RegExp;
  readonly method: "GET" | "POST";
  readonly handle: (call: Call) => answers.ApiAnswer;
}

export function createApi(database: DatabaseSync): Api {
  const routes = routeTable(database);
  return (request) => {
    // Any well-formed token is accepted: the gateway decides who may call.
    if (!/^Bearer +[!#-+\--~]+$/i.test(request.authorization ?? "")) return answers.unauthorized;
    const queryAt = request.target.indexOf("?");
    const path = queryAt === -1 ? request.target : request.target.slice(0, queryAt);
    for (const route of routes) {
      const match = route.path.exec(path);
      if (match === null) continue;
      const query = new URLSearchParams(queryAt === -1 ? "" : request.target.slice(queryAt + 1));
      return callRoute(route, request.method, { query, id: match[1] ?? "", ifNoneMatch: request.ifNoneMatch });
    }
    return answers.unknownPath;
  };
}

function routeTable(database: DatabaseSync): readonly Route[] {
  const pageOf = transactionListing(database);
  const v1Record = v1Records(database);
  const categories = new CategoryTree(database);
  const crypto = cryptoAccounts(database);
  const user = readUser(database);
  const list = (query: ParseResult<TransactionQuery>, record: (row: TransactionRow) => unknown): answers.ApiAnswer => {
    if (!query.ok) return answers.validationFailure(query.errors);
    const page = pageOf(query.value);
    return answers.ok({ transactions: page.rows.map(record), has_more: page.hasMore });
  };
  return [
    get(/^\/v2\/transactions$/, ({ query }) => list(parseTransactionQuery(query), v2Transaction)),
    get(/^\/v2\/me$/, () => answers.ok(user)),
    get(/^\/v2\/categories$/, (call) => listCategories(categories, call)),
    get(/^\/v2\/categories\/([^/]+)$/, (call) => oneCategory(categories, call)),
    { path: /^\/v2\/crypto\/synced\/([^/]+)\/refresh$/, method: "POST", handle: (call) => refreshCrypto(crypto, call) },
    get(/^\/v1\/transactions$/, ({ query }) => list(parseV1TransactionQuery(query), v1Record)),
    get(/^\/v1\/me$/, () => answers.ok(v1User(user))),
  ];
}

function callRoute(route: Route, method: string, call: Call): answers.ApiAnswer {
  const allow = route.method === "GET" ? "GET, HEAD, OPTIONS" : `${route.method}, OPTIONS`;
  if (method === "OPTIONS") return answers.allowedMethods(allow);
  // HEAD is handled as GET; the server omits the body and keeps its length.
  if (method !== route.method && !(method === "HEAD" && route.method === "GET")) return answers.methodNotAllowed(allow);
  return route.handle(call);
}

function listCategories(categories: CategoryTree, call: Call): answers.ApiAnswer {
  const reader = new QueryReader(call.query);
  const format = reader.oneOf("format", ["nested", "flattened"]);
  const groups = reader.boolean("is_group");
  if (reader.errors.length > 0) return answers.validationFailure(reader.errors);
  const listed = groups !== null ? categories.atTop(groups) : null;
  const all = listed ?? (format === "flattened" ? categories.flattened() : categories.nested());
  return answers.okOrNotModified({ categories: all }, call.ifNoneMatch);
}

function oneCategory(categories: CategoryTree, call: Call): answers.ApiAnswer {
  const id = parseInteger(call.id, 1, maxId);
  if (id === null) return malformedId;
  const category = categories.find(id);
  if (category === null) return answers.notFound(`There is no category with the id: ${id}.`);
  return answers.okOrNotModified(category, call.ifNoneMatch);
}

function refreshCrypto(crypto: ReturnType<typeof cryptoAccounts>, call: Call): answers.ApiAnswer {
  const id = parseInteger(call.id, 1, maxId);
  if (id === null) return malformedId;
  const account = crypto(id);
  return account === null
    ? answers.notFound(`There is no synced crypto account with the id: ${id}.`)
    : answers.ok(account);
}

function get(path: RegExp, handle: Route["handle"]): Route {
  return { path, method: "GET", handle };
}

const malformedId = answers.validationFailure([
  { errMsg: `id must be an integer from 1 to ${maxId}.`, instancePath: "/path/id" },
]);
