// Decides who may call the admin API, from the head of a request alone: whether the API exists, then the host that is asked,
// the page that asks, and the token. What a role allows is decided when the call is known. The files of the console need no
// token; the rest holds for them too.
//
// On the Unix socket no token is asked: only the user of the gateway can open it. Host and Origin are checked there too,
// because a socket that is forwarded to a local port (`ssh -L`) can be reached by the pages that its user visits. There the
// host must be a loopback name or one of admin.hosts; programs that name no page send no Origin. Nor does a browser with a
// simple GET of a page, but to loopback and over TLS it says in Sec-Fetch-Site whose page asks (W3C Fetch Metadata).
import { readBearer } from "../core/authentication.ts";
import { type HeaderList, headerValues } from "../core/headers.ts";
import { bracketed, canonicalHost as canonical, type HostPort } from "../core/ip-address.ts";
import { TokenBucket, type TokenRate } from "../core/token-bucket.ts";
import { splitAddress } from "../core/upstream.ts";
import { type AdminIdentity, type AdminTokens, socketCaller } from "./admin-tokens.ts";
import { type AdminError, errors } from "./errors.ts";

/** What a reload replaces. */
export interface AdminAccess {
  /** Null: without the file, the API does not exist over TCP. */
  readonly tokens: { readonly value: AdminTokens } | null;
  /** Hosts with or without a port, as in the configuration; none: loopback names and the listener's own address. */
  readonly hosts: readonly string[];
  /** `admin.host`: a name or an address. */
  readonly listenHost: string;
}

/** How the listener was reached by a connection. */
export interface Reached {
  readonly isUnixSocket: boolean;
  readonly isTls: boolean;
  /** Peers with the same key share a budget for wrong tokens. */
  readonly peerKey: string;
  /** Where the client has connected to; null on the Unix socket. */
  readonly local: HostPort | null;
}

type AccessDecision =
  | { readonly ok: true; readonly identity: AdminIdentity }
  | { readonly ok: false; readonly error: AdminError; readonly fields: Readonly<Record<string, string>> };

export function decideAccess(
  rawHeaders: HeaderList,
  reached: Reached,
  access: AdminAccess,
  guesses: GuessBounds,
): AccessDecision {
  const problem = findForeign(rawHeaders, reached, access);
  if (problem !== null) return refuse(problem);
  // The page of the console is not asked this, because a page of another site may link to it.
  const sites = headerValues(rawHeaders, "sec-fetch-site");
  if (!sites.every((site) => ownSites.includes(site))) return refuse(errors.foreignOrigin);
  const { tokens } = access;
  if (reached.isUnixSocket || tokens === null) return { ok: true, identity: { name: socketCaller, role: "write" } };
  const credential = readBearer(rawHeaders);
  if (credential.kind === "missing") return refuse(errors.unauthorized, challenge);
  // Before the token is looked at, because otherwise a right guess would pass.
  const waitSeconds = guesses.waitSeconds(reached.peerKey);
  if (waitSeconds > 0) return refuse(errors.tooManyGuesses, { "retry-after": `${waitSeconds}` });
  const identity = credential.kind === "token" ? tokens.value.find(credential.token) : null;
  if (identity !== null) return { ok: true, identity };
  guesses.failed(reached.peerKey);
  return refuse(errors.unauthorized, { "www-authenticate": `${challenge["www-authenticate"]}, error="invalid_token"` });
}

/** Why a request is refused whatever its token. Null: it is not. */
export function findForeign(rawHeaders: HeaderList, reached: Reached, access: AdminAccess): AdminError | null {
  if (access.tokens === null && !reached.isUnixSocket) return errors.notFound;
  const named = headerValues(rawHeaders, "host");
  const host = named[0] ?? "";
  if (named.length !== 1 || !isAnswered(host, reached, access)) return errors.misdirected;
  const isForeign = !headerValues(rawHeaders, "origin").every((origin) => isOwn(origin, host, reached));
  return isForeign ? errors.foreignOrigin : null;
}

/** `none`: the address was typed. */
const ownSites = ["same-origin", "none"];

