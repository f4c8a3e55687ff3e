// Opens the table of counters: its memory, which other threads can use, and the secrets of its keys. Makes the limiter that
// counts in it.
import { randomBytes, randomInt } from "node:crypto";
import { verifiesTokens } from "../core/authentication.ts";
import type { OutcomeMemory } from "../core/cells.ts";
import type { Clock } from "../core/clock.ts";
import type { Policy } from "../core/policy.ts";
import type { RulesInForce } from "../core/rules-in-force.ts";
import type { Settings } from "../core/settings.ts";
import { PolicyLimiter } from "../limits/limiter.ts";
import type { PolicySlot } from "../limits/policies.ts";
import { gatewayLength } from "../limits/store/script-call.ts";
import type { Store } from "../limits/store/store.ts";
import { CounterTable, createTableMemory } from "../limits/table/counter-table.ts";
import type { TableOptions } from "../limits/table/eviction.ts";
import { policySlots } from "../limits/table/layout.ts";
import { SipHash } from "../limits/table/sip-hash.ts";

/** What all threads of a process share. Can be sent to another thread. */
export interface CounterMemory {
  readonly memory: SharedArrayBuffer;
  /** 16 bytes: decides where keys go in the table. */
  readonly placeSecret: Uint8Array;
  /** 16 bytes, of `sharedBytes`: hashes the parts of keys. A shared store may replace it. */
  readonly keySecret: Uint8Array;
  /** Random characters: what a store that gateways share calls this process, and the next one that takes its counts over. */
  readonly owner: string;
}

/** The counters as one thread uses them. */
export interface ThreadCounters extends CounterMemory {
  readonly table: CounterTable;
  /** Hashes with the secret of keys. */
  readonly keyHash: SipHash;
}

/** The number with which the main thread uses the table beside threads that carry traffic: theirs are smaller. */
const mainTableUser = 255;

export function createCounterMemory(bytes: number): CounterMemory {
  const owner = randomText(gatewayLength);
  return {
    memory: createTableMemory(bytes),
    owner,
    placeSecret: randomBytes(16),
    keySecret: sharedBytes(randomBytes(16)),
  };
}

/** Returns letters and digits that nobody can guess. */
export function randomText(length: number): string {
  return Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join("");
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** Returns bytes that every thread sees change. */
export function sharedBytes(bytes: Uint8Array): Uint8Array {
  const shared = new Uint8Array(new SharedArrayBuffer(bytes.length));
  shared.set(bytes);
  return shared;
}

/** With one thread, the default options are right. */
export function openCounters(shared: CounterMemory, options: Omit<TableOptions, "secret"> = {}): ThreadCounters {
  const { memory, placeSecret: secret, keySecret } = shared;
  return { ...shared, table: new CounterTable(memory, { ...options, secret }), keyHash: new SipHash(keySecret) };
}

export function ofMainThread({ workers }: Settings): Omit<TableOptions, "secret"> {
  return workers === 1 ? {} : { thread: mainTableUser, isShared: true, maySleep: false };
}

/** At this rate, a table of 32 MiB is swept once in a minute or two. */
const sweepIntervalMs = 100;

/** Removes what has expired from the table, in portions. Returns the function that ends it. */
export function sweepRegularly({ maintenance }: CounterTable, { monotonicMs }: Clock): () => void {
  const timer = setInterval(() => maintenance.sweep(monotonicMs()), sweepIntervalMs).unref();
  return () => clearInterval(timer);
}

/** A configuration may have so many policies. */
const enoughSlots = 32;

/**
 * Removes the keys of removed policies if too few slots are free for a reload. Works in the portions of the sweep, between
 * which requests pass.
 */
export async function freeSlots(table: CounterTable, { monotonicMs }: Clock): Promise<void> {
  const slots = Array.from({ length: policySlots }, (_, slot) => slot);
  const hasEnough = (): boolean => slots.filter((slot) => table.isSlotFree(slot)).length >= enoughSlots;
  // Several passes: the sweep may begin in the middle of the table, and leaves out a shard that is busy.
  for (let passes = 0; passes < 3 && !hasEnough(); ) {
    if (table.maintenance.sweep(monotonicMs())) passes += 1;
    await new Promise(setImmediate);
  }
}

/** A reload could not be prepared, for a reason that is not in the files: nothing has changed. */
export class NotPreparedError extends Error {}

type LimiterSettings = Pick<Settings, "policies" | "enforcement" | "basePath" | "auth" | "fields">;

/** The places of policies in the table, as another thread has chosen them. */
export interface ChosenSlots {
  readonly slots: readonly PolicySlot[];
  /** Those of policies that may come back. */
  readonly kept: readonly PolicySlot[];
}

export function chosenOf({ slots, kept }: PolicyLimiter): ChosenSlots {
  return { slots, kept };
}

interface LimiterChoices {
  /** Default: they are chosen here. */
  readonly chosen?: ChosenSlots | undefined;
  /** The policies that may come back. */
  readonly keep?: readonly Policy[];
  /** False in a thread that only keeps the table. */
  readonly decides?: boolean;
}

/**
 * `previous`: the limiter before a reload, whose counters go on; null at the start. Before a reload, `freeSlots` must be called.
 */
export function createLimiter(
  settings: LimiterSettings,
  {
    clock,
    counters,
    store = null,
    runtimeRules,
    outcomes,
  }: {
    readonly clock: Clock;
    readonly counters: ThreadCounters;
    readonly store?: Store | null;
    readonly runtimeRules?: RulesInForce;
    readonly outcomes?: OutcomeMemory;
  },
  previous: PolicyLimiter | null,
  { chosen, keep = [], decides = true }: LimiterChoices = {},
): PolicyLimiter {
  const { policies, ...options } = limiterSettings(settings);
  const { table, keyHash: hash } = counters;
  const given = {
    ...chosen,
    ...(runtimeRules && { runtimeRules }),
    ...(outcomes && { newOutcomes: outcomes.take.bind(outcomes) }),
  };
  return new PolicyLimiter(policies, { ...options, ...given, keep, clock, table, hash, store, decides, previous });
}

/** What the limiter depends on. */
export function limiterSettings({ policies, enforcement, basePath, auth, fields }: LimiterSettings) {
  const listAll = fields.includes("structured");
  return { policies, enforcement, basePath, tokensAreVerified: verifiesTokens(auth), listAll };
}
