// The counters, which all policies share: their memory, their snapshot, and the store that several gateways share.
import type { HostPort } from "../core/ip-address.ts";
import type { Policy } from "../core/policy.ts";
import type { Settings } from "../core/settings.ts";
import { onFailureModes, type StoreConnectionSettings, type StoreUser } from "../core/store-link.ts";
import { splitAddress } from "../core/upstream.ts";
import { parseAddress } from "./addresses.ts";
import { type Parsed, section, shownIfWritten, type WordsOfOthers } from "./definition.ts";
import { differences } from "./effective.ts";
import {
  addressList,
  choice,
  duration,
  filePath,
  flag,
  orAuto,
  orNull,
  parseDuration,
  size,
  text,
  wholeNumber,
} from "./leaves.ts";
import { outboundTls, validateOutboundTls } from "./upstream.ts";
import { type Raw, type Refuse, rawAt } from "./written.ts";

const wordsForStore: WordsOfOthers = {
  "host port hostname address addr endpoint uri nodes server servers": ["url", "cluster"],
  "sentinel master masterName sentinelMaster": ["sentinels.name"],
  "clusterNodes clusterAddresses": ["cluster"],
  "user login": ["username"],
  "password pass auth secret credentials": ["passwordFile"],
  "database db": ["url"],
  ssl: ["tls"],
  "namespace keyPrefix": ["prefix"],
  "timeout commandTimeout socketTimeout": ["wait"],
  "failOpen failClosed faultTolerant failureMode failureModeDeny skipOnError": ["onFailure"],
  "gateways instances": ["replicas"],
};

/** `where`: whom the user is known to. `otherwise`: what no password means. */
const userOf = (where: string, otherwise = "") => ({
  username: orNull(
    text("", { expected: "the name of a user, without blanks", pattern: "^[!-~]{1,128}$" })(
      `User of the ${where} (ACL); null is the default user.`,
    ),
  ),
  passwordFile: filePath(`File with the password in one line; it is read again at each connection${otherwise}.`),
});

const withoutPassword = "without user, password and query: username and passwordFile are keys of their own";

const url = text("redis://127.0.0.1:6379", {
  expected:
    'a redis:// or rediss:// URL such as "redis://127.0.0.1:6379/0", with host, port and number of the database',
  json: { format: "uri" },
  pattern: "^[rR][eE][dD][iI][sS]{1,2}://([^\\s\\\\/@?#]+)(/([0-9]{1,5})?)?$",
  parse: (url) => (parseAddress(authorityOf(url)) === undefined ? undefined : url),
})("URL of the only server, or of the primary; rediss:// is TLS. Without a port, 6379; without a database, 0.");

const redis = section(
  "Redis or Valkey, for store: redis. One of url, sentinels and cluster says where it is.",
  {
    url: orNull({
      ...url,
      hint: (value) =>
        typeof value === "string" && /[@?]/.test(value) ? `a URL ${withoutPassword}` : url.hint?.(value),
    }),
    sentinels: section("Sentinels, which know the primary.", {
      name: orNull(
        text("", {
          expected: "the name of a primary, of letters, digits, ., _ and -",
          pattern: "^[A-Za-z0-9._-]{1,128}$",
        })('Name of the primary, as the sentinels know it, such as "mymaster".'),
      ),
      addresses: addressList({ items: "sentinels", port: 6379 })("Addresses of sentinels; without a port, 26379."),
      ...userOf("sentinels", "; null: the password of the store"),
    }),
    cluster: addressList({ items: "servers", port: 6379 })(
      "Addresses of some servers of a cluster, which name the others; without a port, 6379.",
    ),
    ...userOf("store"),
    tls: section("TLS to the store.", {
      enabled: flag(false)("Use TLS to sentinels or a cluster and what they name; a URL says it by its scheme."),
      ...outboundTls("store", "the host of each address"),
    }),
    prefix: text("headgate:", {
      expected: "1 to 64 printable ASCII characters without braces and blanks",
      pattern: "^[!-z|~]{1,64}$",
    })("Begins the name of each key in the store. Gateways with the same prefix share their limits."),
    wait: orAuto(
      duration("1s", { from: "1ms", to: "1s" })(
        "Maximum time that a request waits for the store; auto is a 50th of the shortest window, from 10ms to 50ms.",
      ),
    ),
    lease: section("Limits of 1000 and more: quota that a gateway takes from the store ahead of requests.", {
      duration: duration("1s", { from: "100ms", to: "10s" })(
        "Maximum time for which a gateway keeps it; a 50th of the window if that is shorter.",
      ),
      most: wholeNumber(1000, { from: 1, to: 100_000 })("Maximum quota that a thread takes of one key at once."),
    }),
    onFailure: choice(
      "local",
      onFailureModes,
    )("While the store is away, local divides the limit by replicas, open admits all, closed responds 503."),
    replicas: orAuto(
      wholeNumber(1, { from: 1, to: 10_000 })(
        "Gateways that share the store, for onFailure: local; auto counts those in the store's list.",
      ),
    ),
    maxKeys: wholeNumber(1_000_000, { from: 1000, to: 100_000_000 })(
      "Unexpired keys of a policy that one gateway has made; beyond it, new clients are counted with their network.",
    ),
  },
  wordsForStore,
);

