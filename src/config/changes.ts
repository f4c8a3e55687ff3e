// What a reload from one configuration to another changes: the keys whose values differ, those that need a restart, those
// that give up protection, and the policies that start empty.
import { isDeepStrictEqual } from "node:util";
import { type AuthDemand, type AuthDemands, type AuthRule, authModes } from "../core/authentication.ts";
import { isContinued, type Policy } from "../core/policy.ts";
import type { ExtAuthListenerSettings, Settings } from "../core/settings.ts";
import { type Raw, rawAt } from "./written.ts";

/** Dotted, such as `upstream.url`; a policy by its name, as in `policies.per-ip`. */
export function changedKeys(before: Settings, after: Settings): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((key) => {
    const [old, now] = [before[key as keyof Settings], after[key as keyof Settings]];
    return key === "policies" ? changedPolicies(before, after) : differing(old, now, key);
  });
}

function changedPolicies({ policies: before }: Settings, { policies: after }: Settings): string[] {
  const names = [...new Set([...before, ...after].map(({ name }) => name))];
  const changed = names.filter((name) => {
    const [old, now] = [before, after].map((policies) => policies.find((policy) => policy.name === name));
    return !isDeepStrictEqual(old, now);
  });
  if (changed.length > 0 || isDeepStrictEqual(before, after)) return changed.map((name) => `policies.${name}`);
  // Only their order is another.
  return ["policies"];
}

function differing(old: unknown, now: unknown, key: string): string[] {
  if (isDeepStrictEqual(old, now)) return [];
  if (!isSection(old) || !isSection(now)) return [key.replace(/Ms$/, "")];
  return [...new Set([...Object.keys(old), ...Object.keys(now)])].flatMap((name) =>
    differing(old[name], now[name], `${key}.${name}`),
  );
}

