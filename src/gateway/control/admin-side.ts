// The admin side of the process: its listener, its files, and the control plane behind the API. A reload replaces its files and
// what carries the traffic together, or neither.

import { isDeepStrictEqual } from "node:util";
import type { AdminAccess } from "../../admin/access.ts";
import { type AdminTokens, adminTokensFile } from "../../admin/admin-tokens.ts";
import type { Health } from "../../admin/control-plane.ts";
import { type Admin, startAdmin } from "../../admin/server.ts";
import { UnixSocketError } from "../../admin/unix-socket.ts";
import type { FileWatcher } from "../../config/files.ts";
import { endingSoonMs } from "../../core/authentication.ts";
import { readPeer } from "../../core/client-address.ts";
import type { Clock } from "../../core/clock.ts";
import type { Files, Watched } from "../../core/file-group.ts";
import { bracketed, type HostPort } from "../../core/ip-address.ts";
import type { AdminSettings, Certificate, Settings } from "../../core/settings.ts";
import { createFileLog, type Logger } from "../../telemetry/log.ts";
import { createRequestIds } from "../../upstream/request-fields.ts";
import { watchCertificate } from "../configured-files.ts";
import { ListenError } from "../open-listeners.ts";
import type { ReloadTelemetry } from "../reloader.ts";
import type { Sharing } from "../sharing.ts";
import type { Workers } from "../workers.ts";
import { type ControlledReloader, type ControlOptions, GatewayControl, type Seams } from "./control.ts";

interface AdminSideOptions extends Seams, Pick<ControlOptions, "version" | "nodeVersion" | "drain"> {
  readonly workers: Workers;
  readonly files: FileWatcher;
  /** Null: gateways share nothing. */
  readonly sharing: Pick<Sharing, "figures" | "announce" | "gateways"> | null;
  readonly clock: Clock;
  readonly log: Logger;
}

export class AdminSide {
  readonly #options: AdminSideOptions;
  readonly #files: AdminFiles;
  readonly #control: GatewayControl;
  #admin: Admin | null = null;
  #reloader: ControlledReloader | null = null;
  status: Health["status"] = "starting";

  /** Use `openAdminSide`. */
  constructor(options: AdminSideOptions, files: AdminFiles) {
    this.#options = options;
    this.#files = files;
    this.#control = new GatewayControl({
      ...options,
      status: () => this.status,
      adminCertificate: () => files.certificate,
      reloader: () => this.#reloader,
    });
  }

  /** Rejects with a ListenError, or with a UnixSocketError. */
  async listen(settings: Settings["admin"]): Promise<HostPort> {
    const { workers, clock, log } = this.#options;
    const { telemetry } = workers;
    const onFailure = (error: unknown): void => log.error({ err: error }, "internal error");
    const { certificate } = this.#files;
    this.#admin = await startAdmin({
      ...{ host: settings.host, port: settings.port, socket: settings.socket, clock },
      metrics: (openMetrics) => telemetry.text(openMetrics),
      health: () => this.#health(),
      isAlive: () => workers.isAlive(),
      onError: (error) => log.error({ err: error }, "metrics scrape failed"),
      onFailure,
      peerKey: (address) => readPeer(address, workers.main.clientAddress).key,
      onClosedForRoom: () => telemetry.connectionShed("admin", null),
      certificate: certificate && (() => this.#files.certificate?.value ?? certificate.value),
      api: {
        plane: this.#control,
        access: () => this.#files.access,
        nowMs: clock.monotonicMs,
        newId: createRequestIds(),
        version: this.#options.version,
        onWrite: (line) => log.info(line, "admin call"),
        onFailure,
      },
    }).catch((error) => {
      throw error instanceof UnixSocketError ? error : new ListenError("admin", settings, error);
    });
    const { host, port } = this.#admin;
    this.#announce({ host, port });
    return { host, port };
  }

  /** What a reload replaces: the files of the admin side, then what carries the traffic. */
  besideWorkers(): Pick<Workers, "settings" | "listedTokens" | "replace" | "endTrial"> {
    const { workers } = this.#options;
    const files = this.#files;
    return {
      get settings() {
        return workers.settings;
      },
      listedTokens: () => workers.listedTokens(),
      endTrial: () => workers.endTrial(),
      replace: async (settings, onTrial) => {
        if (settings !== null && settings.admin.tokensFile !== null) await this.#admin?.openApi();
        const prepared = settings === null ? null : await files.prepare(settings.admin);
        const changes = await workers.replace(settings, onTrial).catch((error) => {
          prepared?.drop();
          throw error;
        });
        prepared?.commit();
        return changes;
      },
    };
  }

  /** Telemetry of reloads that also tells the API of each. */
  besideTelemetry(): ReloadTelemetry {
    const { telemetry } = this.#options.workers;
    return {
      reloaded: (result, cause, by) => {
        telemetry.reloaded(result, cause);
        this.#control.reloaded(result, cause, by);
      },
      trialChanged: (event) => {
        telemetry.trialChanged(event);
        this.#control.trialChanged(event);
      },
    };
  }

  /** Lets the API reload, and reports the gateway as ready. */
  started(reloader: ControlledReloader): void {
    this.#reloader = reloader;
    this.status = "ready";
  }

  draining(): void {
    this.status = "draining";
    this.#control.draining();
  }

  async close(): Promise<void> {
    this.#control.close();
    await this.#admin?.close();
    this.#files.close();
  }

  #announce({ host, port }: HostPort): void {
    const { sharing, version } = this.#options;
    const address = `${bracketed(host)}:${port}`;
    sharing?.announce(() => ({
      version,
      startedMs: this.#control.startedWallMs,
      admin: this.#files.access.tokens === null ? null : address,
    }));
  }

  #health(): Health {
    const { workers, clock, sharing } = this.#options;
    const isServing = workers.threads.serving > 0;
    const [upstream, store] = [workers.telemetry.upstreamHealth(), workers.telemetry.storeHealth()];
    const list = workers.listedTokens();
    const ending = list?.endingBefore(clock.wallMs() + endingSoonMs).length ?? 0;
    const tokens = list && { listed: list.size, ending };
    const rules = sharing && { state: sharing.figures().state };
    return { status: this.status === "ready" && !isServing ? "starting" : this.status, tokens, rules, upstream, store };
  }
}

