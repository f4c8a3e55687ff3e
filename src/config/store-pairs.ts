// Finds what is contradictory in `counters.store` and `counters.redis`.
import type { Refuse } from "./contradictions.ts";
import { differences } from "./differences.ts";
import { type Raw, rawAt } from "./raw.ts";
import type { ParsedConfig } from "./schema.ts";

type StoreValues = ParsedConfig["counters"]["redis"];

/** How the place of the store can be written. */
const placeKeys = ["url", "sentinels", "cluster"] as const;

export function judgeStore({ counters: { store, redis } }: ParsedConfig, raw: Raw | undefined, refuse: Refuse): void {
  if (store === "memory") {
    judgeUnused(raw, refuse);
    return;
  }
  judgePlace(redis, refuse);
  judgeSentinels(redis, refuse);
  judgeUser(redis, refuse);
  judgeTls(redis, refuse);
}

/** Values other than the defaults, without a store. The defaults cannot be told from nothing. */
function judgeUnused(raw: Raw | undefined, refuse: Refuse): void {
  // Finding differences takes 5 ms.
  if (rawAt(raw, section.split(".")) === undefined) return;
  const written = differences(undefined, raw).find(({ key }) => key.startsWith(`${section}.`));
  if (written !== undefined)
    refuse("counters.store", `redis, since ${written.key} is set; set it to redis, or remove ${section}`, written.key);
}

function judgePlace(redis: StoreValues, refuse: Refuse): void {
  const given = placeKeys.filter((name) => isGiven(redis, name));
  const keys = placeKeys.map((name) => `${section}.${name}`);
  const [first, ...others] = given;
  if (first === undefined) {
    const expected =
      "where the store is, since counters.store is redis; set this, or counters.redis.sentinels or cluster";
    refuse(`${section}.url`, expected, "counters.store", ...keys);
  }
  for (const other of others) {
    refuse(`${section}.${other}`, `none, since ${section}.${first} is set; remove one of the two`, ...keys);
  }
}

function isGiven({ url, sentinels, cluster }: StoreValues, name: (typeof placeKeys)[number]): boolean {
  switch (name) {
    case "url":
      return url !== null;
    case "sentinels":
      return sentinels.name !== null || sentinels.addresses.length > 0;
    case "cluster":
      return cluster.length > 0;
  }
}

function judgeSentinels({ sentinels: { name, addresses } }: StoreValues, refuse: Refuse): void {
  const [nameKey, addressesKey] = [`${section}.sentinels.name`, `${section}.sentinels.addresses`];
  if (name === null && addresses.length > 0) {
    refuse(nameKey, `the name of the primary, since ${addressesKey} is set`, addressesKey);
  }
  if (name !== null && addresses.length === 0) {
    refuse(addressesKey, `at least one address, since ${nameKey} is set`, nameKey);
  }
}

/** Without a password the gateway would be the default user. */
function judgeUser({ username, passwordFile }: StoreValues, refuse: Refuse): void {
  const userKey = `${section}.username`;
  if (username === null || passwordFile !== null) return;
  refuse(
    `${section}.passwordFile`,
    `the path of a file, since ${userKey} is set; name it, or remove ${userKey}`,
    userKey,
  );
}

function judgeTls({ url, tls }: StoreValues, refuse: Refuse): void {
  const key = (name: string): string => `${section}.tls.${name}`;
  const urlKey = `${section}.url`;
  if (url !== null && tls.enabled) {
    const expected = `false, since the scheme of ${urlKey} says it; remove it, and begin the URL with rediss:// for TLS`;
    refuse(key("enabled"), expected, urlKey);
  }
  if (!(url === null ? tls.enabled : isTlsUrl(url))) {
    const reason =
      url === null
        ? `${key("enabled")} is false; remove it, or set ${key("enabled")} to true`
        : `${urlKey} is not rediss; remove it, or begin ${urlKey} with rediss://`;
    for (const name of ["ca", "serverName", "cert", "key"] as const) {
      if (tls[name] !== null) refuse(key(name), `none, since ${reason}`, urlKey, key("enabled"));
    }
    return;
  }
  for (const [missing, given] of [["cert", "key"] as const, ["key", "cert"] as const]) {
    if (tls[missing] !== null || tls[given] === null) continue;
    refuse(
      key(missing),
      `the path of a file, since ${key(given)} has one; name it, or remove ${key(given)}`,
      key(given),
    );
  }
}

export function isTlsUrl(url: string): boolean {
  return /^rediss:/i.test(url);
}

const section = "counters.redis";
