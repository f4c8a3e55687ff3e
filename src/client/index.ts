// headgate/client: paging and retries as the API specifies them for clients, for Node, Deno and browsers. Needs only
// the platform's fetch, URL and AbortSignal.
export { ApiError, type ApiErrorDetail } from "./api-error.ts";
export { type Listing, type Page, type PaginateOptions, paginate } from "./paginate.ts";
export { type PolicyQuota, type Quota, type QuotaOptions, readQuota } from "./quota.ts";
export { createRetryingFetch, type RetryingFetchOptions } from "./retrying-fetch.ts";
export type { Sleep } from "./sleep.ts";
export { listTransactions, type Transaction, type TransactionsOptions } from "./transactions.ts";