const defaultSnapshotEvery = "30s";

export const counters = section("The counters of all policies, in one table.", {
  memory: size("32MiB", { from: "1MiB", to: "4GiB" })(
    "Memory of the table. When it is full, keys that have used the least are forgotten, exhausted ones never.",
  ),
  snapshot: section("A file from which a restart takes over the counters.", {
    path: filePath("The file, in a folder where the gateway may create and rename files; null keeps no snapshot."),
    every: duration(defaultSnapshotEvery, { from: "1s", to: "1h" })(
      "Time between two snapshots; a crash loses what was counted since the last one. A drain writes one, too.",
    ),
  }),
  store: choice("memory", ["memory", "redis"])(
    "memory: each gateway counts for itself. redis: gateways share one limit through Redis or Valkey.",
  ),
  redis: shownIfWritten(redis),
});

type CountersValues = Parsed<typeof counters>;
type StoreValues = Parsed<typeof redis>;

/** Refuses an interval without a path, unless it is the default: nobody can tell that one from none. */
export function validateSnapshot({ snapshot }: CountersValues, refuse: Refuse): void {
  if (snapshot.path !== null || snapshot.everyMs === parseDuration(defaultSnapshotEvery)) return;
  const every = "counters.snapshot.every";
  refuse("counters.snapshot.path", `the path of a file, since ${every} is set; name one, or remove ${every}`, every);
}

const at = "counters.redis";

export function validateStore({ store, redis }: CountersValues, raw: Raw | undefined, refuse: Refuse): void {
  if (store === "memory") {
    validateUnused(rawAt(raw, at.split(".")), refuse);
    return;
  }
  validateAddresses(redis, refuse);
  validateSentinels(redis, refuse);
  validateUser(at, redis, refuse);
  validateStoreTls(redis, refuse);
}

/** Refuses values for a store that is not used, unless they are the defaults: nobody can tell those from none. */
function validateUnused(written: Raw | undefined, refuse: Refuse): void {
  const [first] = written === undefined ? [] : differences(redis, undefined, written);
  if (first === undefined) return;
  const key = `${at}.${first.key}`;
  refuse("counters.store", `redis, since ${key} is set; set it to redis, or remove ${at}`, key);
}

/** One of three keys says where the store is. */
function validateAddresses({ url, sentinels, cluster }: StoreValues, refuse: Refuse): void {
  const given = {
    url: url !== null,
    sentinels: sentinels.addresses.length > 0 || [sentinels.name, sentinels.passwordFile].some((each) => each !== null),
    cluster: cluster.length > 0,
  };
  const keys = Object.keys(given).map((name) => `${at}.${name}`);
  const [first, ...others] = Object.entries(given).flatMap(([name, isGiven]) => (isGiven ? [`${at}.${name}`] : []));
  if (first === undefined) {
    const expected =
      "where the store is, since counters.store is redis; set this, or counters.redis.sentinels or cluster";
    refuse(`${at}.url`, expected, "counters.store", ...keys);
  }
  for (const other of others) refuse(other, `none, since ${first} is set; remove one of the two`, ...keys);
}

