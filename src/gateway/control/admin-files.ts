// The files of the admin listener. A reload replaces them and what carries the traffic together, or neither.
import type { AdminAccess } from "../../admin/access.ts";
import { type AdminTokens, adminTokensFile } from "../../admin/admin-tokens.ts";
import type { Clock } from "../../core/clock.ts";
import type { Files, Watched } from "../../core/file-group.ts";
import type { AdminSettings, Certificate } from "../../core/settings.ts";
import { createFileLog, type Logger } from "../../telemetry/log.ts";
import { closeFiles, openFiles, watchCertificate } from "../configured-files.ts";
import type { Prepared } from "../engine.ts";

interface OpenedFiles {
  readonly tokens: Watched<AdminTokens> | null;
  readonly certificate: Watched<Certificate> | null;
}

interface FilesInForce {
  readonly settings: AdminSettings;
  readonly files: OpenedFiles;
}

interface AdminFilesContext {
  readonly files: Files;
  readonly log: Logger;
  readonly clock: Clock;
}

/**
 * The files of the admin listener: its tokens and its certificate. A reload opens those that are new before anything
 * changes, and puts them into force together with the rest, or not at all.
 */
export class AdminFiles {
  readonly #context: AdminFilesContext;
  readonly #listeners = new Set<() => Promise<void>>();
  #opened: FilesInForce;

  /** Use `openAdminFiles`. */
  constructor(context: AdminFilesContext, opened: FilesInForce) {
    this.#context = context;
    this.#opened = opened;
  }

  get access(): AdminAccess {
    const { files, settings } = this.#opened;
    return { tokens: files.tokens, hosts: settings.hosts, listenHost: settings.host };
  }

  get certificate(): Watched<Certificate> | null {
    return this.#opened.files.certificate;
  }

  /** The listener is awaited before a tokens file is in force. */
  onTokens(listener: () => Promise<void>): void {
    this.#listeners.add(listener);
  }

  /** Rejects with a FilesError. */
  async prepare(settings: AdminSettings): Promise<Prepared> {
    if (settings.tokensFile !== null) for (const listener of this.#listeners) await listener();
    const before = this.#opened;
    const next = await open(settings, this.#context, before);
    return {
      commit: () => {
        this.#opened = next;
        closeFiles(before.files, next.files);
      },
      drop: () => closeFiles(next.files, before.files),
    };
  }

  close(): void {
    closeFiles(this.#opened.files, null);
  }
}

/** Opens no listener. Rejects with a FilesError, with everything closed that was opened. */
export async function openAdminFiles(settings: AdminSettings, context: AdminFilesContext): Promise<AdminFiles> {
  return new AdminFiles(context, await open(settings, context, null));
}

async function open(
  settings: AdminSettings,
  context: AdminFilesContext,
  before: FilesInForce | null,
): Promise<FilesInForce> {
  const files = await openFiles<AdminSettings, OpenedFiles>(settings, before, {
    tokens: [({ tokensFile }) => tokensFile, () => openTokens(settings, context)],
    certificate: [({ tls }) => tls, () => openCertificate(settings, context)],
  });
  return { settings, files };
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