function isSection(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

interface WithoutRestart {
  /** The wanted settings, with the values in force of what needs a restart. */
  readonly settings: Settings;
  /** The keys whose wanted values need a restart, as in the configuration. */
  readonly keys: readonly string[];
}

/** A reload cannot change where listeners are, and what is allocated once: old values stay in force until a restart. */
export function withoutRestart(wanted: Settings, inForce: Settings): WithoutRestart {
  const [now, next] = [fixedValues(inForce), fixedValues(wanted)];
  const keys = Object.keys(now).filter((key) => {
    const values = [now[key], next[key]];
    return !values.includes(undefined) && !isDeepStrictEqual(values[0], values[1]);
  });
  const { listen, admin, extAuth } = wanted;
  const { host, port, proxyProtocol, tls } = inForce.listen;
  const settings: Settings = {
    ...wanted,
    listen: { ...listen, host, port, proxyProtocol, tls: tls === null ? null : (listen.tls ?? tls) },
    admin: {
      ...admin,
      ...{ host: inForce.admin.host, port: inForce.admin.port, socket: inForce.admin.socket },
      tls: inForce.admin.tls === null ? null : (admin.tls ?? inForce.admin.tls),
    },
    extAuth: {
      ...extAuth,
      http: keptInPlace(extAuth.http, inForce.extAuth.http),
      grpc: keptInPlace(extAuth.grpc, inForce.extAuth.grpc),
    },
    counters: inForce.counters,
    workers: inForce.workers,
  };
  return { settings, keys };
}

function keptInPlace(wanted: ExtAuthListenerSettings | null, inForce: ExtAuthListenerSettings | null) {
  return wanted === null || inForce === null ? inForce : { ...wanted, host: inForce.host, port: inForce.port };
}

/** By the keys of the configuration. Undefined: the key says nothing, since another one turns off what it is about. */
function fixedValues({ listen, admin, extAuth, counters, workers }: Settings): Readonly<Record<string, unknown>> {
  const { http, grpc } = extAuth;
  const { snapshot, redis } = counters;
  const store = redis === null ? {} : storeValues(redis);
  return {
    "listen.tls.cert": listen.tls !== null,
    "listen.host": listen.host,
    "listen.port": listen.port,
    "listen.proxyProtocol": listen.proxyProtocol,
    "admin.host": admin.host,
    "admin.port": admin.port,
    "admin.socket": admin.socket,
    "admin.tls.cert": admin.tls !== null,
    "extAuth.http.enabled": http !== null,
    "extAuth.http.host": http?.host,
    "extAuth.http.port": http?.port,
    "extAuth.grpc.enabled": grpc !== null,
    "extAuth.grpc.host": grpc?.host,
    "extAuth.grpc.port": grpc?.port,
    "counters.memory": counters.memoryBytes,
    "counters.snapshot.path": snapshot?.path ?? null,
    "counters.snapshot.every": snapshot?.everyMs,
    "counters.store": redis !== null,
    ...Object.fromEntries(Object.entries(store).map(([key, value]) => [`counters.redis.${key}`, value])),
    workers,
  };
}

type StoreSettings = NonNullable<Settings["counters"]["redis"]>;

function storeValues({ connection, store }: StoreSettings): Readonly<Record<string, unknown>> {
  const { servers, database, username, passwordFile, tls } = connection;
  const isUrl = servers.kind === "one";
  const sentinels = servers.kind === "sentinels" ? servers : null;
  return {
    url: isUrl ? [servers.address.host, servers.address.port, database, tls !== null] : null,
    "sentinels.name": sentinels?.name ?? null,
    "sentinels.addresses": sentinels?.addresses ?? [],
    "sentinels.username": sentinels?.user.username ?? null,
    "sentinels.passwordFile":
      sentinels && sentinels.user.passwordFile !== passwordFile ? sentinels.user.passwordFile : null,
    cluster: servers.kind === "cluster" ? servers.addresses : [],
    username,
    passwordFile,
    "tls.enabled": !isUrl && tls !== null,
    "tls.ca": tls?.caFile ?? null,
    "tls.serverName": tls?.serverName ?? null,
    "tls.cert": tls?.certFile ?? null,
    "tls.key": tls?.keyFile ?? null,
    prefix: store.prefix,
    wait: store.waitMs,
    "lease.duration": store.lease.durationMs,
    "lease.most": store.lease.most,
    onFailure: store.onFailure,
    replicas: store.replicas,
    maxKeys: store.maxKeys,
  };
}

/** The policies that start empty, because there was none with their name, kind and key. */
export function emptyPolicies(policies: readonly Policy[], before: readonly Policy[]): string[] {
  return policies.filter((policy) => !before.some((other) => isContinued(policy, other))).map(({ name }) => name);
}

/** Settings, with the values as they were written; null: a program passed them. */
interface SettingsAsWritten {
  readonly settings: Settings;
  readonly raw: { readonly root: Raw | undefined } | null;
}

/**
 * `auth.mode` and `auth.rules`, if they ask for less; `policies`, if there is no list any more, so that the one default
 * policy applies.
 */
export function loosenedKeys(before: SettingsAsWritten, after: SettingsAsWritten): string[] {
  const [old, now] = [before.settings.auth, after.settings.auth];
  const isListGone = after.raw !== null && hasPolicies(before) && !hasPolicies(after);
  return [
    ...(asksForLess(modeOf(now), modeOf(old)) ? ["auth.mode"] : []),
    ...(rulesAskForLess(now, old) ? ["auth.rules"] : []),
    ...(isListGone ? ["policies"] : []),
  ];
}

function modeOf({ mode }: AuthDemands): AuthDemand {
  return { mode, scopes: [] };
}

function asksForLess(one: AuthDemand, other: AuthDemand): boolean {
  const isWeaker = authModes.indexOf(one.mode) < authModes.indexOf(other.mode);
  return isWeaker || other.scopes.some((scope) => !one.scopes.includes(scope));
}

/** Whether a new rule asks for less than the mode before, or one is gone that asked for more than the mode does now. */
function rulesAskForLess(now: AuthDemands, old: AuthDemands): boolean {
  const isIn = (rules: readonly AuthRule[], rule: AuthRule): boolean =>
    rules.some((other) => isDeepStrictEqual(other, rule));
  return (
    now.rules.some((rule) => asksForLess(rule, modeOf(old)) && !isIn(old.rules, rule)) ||
    old.rules.some((rule) => asksForLess(modeOf(now), rule) && !isIn(now.rules, rule))
  );
}

function hasPolicies({ raw }: SettingsAsWritten): boolean {
  return rawAt(raw?.root, ["policies"])?.kind === "list";
}
