// What the main thread and the threads that carry traffic tell each other. The main thread asks, and a thread answers each
// request; but what operators ask about, a thread hands over by itself. A thread wants one thing of the main thread, and is told
// by a request that it is done. Lines of the log go through a port of their own.
import type { MessagePort } from "node:worker_threads";
import type { FileContents } from "../../config/files.ts";
import { asError, errorCode } from "../../core/failure.ts";
import type { HostPort } from "../../core/ip-address.ts";
import type { RuleChange } from "../../core/rules.ts";
import type { Settings } from "../../core/settings.ts";
import type { ForgivenNotice } from "../../limits/store/shared-rules.ts";
import type { RecentBatch } from "../../telemetry/recent/thread-recent.ts";
import type { ThreadCells, ThreadReport } from "../../telemetry/telemetry.ts";
import type { ChosenSlots, CounterMemory } from "../open-counters.ts";
import {
  type Addresses,
  type BrokenOff,
  ListenError,
  type ListenerName,
  type ListenSettings,
} from "../open-listeners.ts";
import type { SettingsOnTrial } from "../reload-trials.ts";

/** With this a thread starts. */
export interface ThreadStart {
  /** From 1; no two threads that are alive have the same. */
  readonly thread: number;
  /** Of the whole process. */
  readonly settings: Settings;
  readonly contents: FileContents;
  /** Whether this thread logs warnings about the configuration. */
  readonly logsWarnings: boolean;
  readonly counters: CounterMemory;
  /** For the policies of the settings. */
  readonly chosen: ChosenSlots;
  /** Null: no configuration is on trial. */
  readonly onTrial: SettingsOnTrial | null;
  /** For session tickets of TLS, which any thread can use. */
  readonly ticketSecret: Uint8Array;
  /** Of SharedConnectionCount. */
  readonly connections: SharedArrayBuffer;
  /** Of StoreSightings. */
  readonly storeSightings: SharedArrayBuffer;
  /** Of HistoryRow. */
  readonly history: SharedArrayBuffer;
  /** Of Pulse. */
  readonly pulses: SharedArrayBuffer;
  /** `monotonicOffsetMs()` of the main thread. */
  readonly clockOffsetMs: number;
  readonly logPort: MessagePort;
  readonly version: string;
  readonly nodeVersion: string;
  /** The position in the log of gateways up to which the table has forgotten what was forgiven. */
  readonly forgivenUntil: number;
  readonly http2LingerMs: number | null;
  readonly sharedReads: boolean;
}

/** The requests by name: `asked` is the argument, `answered` the result, if there is one. */
export interface Requests {
  /** Opens the listeners, with ports that other threads can open too. */
  readonly listen: { readonly asked: ListenSettings; readonly answered: Addresses };
  readonly announceStart: { readonly asked: null };
  /** Prepares a configuration and new contents of files. Answered when it can be committed. */
  readonly prepare: { readonly asked: WantedConfiguration };
  /** Puts into force what was prepared. */
  readonly commit: { readonly asked: null };
  readonly drop: { readonly asked: null };
  /** What is in force is not on trial any more. */
  readonly endTrial: { readonly asked: null };
  /** A new thread gets all rules with this request, in portions. */
  readonly changeRules: { readonly asked: RuleChange };
  /** The thread forgets what it holds. A thread that is starting gets it when it has started. */
  readonly forgive: {
    readonly asked: { readonly forgiven: readonly ForgivenNotice[]; readonly logPosition: number };
  };
  /** What the thread wanted, by its id, is done. */
  readonly forgivenRead: { readonly asked: number };
  readonly announceEnd: { readonly asked: null };
  readonly drain: { readonly asked: { readonly timeoutMs: number }; readonly answered: BrokenOff };
  /** Answered when all lines of the log are with the main thread. */
  readonly close: { readonly asked: null };
}

interface WantedConfiguration {
  /** Of the whole process; null: as they are in force. */
  readonly settings: Settings | null;
  /** For its policies. */
  readonly chosen: ChosenSlots;
  /** Null: no configuration is on trial. */
  readonly onTrial: SettingsOnTrial | null;
  readonly contents: FileContents;
  readonly logsWarnings: boolean;
}

export type RequestName = keyof Requests;

export type AskedOf<Name extends RequestName> = Requests[Name]["asked"];

export type AnsweredTo<Name extends RequestName> = Requests[Name] extends { readonly answered: infer A } ? A : unknown;

export interface Request {
  readonly id: number;
  readonly name: RequestName;
  readonly asked: unknown;
}

/** What a thread wants of the main thread: that what was forgiven at other gateways is read, and forgotten by all threads. */
export interface Wanted {
  readonly wants: "forgiven";
  readonly id: number;
}

/** A thread hands this over by itself: at its start, after each reload, and once a second. */
export interface HandedOver {
  readonly report: ThreadReport;
  /** What it has refused since the last time; empty if there is nothing. */
  readonly recent: readonly RecentBatch[];
  /** At its start, and after each reload. */
  readonly cells: ThreadCells | null;
}

/** The answer with this id says that the thread has started. */
export const startId = 0;

export type Answer =
  | { readonly id: number; readonly ok: true; readonly answered: unknown }
  | { readonly id: number; readonly ok: false; readonly failure: Failure };

/** An error as it is posted: structured clone loses its class and its code. */
export interface Failure {
  readonly message: string;
  readonly stack: string | undefined;
  readonly code: string | undefined;
  /** Of a ListenError, whose cause the other fields are about. */
  readonly listener: { readonly name: ListenerName; readonly address: HostPort } | null;
}

export function failureOf(thrown: unknown): Failure {
  const error = asError(thrown);
  const isListen = error instanceof ListenError;
  const cause = isListen ? asError(error.cause) : error;
  const listener = isListen ? { name: error.listener, address: error.address } : null;
  return { message: cause.message, stack: cause.stack, code: errorCode(cause), listener };
}

export function errorOf({ message, stack, code, listener }: Failure): Error {
  const error = Object.assign(new Error(message), { stack: stack ?? "", ...(code === undefined ? {} : { code }) });
  return listener === null ? error : new ListenError(listener.name, listener.address, error);
}
