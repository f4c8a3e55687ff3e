// How the simulated clients of the demo behave, all in one table. Together they send at most 30 requests a second.

export interface Habit {
  readonly name: string;
  /** Its own, on loopback, so that the gateway tells the clients apart. */
  readonly address: string;
  /** What it asks for, and with which token. */
  readonly path: string;
  readonly token: string;
  /** So many requests, one after the other, with a gap behind each; then a pause. */
  readonly requests: number;
  readonly gapMs: number;
  readonly pauseMs: number;
  /** It uses the client library, which waits after a 429 and tries again. The others take a 429 for an answer. */
  readonly waitsWhenRefused: boolean;
  /** For people. */
  readonly does: string;
}

/** The name of a token that the gateway of the demo lists. Its override admits more than other tokens have. */
export const partner = "partner";

export const habits: readonly Habit[] = [
  {
    name: "steady",
    address: "127.0.1.11",
    path: "/v2/me",
    token: "steady",
    requests: 1,
    gapMs: 1000,
    pauseMs: 0,
    waitsWhenRefused: false,
    does: "1 request a second; never refused",
  },
  {
    name: "bursts",
    address: "127.0.1.12",
    path: "/v2/categories",
    token: "bursts",
    requests: 60,
    gapMs: 100,
    pauseMs: 24_000,
    waitsWhenRefused: false,
    does: "60 requests in 6 seconds, twice a minute; the second burst is too much",
  },
  {
    name: "scraper",
    address: "127.0.1.13",
    path: "/v2/transactions?limit=50",
    token: "scraper",
    requests: 1,
    gapMs: 100,
    pauseMs: 0,
    waitsWhenRefused: false,
    does: "10 requests a second, and ignores Retry-After; mostly refused",
  },
  {
    name: "partner",
    address: "127.0.1.14",
    path: "/v1/transactions?limit=10",
    token: partner,
    requests: 1,
    gapMs: 250,
    pauseMs: 0,
    waitsWhenRefused: false,
    does: "4 requests a second to /v1/, with a listed token; its limit is 600",
  },
  {
    name: "reader",
    address: "127.0.1.15",
    path: "/v2/transactions?limit=20",
    token: "reader",
    requests: 1,
    gapMs: 400,
    pauseMs: 0,
    waitsWhenRefused: true,
    does: "2 pages a second with headgate/client, which waits for Retry-After; loses nothing",
  },
];
