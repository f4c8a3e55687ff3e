// The main thread beside threads that carry traffic: it reads and watches the files, chooses the places of policies in the table of
// counters, and answers questions about clients. It decides about no request.
import type { FileWatcher } from "../../config/files.ts";
import type { ClientAddressRules } from "../../core/client-address.ts";
import type { Clock } from "../../core/clock.ts";
import type { RulesInForce } from "../../core/rules-in-force.ts";
import type { Settings } from "../../core/settings.ts";
import type { ForgivenName } from "../../limits/forgive.ts";
import type { PolicyLimiter } from "../../limits/limiter.ts";
import { countPeersIn } from "../../limits/peer-connections.ts";
import type { ForgivenNotice } from "../../limits/store/shared-rules.ts";
import { changeLog, type Logger } from "../../telemetry/log.ts";
import { Clients } from "../clients.ts";
import { type ConfiguredFiles, closeFiles, type FilesContext, openConfiguredFiles } from "../configured-files.ts";
import type { Prepared } from "../engine.ts";
import { chosenOf, createLimiter, type ThreadCounters } from "../open-counters.ts";
import type { SettingsOnTrial } from "../reload-trials.ts";
import { clientAddressRules } from "../runtimes.ts";

interface MainThreadOptions {
  /** An answer about a client tells how the rules treat it. */
  readonly runtimeRules: RulesInForce;
  readonly counters: ThreadCounters;
  readonly clock: Clock;
  readonly log: Logger;
}

interface MainInForce {
  readonly settings: Settings;
  readonly files: ConfiguredFiles;
  readonly clientAddress: ClientAddressRules;
  /** Decides nothing: chooses the slots of policies, and is for the metrics and for what is asked about clients. */
  readonly limiter: PolicyLimiter;
}

/** Rejects with a FilesError. */
export async function openMainThread(
  settings: Settings,
  files: FileWatcher,
  options: MainThreadOptions,
): Promise<MainThread> {
  const { clock, log } = options;
  const context = { files, notices: { configuration: log, files: log }, clock, authenticator: undefined };
  return new MainThread(settings, await openConfiguredFiles(settings, context, null), context, options);
}

export class MainThread {
  readonly clients: Clients;
  readonly #options: MainThreadOptions;
  readonly #context: FilesContext;
  #inForce: MainInForce;

  /** Use `openMainThread`. */
  constructor(settings: Settings, files: ConfiguredFiles, context: FilesContext, options: MainThreadOptions) {
    this.#options = options;
    this.#context = context;
    options.runtimeRules.ipv6Prefix = settings.clientAddress.ipv6Prefix;
    const limiter = this.#createLimiter(settings, null, null);
    this.#inForce = { settings, files, clientAddress: clientAddressRules(settings), limiter };
    const { table, keyHash, keySecret } = options.counters;
    countPeersIn(table);
    this.clients = new Clients(
      () => {
        // A thread may have got the secret of all gateways from the store.
        keyHash.replaceKey(keySecret);
        return this.#inForce;
      },
      options.runtimeRules,
      options.clock,
    );
  }

  get configuration(): MainInForce {
    return this.#inForce;
  }

  /** Rejects with a FilesError. */
  async prepare(settings: Settings, onTrial: SettingsOnTrial | null): Promise<Required<Prepared>> {
    const before = this.#inForce;
    const files = await openConfiguredFiles(settings, this.#context, before);
    try {
      const limiter = this.#createLimiter(settings, before.limiter, onTrial);
      return {
        chosen: chosenOf(limiter),
        commit: () => this.#replace({ settings, files, clientAddress: clientAddressRules(settings), limiter }),
        drop() {
          closeFiles(files, before.files);
          limiter.replacedBy(before.limiter);
        },
      };
    } catch (error) {
      closeFiles(files, before.files);
      throw error;
    }
  }

  /** What is in force is not on trial any more. */
  endTrial(): void {
    this.#inForce.limiter.endKeeping();
  }

  /** Forgets what the table has counted. */
  forgive(forgiven: readonly ForgivenNotice[]): Promise<readonly (ForgivenName | null)[]> {
    return this.clients.forgive(forgiven);
  }

  close(): void {
    closeFiles(this.#inForce.files, null);
  }

  #replace(next: MainInForce): void {
    const before = this.#inForce;
    const { settings } = next;
    // Before a thread counts with other windows, what is swept here must know them.
    next.limiter.comeIntoForce();
    this.#inForce = next;
    this.#options.runtimeRules.ipv6Prefix = settings.clientAddress.ipv6Prefix;
    before.limiter.replacedBy(next.limiter);
    changeLog(this.#options.log, before.settings.log, settings.log, this.#options.clock);
    closeFiles(before.files, next.files);
  }

  #createLimiter(settings: Settings, before: PolicyLimiter | null, onTrial: SettingsOnTrial | null): PolicyLimiter {
    return createLimiter(settings, this.#options, before, { decides: false, keep: onTrial?.fallback.policies ?? [] });
  }
}
