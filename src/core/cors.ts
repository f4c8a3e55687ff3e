// The origins of web pages that may call the API from a browser (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol).
// Their preflights need no token, because a browser sends none with them, and they may read the gateway's own responses.
import { type HeaderList, headerValues } from "./header-list.ts";
import type { MessageHead, MessageReading } from "./message-check.ts";
import { hasMethodOverride } from "./method-override.ts";

export class AllowedOrigins {
  readonly #origins: ReadonlySet<string>;

  /** `origins`: as browsers send them, in lower case and without the port that the scheme implies. */
  constructor(origins: readonly string[]) {
    this.#origins = new Set(origins);
  }

  /** Returns the one Origin of a request, in lower case, if it is allowed; null otherwise. */
  find(headers: HeaderList): string | null {
    const values = headerValues(headers, "origin");
    const [origin = ""] = values.length === 1 ? values : [];
    const folded = origin.toLowerCase();
    return this.#origins.has(folded) ? folded : null;
  }

  /**
   * Returns whether the request passes without a token. It must have nothing that a browser's preflight lacks: with a
   * body, an Upgrade or another method in a header it could do more than ask, and an Authorization has to be checked.
   */
  isPreflight({ method, rawHeaders }: MessageHead, { contentLength, asksToUpgrade }: MessageReading): boolean {
    if (method !== "OPTIONS" || contentLength !== 0 || asksToUpgrade || this.find(rawHeaders) === null) return false;
    const asked = headerValues(rawHeaders, "access-control-request-method");
    if (asked.length !== 1 || asked[0] === "" || hasMethodOverride(rawHeaders)) return false;
    return headerValues(rawHeaders, "authorization").length === 0;
  }
}
