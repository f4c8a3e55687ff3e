// Parses the parameters of a transaction listing. Defaults follow the specification: 1000 records from the start of the result
// set, and no filter. start_date and end_date are inclusive, and each may be used alone.
import type { ErrorDetail } from "./answers.ts";
import { maxId, QueryReader } from "./validation.ts";

export interface TransactionQuery {
  readonly limit: number;
  readonly offset: number;
  readonly startDate: string | null;
  readonly endDate: string | null;
  /** 0 means "in no manual account". */
  readonly manualAccountId: number | null;
  /** 0 means "in no plaid account". */
  readonly plaidAccountId: number | null;
  /** A group selects its children too; 0 means "uncategorized". */
  readonly categoryId: number | null;
  readonly tagId: number | null;
  readonly status: "reviewed" | "unreviewed" | "delete_pending" | null;
  readonly isPending: boolean | null;
  /** Inclusive, so that a client that asks from the time of its last request misses nothing. */
  readonly createdSince: string | null;
  readonly updatedSince: string | null;
}

export type ParseResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly errors: ErrorDetail[] };

export function parseTransactionQuery(parameters: URLSearchParams): ParseResult<TransactionQuery> {
  const reader = new QueryReader(parameters);
  const value: TransactionQuery = {
    ...readPage(reader),
    manualAccountId: reader.integer("manual_account_id", 0, maxId),
    plaidAccountId: reader.integer("plaid_account_id", 0, maxId),
    categoryId: reader.integer("category_id", 0, maxId),
    tagId: reader.integer("tag_id", 1, maxId),
    status: reader.oneOf("status", ["reviewed", "unreviewed", "delete_pending"]),
    isPending: reader.boolean("is_pending"),
    createdSince: reader.timestamp("created_since"),
    updatedSince: reader.timestamp("updated_since"),
  };
  return parsed(reader, value);
}

/** The first version of the listing has the same page and date range, and no other filter. */
export function parseV1TransactionQuery(parameters: URLSearchParams): ParseResult<TransactionQuery> {
  const reader = new QueryReader(parameters);
  return parsed(reader, { ...noFilter, ...readPage(reader) });
}

function readPage(reader: QueryReader): Pick<TransactionQuery, "limit" | "offset" | "startDate" | "endDate"> {
  const page = {
    limit: reader.integer("limit", 1, 2000) ?? 1000,
    offset: reader.integer("offset", 0, Number.MAX_SAFE_INTEGER) ?? 0,
    startDate: reader.date("start_date"),
    endDate: reader.date("end_date"),
  };
  if (page.startDate !== null && page.endDate !== null && page.startDate > page.endDate) {
    reader.refuse("start_date", "start_date must not be after end_date.");
  }
  return page;
}

function parsed<T>(reader: QueryReader, value: T): ParseResult<T> {
  return reader.errors.length === 0 ? { ok: true, value } : { ok: false, errors: reader.errors };
}

const noFilter = {
  manualAccountId: null,
  plaidAccountId: null,
  categoryId: null,
  tagId: null,
  status: null,
  isPending: null,
  createdSince: null,
  updatedSince: null,
} as const;
