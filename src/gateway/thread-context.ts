// What a thread that carries traffic has for as long as it runs, whatever is configured. It is made first, and all that is
// made from the settings gets what it needs of it as an argument.
import type { Authenticator } from "../core/authentication.ts";
import type { OutcomeMemory } from "../core/cells.ts";
import type { ClientBytes } from "../core/client-share.ts";
import type { Clock } from "../core/clock.ts";
import type { Files } from "../core/file-group.ts";
import type { LocalReply } from "../core/local-reply.ts";
import type { RulesInForce } from "../core/rules-in-force.ts";
import type { Replaceable, Settings } from "../core/settings.ts";
import type { TextWrites } from "../exchange/socket-writes.ts";
import type { Store } from "../limits/store/store.ts";
import type { Logger } from "../telemetry/log.ts";
import type { ThreadRecent } from "../telemetry/recent/thread-recent.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { NameOptions } from "../upstream/name-lookup.ts";
import type { ThreadCounters } from "./open-counters.ts";

export interface ThreadContext {
  /** In force. */
  readonly settings: Replaceable<Settings>;
  /** One of probeReplies. */
  readonly readiness: Replaceable<LocalReply>;
  readonly clock: Clock;
  readonly log: Logger;
  /** For warnings about the configuration, and for reloads and errors of files. */
  readonly notices: { readonly configuration: Logger; readonly files: Logger };
  readonly files: Files;
  readonly counters: ThreadCounters;
  /** Null: the counters are not shared. */
  readonly store: Store | null;
  /** Rules that operators set at run time. */
  readonly runtimeRules: RulesInForce;
  readonly telemetry: Telemetry;
  /** What its policies say is counted here. */
  readonly outcomes: OutcomeMemory;
  readonly recent: ThreadRecent;
  readonly textWrites: TextWrites;
  readonly waitingBodies: ClientBytes;
  /** How the names of the upstream are resolved. */
  readonly names: NameOptions;
  /** For session tickets; null: no other thread has to read them. */
  readonly ticketSecret: Uint8Array | null;
  /** Used in place of the one of the settings. */
  readonly authenticator: Authenticator | undefined;
}
