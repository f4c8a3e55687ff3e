// Reads a listing page by page, as the API specifies: the offset grows by the limit until has_more is false. A page is
// requested only when it is needed, so a loop may end early. A listing that contradicts itself causes an error, never
// an endless loop or repeated records.
import { httpUrl } from "./address.ts";
import { ApiError, isObject, parsed, refusal } from "./api-error.ts";
import { createRetryingFetch } from "./retrying-fetch.ts";
import { checkToken } from "./token.ts";

export interface PaginateOptions<T> {
  /** The listing's address. Its query is kept; `limit` and `offset` in it are replaced. */
  readonly url: string | URL;
  /** The bearer token. */
  readonly token: string;
  /** The member of the body with the records, such as "transactions". */
  readonly member: string;
  /** Returns whether a value is a record. The first one that is not ends the iteration with an error. */
  readonly isItem: (item: unknown) => item is T;
  /** Records per page. Default 1,000. */
  readonly limit?: number | undefined;
  /** How many records to skip. Default 0. */
  readonly offset?: number | undefined;
  /** Default: createRetryingFetch(). */
  readonly fetch?: typeof fetch | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly offset: number;
  readonly hasMore: boolean;
}

/** Iterates over the records, `pages()` over the pages. Each iteration reads the listing again. */
export interface Listing<T> extends AsyncIterable<T> {
  pages(): AsyncGenerator<Page<T>, void, undefined>;
  [Symbol.asyncIterator](): AsyncGenerator<T, void, undefined>;
}

/**
 * Iterating rejects with ApiError for a refusal or a broken page, with the signal's reason when aborted, and with what
 * fetch rejects with when the connection fails.
 * @throws RangeError or TypeError naming the option, at once, before any request
 */
export function paginate<T>(options: PaginateOptions<T>): Listing<T> {
  const request = checked(options);
  return {
    pages: () => pages(request),
    [Symbol.asyncIterator]: () => records(request),
  };
}

type Walk<T> = ReturnType<typeof checked<T>>;

async function* records<T>(walk: Walk<T>): AsyncGenerator<T, void, undefined> {
  for await (const page of pages(walk)) {
    for (const item of page.items) {
      walk.signal?.throwIfAborted();
      yield item;
    }
  }
}

async function* pages<T>(walk: Walk<T>): AsyncGenerator<Page<T>, void, undefined> {
  let hasMore = true;
  // The step is the limit, not the number of records received: by the API, any other step skips or repeats records.
  for (let offset = walk.offset; hasMore; offset += walk.limit) {
    const page = await load(walk, offset);
    yield page;
    hasMore = page.hasMore;
  }
}

async function load<T>(walk: Walk<T>, offset: number): Promise<Page<T>> {
  walk.signal?.throwIfAborted();
  const url = new URL(walk.url);
  url.searchParams.set("limit", String(walk.limit));
  url.searchParams.set("offset", String(offset));
  const response = await walk.fetch(url, {
    headers: { accept: "application/json", authorization: `Bearer ${walk.token}` },
    signal: walk.signal ?? null,
  });
  const text = await response.text();
  if (!response.ok) throw refusal(response.status, text, walk.token);
  const page = parsePage(walk, offset, text);
  if (typeof page !== "string") return page;
  throw new ApiError(response.status, `The page at offset ${offset} ${page}`);
}

/** Returns the page, or what is wrong with it. */
function parsePage<T>({ member, isItem, limit }: Walk<T>, offset: number, text: string): Page<T> | string {
  const body = parsed(text);
  if (body === undefined) return "is not JSON";
  if (!isObject(body)) return "is not a JSON object";
  const { [member]: items, has_more: hasMore } = body;
  if (!Array.isArray(items)) return `has no array "${member}"`;
  if (typeof hasMore !== "boolean") return 'has no boolean "has_more"';
  const invalidAt = items.findIndex((item) => !isItem(item));
  if (invalidAt >= 0) return `holds at ${member}[${invalidAt}] what is no such record`;
  if (items.length > limit) return `holds ${items.length} records where at most ${limit} were asked for`;
  // Following it would request pages forever.
  if (items.length === 0 && hasMore) return "is empty and says that there are more";
  return { items, offset, hasMore };
}

function checked<T>(options: PaginateOptions<T>) {
  const { token, limit = 1000, offset = 0 } = options;
  checkToken(token);
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw new RangeError(`limit must be an integer of at least 1, not ${limit}`);
  if (!Number.isSafeInteger(offset) || offset < 0)
    throw new RangeError(`offset must be an integer of at least 0, not ${offset}`);
  if (typeof options.isItem !== "function") throw new TypeError("isItem must be a function");
  return { ...options, url: httpUrl("url", options.url), limit, offset, fetch: options.fetch ?? createRetryingFetch() };
}
