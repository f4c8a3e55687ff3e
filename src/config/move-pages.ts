// Which page of docs/move/ maps a word of another rate limiter to the keys of this configuration. A test holds that the page
// has the word.

/** Words by page. README is for the words of several products: its table leads to the page of each. */
export const wordsByPage: Readonly<Record<string, string>> = {
  README: "rate burst rateLimit zone max keyGenerator",
  nginx: "limitReqZone limitReq limitReqDryRun limitReqStatus limitConn delay nodelay",
  "ingress-nginx": "limitRps limitRpm limitConnections limitWhitelist",
  haproxy: "stickTable expire connCur httpReqRate denyStatus",
  envoy:
    "tokenBucket maxTokens tokensPerFill fillInterval requestsPerUnit unit descriptors shadowMode hitsAddend requestHeaders",
  kong: "second minute hour day month limitBy headerName plugins errorCode errorMessage hideClientHeaders",
  traefik: "average period sourceCriterion inFlightReq middlewares",
  caddy: "events",
  "express-rate-limit":
    "windowMs skip skipFailedRequests skipSuccessfulRequests standardHeaders legacyHeaders statusCode message handler",
  fastify: "timeWindow allowList ban",
};

const pages = new Map(
  Object.entries(wordsByPage).flatMap(([page, words]) => words.split(" ").map((word) => [fold(word), page] as const)),
);

/** The path of the page in the repository and in the package. */
export function movePageOf(word: string): string | undefined {
  const page = pages.get(fold(word));
  return page === undefined ? undefined : `docs/move/${page}.md`;
}

/** Equal for all spellings of a word: `tokenBucket`, `token_bucket`, `token-bucket`. */
export function fold(word: string): string {
  return word.toLowerCase().replaceAll(/[_-]/g, "");
}