/** Opens no listener. Rejects with a FilesError. */
export async function openAdminSide(settings: Settings["admin"], options: AdminSideOptions): Promise<AdminSide> {
  return new AdminSide(options, await openAdminFiles(settings, options));
}

interface OpenedFiles {
  readonly settings: AdminSettings;
  readonly tokens: Watched<AdminTokens> | null;
  readonly certificate: Watched<Certificate> | null;
}

interface AdminFilesContext {
  readonly files: Files;
  readonly log: Logger;
  readonly clock: Clock;
}

/** Files that can be put into force. Either `commit` or `drop` has to be called. */
interface PreparedFiles {
  commit(): void;
  drop(): void;
}

/**
 * The files of the admin listener: its tokens and its certificate. A reload opens those that are new before anything
 * changes, and puts them into force together with the rest, or not at all.
 */
class AdminFiles {
  readonly #context: AdminFilesContext;
  #opened: OpenedFiles;

  /** Use `openAdminFiles`. */
  constructor(context: AdminFilesContext, opened: OpenedFiles) {
    this.#context = context;
    this.#opened = opened;
  }

  get access(): AdminAccess {
    const { tokens, settings } = this.#opened;
    return { tokens, hosts: settings.hosts, listenHost: settings.host };
  }

  get certificate(): Watched<Certificate> | null {
    return this.#opened.certificate;
  }

  /** Rejects with a FilesError. */
  async prepare(settings: AdminSettings): Promise<PreparedFiles> {
    const before = this.#opened;
    const next = await open(settings, this.#context, before);
    return {
      commit: () => {
        this.#opened = next;
        close(before, next);
      },
      drop: () => close(next, before),
    };
  }

  close(): void {
    close(this.#opened, null);
  }
}

/** Rejects with a FilesError, with everything closed that was opened. */
async function openAdminFiles(settings: AdminSettings, context: AdminFilesContext): Promise<AdminFiles> {
  return new AdminFiles(context, await open(settings, context, null));
}

async function open(
  settings: AdminSettings,
  context: AdminFilesContext,
  before: OpenedFiles | null,
): Promise<OpenedFiles> {
  const areSameTokens = before !== null && before.settings.tokensFile === settings.tokensFile;
  const isSameCertificate = before !== null && isDeepStrictEqual(before.settings.tls, settings.tls);
  const tokens = areSameTokens ? before.tokens : await openTokens(settings, context);
  try {
    const certificate = isSameCertificate ? before.certificate : await openCertificate(settings, context);
    return { settings, tokens, certificate };
  } catch (error) {
    if (tokens !== before?.tokens) tokens?.close();
    throw error;
  }
}

/** Closes the files that are not among those of `kept`. */
function close(files: OpenedFiles, kept: OpenedFiles | null): void {
  for (const part of ["tokens", "certificate"] as const) if (files[part] !== kept?.[part]) files[part]?.close();
}

async function openTokens({ tokensFile }: AdminSettings, { files, log }: AdminFilesContext) {
  if (tokensFile === null) return null;
  const events = createFileLog<AdminTokens>(log, "admin tokens file", ({ size }) => ({ tokens: size }));
  return files.open(adminTokensFile(tokensFile), events);
}

async function openCertificate({ tls }: AdminSettings, context: AdminFilesContext) {
  if (tls === null) return null;
  const { listenTlsFiles } = await import("../../config/tls-files.ts");
  const group = listenTlsFiles({ ...tls, clientCa: null }, "admin.tls");
  return watchCertificate(group, "certificate files of the admin listener", context, { listener: "admin" });
}
