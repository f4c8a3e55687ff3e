// headgate/client: the client's side of the API's rules, for Node, Deno and browsers. Uses the platform's fetch, URL
// and AbortSignal, and nothing else of this package.
export { ApiError, type ApiErrorDetail } from "./api-error.ts";
export { type Listing, type Page, type PaginateOptions, paginate } from "./paginate.ts";
export { createRetryingFetch, type RetryingFetchOptions } from "./retrying-fetch.ts";
export type { Sleep } from "./sleep.ts";
export { listTransactions, type Transaction, type TransactionsOptions } from "./transactions.ts";
