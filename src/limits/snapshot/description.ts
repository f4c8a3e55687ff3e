// What a snapshot says about its records: when they were written, by which secrets their keys were made, and to which
// policy each slot belonged.
import { type CalendarPeriod, calendarPeriods, type KeyPart } from "../../core/policy.ts";
import { connectionSlot } from "../table/layout.ts";

export interface SnapshotDescription {
  /** The wall clock and the table's time at one instant, to which all records belong. */
  readonly wallMs: number;
  readonly tableMs: number;
  /** 16 bytes: where keys are in the table. */
  readonly placeSecret: Uint8Array;
  /** 16 bytes: with which keys that are no addresses were hashed. */
  readonly keySecret: Uint8Array;
  /** What a store that gateways share calls the one that has counted. Null: a snapshot from before there was a store. */
  readonly owner: string | null;
  readonly policies: readonly DescribedPolicy[];
}

/** Name, kind and key say whether a policy of today is the same one. */
export interface DescribedPolicy {
  readonly slot: number;
  readonly name: string;
  readonly key: readonly KeyPart[];
  readonly rate: DescribedRate;
}

export type DescribedRate = { readonly kind: "sliding" } | ({ readonly kind: "calendar" } & DescribedPeriod);

/** The period that was under way, and the instant of the wall clock at which it ends. */
export interface DescribedPeriod {
  readonly per: CalendarPeriod;
  readonly timezone: string;
  readonly period: number;
  readonly endWallMs: number;
  /** When the wall clock was to show that, by the table's time. Missing in older snapshots: then by `wallMs`. */
  readonly dueTableMs?: number;
}

export function encodeDescription({ placeSecret, keySecret, ...others }: SnapshotDescription): Buffer {
  const hex = (secret: Uint8Array): string => Buffer.from(secret).toString("hex");
  return Buffer.from(JSON.stringify({ ...others, placeSecret: hex(placeSecret), keySecret: hex(keySecret) }));
}

/** Null if it is not the description of a snapshot. */
export function decodeDescription(content: Buffer): SnapshotDescription | null {
  const value = objectIn(content);
  if (value === null) return null;
  const { wallMs, tableMs, placeSecret: place, keySecret: key, owner = null, policies } = value;
  const [placeSecret, keySecret] = [secretIn(place), secretIn(key)];
  if (!isNumber(wallMs) || !isNumber(tableMs) || placeSecret === null || keySecret === null) return null;
  if (!isOwner(owner)) return null;
  if (!Array.isArray(policies) || !policies.every(isPolicy)) return null;
  if (new Set(policies.map(({ slot }) => slot)).size < policies.length) return null;
  return { wallMs, tableMs, placeSecret, keySecret, owner, policies };
}

type Fields = Readonly<Record<string, unknown>>;

function objectIn(content: Buffer): Fields | null {
  try {
    const value: unknown = JSON.parse(content.toString("utf8"));
    return isObject(value) ? value : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

function secretIn(value: unknown): Uint8Array | null {
  return typeof value === "string" && /^[0-9a-f]{32}$/.test(value) ? Uint8Array.from(Buffer.from(value, "hex")) : null;
}

function isOwner(value: unknown): value is string | null {
  return value === null || (typeof value === "string" && /^[A-Za-z0-9]{12}$/.test(value));
}

function isPolicy(value: unknown): value is DescribedPolicy {
  if (!isObject(value)) return false;
  const { slot, name, key, rate } = value;
  return (
    isWithin(slot, connectionSlot) &&
    typeof name === "string" &&
    Array.isArray(key) &&
    key.every(isKeyPart) &&
    isRate(rate)
  );
}

function isKeyPart(value: unknown): value is KeyPart {
  if (!isObject(value)) return false;
  const { kind, name } = value;
  return typeof kind === "string" && (name === undefined || typeof name === "string");
}

function isRate(value: unknown): value is DescribedRate {
  if (!isObject(value)) return false;
  const { kind, per, timezone, period, endWallMs, dueTableMs = 0 } = value;
  if (kind === "sliding") return true;
  const isPeriod = calendarPeriods.some((each) => each === per) && typeof timezone === "string";
  const isEnd = isNumber(endWallMs) && isNumber(dueTableMs);
  return kind === "calendar" && isPeriod && isWithin(period, 2 ** 32) && isEnd;
}

function isWithin(value: unknown, end: number): boolean {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) < end;
}