function validateSentinels({ sentinels }: StoreValues, refuse: Refuse): void {
  const { name, addresses, passwordFile } = sentinels;
  const [nameKey, addressesKey] = [`${at}.sentinels.name`, `${at}.sentinels.addresses`];
  if (name === null && (addresses.length > 0 || passwordFile !== null)) {
    const given = addresses.length > 0 ? addressesKey : `${at}.sentinels.passwordFile`;
    refuse(nameKey, `the name of the primary, since ${given} is set`, given);
  }
  validateUser(`${at}.sentinels`, sentinels, refuse);
  if (name !== null && addresses.length === 0) {
    refuse(addressesKey, `at least one address, since ${nameKey} is set`, nameKey);
  }
}

/** Without a password the gateway would be the default user. */
function validateUser(section: string, { username, passwordFile }: StoreUser, refuse: Refuse): void {
  const userKey = `${section}.username`;
  if (username === null || passwordFile !== null) return;
  const expected = `the path of a file, since ${userKey} is set; name it, or remove ${userKey}`;
  refuse(`${section}.passwordFile`, expected, userKey);
}

function validateStoreTls({ url, tls }: StoreValues, refuse: Refuse): void {
  const [urlKey, enabledKey] = [`${at}.url`, `${at}.tls.enabled`];
  if (url !== null && tls.enabled) {
    const expected = `false, since the scheme of ${urlKey} says it; remove it, and begin the URL with rediss:// for TLS`;
    refuse(enabledKey, expected, urlKey);
  }
  const reason =
    url === null
      ? `${enabledKey} is false; remove it, or set ${enabledKey} to true`
      : `${urlKey} is not rediss; remove it, or begin ${urlKey} with rediss://`;
  validateOutboundTls(`${at}.tls`, tls, hasTls(url, tls) ? null : reason, [urlKey, enabledKey], refuse);
}

/** A URL says it by its scheme. */
function hasTls(url: string | null, { enabled }: StoreValues["tls"]): boolean {
  return url === null ? enabled : /^rediss:/i.test(url);
}

const serverPort = 6379;
const sentinelPort = 26_379;

/** The values must not contradict each other. */
export function toStore(values: StoreValues, policies: readonly Policy[]): NonNullable<Settings["counters"]["redis"]> {
  const { url, username, passwordFile, tls, prefix, lease, onFailure, replicas, maxKeys } = values;
  const waitMs = values.waitMs === "auto" ? autoWaitMs(policies) : values.waitMs;
  const { ca: caFile, cert: certFile, key: keyFile, serverName } = tls;
  return {
    connection: {
      servers: serversOf(values),
      database: url === null ? 0 : Number(/\/(\d+)$/.exec(url)?.[1] ?? 0),
      username,
      passwordFile,
      tls: hasTls(url, tls) ? { caFile, certFile, keyFile, serverName } : null,
    },
    store: { prefix, waitMs, lease, onFailure, replicas, maxKeys },
  };
}

/** A longer wait is more exact, because later answers are not used; but it must be short beside each window. */
function autoWaitMs(policies: readonly Policy[]): number {
  const windows = policies.flatMap(({ rate }) => (rate.kind === "sliding" ? [rate.windowMs] : []));
  return Math.max(10, Math.min(50, Math.floor(Math.min(...windows) / 50)));
}

function serversOf({ url, sentinels, cluster, passwordFile }: StoreValues): StoreConnectionSettings["servers"] {
  if (url !== null) return { kind: "one", address: hostPortOf(authorityOf(url), serverPort) };
  if (sentinels.name === null) return { kind: "cluster", addresses: cluster.map((one) => hostPortOf(one, serverPort)) };
  const addresses = sentinels.addresses.map((address) => hostPortOf(address, sentinelPort));
  // A sentinel has users of its own, so the name of the store's is none of its.
  const user = { username: sentinels.username, passwordFile: sentinels.passwordFile ?? passwordFile };
  return { kind: "sentinels", name: sentinels.name, addresses, user };
}

function authorityOf(url: string): string {
  return url.split("/")[2] ?? "";
}

function hostPortOf(address: string, defaultPort: number): HostPort {
  const { host, port } = splitAddress(address);
  return { host, port: port ?? defaultPort };
}
