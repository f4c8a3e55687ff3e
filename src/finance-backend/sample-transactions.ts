// The sample transactions: two years of a household's money, from a fixed seed. Every call returns the same records,
// in the order of their dates, with ids that grow with them. The first and the last day are fixed; no clock is read.
import { civil, formatDay, formatTimestamp, parseDay, weekdayOf } from "./calendar.ts";
import { Random } from "./random.ts";
import { accounts, tags, vacationTagId } from "./sample-catalog.ts";
import { abroad, type Habit, habits, monthly, potteryClass, type Spending } from "./sample-habits.ts";

export interface SampleTransaction {
  readonly id: number;
  readonly date: string;
  readonly amount: string;
  readonly currency: "usd" | "eur";
  readonly toBase: number;
  readonly payee: string;
  readonly originalName: string | null;
  readonly categoryId: number | null;
  readonly notes: string | null;
  readonly status: "reviewed" | "unreviewed" | "delete_pending";
  readonly isPending: boolean;
  readonly manualAccountId: number | null;
  readonly plaidAccountId: number | null;
  readonly source: "plaid" | "csv" | "manual";
  readonly externalId: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly tagIds: readonly number[];
}

export const firstDate = "2024-01-01";
export const lastDate = "2025-12-31";

export function sampleTransactions(): SampleTransaction[] {
  const random = new Random(20_240_101);
  const transactions: SampleTransaction[] = [];
  for (let day = firstDay; day <= lastDay; day += 1) {
    for (const spending of spendingOn(day, random)) {
      transactions.push(transaction(firstId + transactions.length, day, spending, random));
    }
  }
  return transactions;
}

const firstDay = realDay(firstDate);
const lastDay = realDay(lastDate);
const potteryEnds = realDay("2024-09-10");
const trip = { firstDay: realDay("2025-06-12"), lastDay: realDay("2025-06-25") };
const firstId = 2_355_000_001;
const dayMs = 86_400_000;
/** Dollars in ten thousand euros: one fixed rate is enough for a sample. */
const dollarsPer10kEuros = 11_325;

type Due = Spending & { readonly tagId?: number; readonly currency: "usd" | "eur" };

function spendingOn(day: number, random: Random): Due[] {
  const { dayOfMonth } = civil(day);
  const due: Due[] = monthly
    .filter((entry) => entry.dayOfMonth === dayOfMonth)
    .map((entry) => ({ ...entry, currency: "usd" }));
  const away = day >= trip.firstDay && day <= trip.lastDay;
  const choices: readonly Habit[] = away
    ? [abroad, abroad, abroad]
    : day < potteryEnds
      ? [...habits, potteryClass]
      : habits;
  const weekday = weekdayOf(day);
  for (const habit of choices) {
    if (random.chance(habit.perMille[weekday] ?? 0)) due.push({ ...habit, currency: away ? "eur" : "usd" });
  }
  return due;
}

function transaction(id: number, day: number, spending: Due, random: Random): SampleTransaction {
  const cents = random.integer(spending.cents[0], spending.cents[1]);
  const account = spending.account === null ? null : accounts[spending.account];
  const plaid = account?.kind === "plaid";
  const payee = random.pick(spending.payees);
  const isPending = plaid && day > lastDay - 3 && random.chance(800);
  const createdMs = day * dayMs + random.integer(plaid ? 1 : 0, plaid ? 2 : 0) * dayMs + random.integer(0, dayMs - 1);
  const updatedMs = createdMs + (random.chance(300) ? random.integer(1, 20 * dayMs) : 0);
  return {
    id,
    date: formatDay(day),
    amount: decimal(cents),
    currency: spending.currency,
    toBase: spending.currency === "eur" ? Math.round((cents * dollarsPer10kEuros) / 100) / 10_000 : cents / 100,
    payee,
    originalName: plaid ? `${payee.toUpperCase()} #${random.integer(1000, 9999)}` : payee,
    categoryId: random.chance(25) ? null : spending.categoryId,
    notes: random.chance(60) ? random.pick(notes) : null,
    status: statusOf(day, isPending, plaid, random),
    isPending,
    manualAccountId: account?.kind === "manual" ? account.id : null,
    plaidAccountId: plaid ? account.id : null,
    source: plaid ? "plaid" : spending.account === "brokerage" ? "csv" : "manual",
    externalId: spending.account === "brokerage" ? `stmt-${formatDay(day)}-${cents < 0 ? -cents : cents}` : null,
    createdAt: formatTimestamp(createdMs),
    updatedAt: formatTimestamp(updatedMs),
    tagIds: tagsOf(spending, random),
  };
}

function statusOf(day: number, isPending: boolean, plaid: boolean, random: Random): SampleTransaction["status"] {
  if (isPending) return "unreviewed";
  if (plaid && random.chance(6)) return "delete_pending";
  return random.chance(day > lastDay - 30 ? 550 : 40) ? "unreviewed" : "reviewed";
}

function tagsOf(spending: Due, random: Random): number[] {
  const chosen = new Set<number>();
  if (spending.tagId !== undefined) chosen.add(spending.tagId);
  if (spending.currency === "eur") chosen.add(vacationTagId);
  if (random.chance(110)) chosen.add(random.pick(tags).id);
  if (random.chance(30)) chosen.add(random.pick(tags).id);
  return [...chosen].sort((left, right) => left - right);
}

function decimal(cents: number): string {
  const whole = Math.trunc(Math.abs(cents) / 100);
  return `${cents < 0 ? "-" : ""}${whole}.${String(Math.abs(cents) % 100).padStart(2, "0")}00`;
}

function realDay(date: string): number {
  const day = parseDay(date);
  if (day === null) throw new Error(`not a calendar date: ${date}`);
  return day;
}

const notes: readonly [string, ...string[]] = [
  "Split with a friend",
  "Ask for the receipt",
  "Birthday",
  "Returned half of it",
  "Was cheaper last time",
  "Café “Zur Linde” – paid by card",
];