const challenge = { "www-authenticate": 'Bearer realm="headgate admin"' };

function refuse(error: AdminError, fields: Readonly<Record<string, string>> = {}): AccessDecision {
  return { ok: false, error, fields };
}

/** Hosts that no name server can make an address of this machine, whatever the port. */
const loopbackNames = ["localhost", "127.0.0.1", "::1"];

/** `field`: the Host field of the request. A page of a host whose name was changed to our address has its own name there. */
function isAnswered(field: string, { isTls, local }: Reached, { hosts, listenHost }: AdminAccess): boolean {
  const asked = parseHost(field);
  if (asked === null) return false;
  const port = asked.port ?? (isTls ? 443 : 80);
  if (hosts.length > 0 || local === null) {
    const answered = local === null ? [...hosts, ...loopbackNames.map(bracketed)] : hosts;
    return answered.map(parseHost).some((each) => each?.host === asked.host && (each.port ?? port) === port);
  }
  if (loopbackNames.includes(asked.host)) return true;
  return port === local.port && [local.host, listenHost].map(canonical).includes(asked.host);
}

/** Null for a text that is no host. */
function parseHost(text: string): { readonly host: string; readonly port: number | null } | null {
  if (!/^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?$/i.test(text)) return null;
  const { host, port } = splitAddress(text);
  return { host: canonical(host), port };
}

/** A proxy in front may have ended TLS. */
function isOwn(origin: string, host: string, { isTls }: Reached): boolean {
  const schemes = isTls ? ["https"] : ["http", "https"];
  return schemes.some((scheme) => `${scheme}://${host}`.toLowerCase() === origin.toLowerCase());
}

/** A program with an old token tries again each second or so; a person a few times. */
export const guessRate: TokenRate = { burst: 20, perSecond: 0.2 };

/** A bucket takes about 100 bytes. */
export const maxGuessers = 1_000;

interface GuessBounds {
  /** Returns 0, or after how many seconds the peer may try again. */
  waitSeconds(peerKey: string): number;
  /** Counts a wrong token. */
  failed(peerKey: string): void;
}

/**
 * Bounds how many wrong tokens a peer may try on the admin API, and how many checks with a client's token it may send.
 * The memory is bounded: peers beyond the bound share one budget, so that many addresses do not get more guesses by
 * making the gateway forget others.
 */
export class Guesses implements GuessBounds {
  readonly #nowMs: () => number;
  readonly #peers = new Map<string, TokenBucket>();
  readonly #others: TokenBucket;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#others = new TokenBucket(guessRate, nowMs());
  }

  waitSeconds(peerKey: string): number {
    const bucket = this.#peers.get(peerKey) ?? (this.#isFull() ? this.#others : null);
    if (bucket === null) return 0;
    bucket.refill(this.#nowMs());
    return bucket.left >= 1 ? 0 : Math.max(1, Math.ceil((1 - bucket.left) / guessRate.perSecond));
  }

  /** Counts a check with a client's token. Returns as `waitSeconds` does; unless 0, the caller must refuse the check. */
  checked(peerKey: string): number {
    const waitSeconds = this.waitSeconds(peerKey);
    if (waitSeconds === 0) this.failed(peerKey);
    return waitSeconds;
  }

  failed(peerKey: string): void {
    const nowMs = this.#nowMs();
    let bucket = this.#peers.get(peerKey);
    if (bucket === undefined && !this.#isFull()) {
      bucket = new TokenBucket(guessRate, nowMs);
      this.#peers.set(peerKey, bucket);
    }
    const charged = bucket ?? this.#others;
    charged.refill(nowMs);
    charged.take(Math.min(1, Math.max(0, charged.left)));
  }

  /** Forgets those whose buckets are full again, if there are too many. */
  #isFull(): boolean {
    if (this.#peers.size < maxGuessers) return false;
    const nowMs = this.#nowMs();
    for (const [peer, bucket] of this.#peers) {
      bucket.refill(nowMs);
      if (bucket.spent <= 0) this.#peers.delete(peer);
    }
    return this.#peers.size >= maxGuessers;
  }
}
