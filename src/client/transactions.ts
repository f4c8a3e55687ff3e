// The only listing with a documented shape: GET /v2/transactions. Only the field `date` of a record is documented; the
// others are typed as unknown.
import { httpUrl } from "./address.ts";
import { isObject } from "./api-error.ts";
import { type Listing, type PaginateOptions, paginate } from "./paginate.ts";

export interface Transaction {
  /** YYYY-MM-DD. */
  readonly date: string;
  readonly [field: string]: unknown;
}

export interface TransactionsOptions
  extends Pick<PaginateOptions<Transaction>, "token" | "limit" | "offset" | "fetch" | "signal"> {
  /** The URL before /v2/transactions, with a path or without. */
  readonly baseUrl: string | URL;
  /** YYYY-MM-DD, inclusive or not as the server decides. */
  readonly startDate?: string | undefined;
  readonly endDate?: string | undefined;
  /** Query parameters for filters that the API does not document. Undefined values are omitted. */
  readonly filters?: Readonly<Record<string, string | number | boolean | undefined>> | undefined;
}

/** Rejects and throws as `paginate` does. */
export function listTransactions(options: TransactionsOptions): Listing<Transaction> {
  const { baseUrl, startDate, endDate, filters, ...rest } = options;
  return paginate({
    ...rest,
    url: address(baseUrl, { start_date: startDate, end_date: endDate, ...filters }),
    member: "transactions",
    isItem: isTransaction,
  });
}

function address(baseUrl: string | URL, query: NonNullable<TransactionsOptions["filters"]>): URL {
  const url = httpUrl("baseUrl", baseUrl);
  // Appended as text, because resolving an absolute path would drop the path of the base.
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/v2/transactions`;
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  return url;
}

function isTransaction(item: unknown): item is Transaction {
  if (!isObject(item)) return false;
  const { date } = item;
  return typeof date === "string";
}
