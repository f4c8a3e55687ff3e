// Opens the admin listener: who may call, what it answers, and where the others that share the store can reach it.
import { startAdmin } from "../../admin/server.ts";
import type { SignInCode } from "../../admin/sign-in-code.ts";
import { UnixSocketError } from "../../admin/unix-socket.ts";
import { readPeer } from "../../core/client-address.ts";
import type { Clock } from "../../core/clock.ts";
import { bracketed } from "../../core/ip-address.ts";
import type { AdminSettings } from "../../core/settings.ts";
import { createErrorLog, type Logger } from "../../telemetry/log.ts";
import { createRequestIds } from "../../upstream/request-fields.ts";
import { ListenError } from "../open-listeners.ts";
import type { Sharing } from "../sharing.ts";
import type { Workers } from "../workers.ts";
import type { AdminFiles } from "./admin-files.ts";
import type { GatewayControl } from "./control.ts";

interface OpenAdminOptions {
  readonly workers: Workers;
  readonly control: GatewayControl;
  readonly adminFiles: AdminFiles;
  /** Null: gateways share nothing. */
  readonly sharing: Pick<Sharing, "announce"> | null;
  readonly clock: Clock;
  readonly log: Logger;
  readonly version: string;
  /** Of a link to the console that the caller prints; by default there is none. */
  readonly signIn?: SignInCode | undefined;
  readonly maxScrapePauseMs?: number;
}

/** Rejects with a ListenError, or with a UnixSocketError. */
export async function openAdmin(settings: AdminSettings, options: OpenAdminOptions) {
  const { workers, control, adminFiles, sharing, clock, log, version, signIn, maxScrapePauseMs } = options;
  const { telemetry } = workers.serving;
  const onFailure = createErrorLog(log);
  const { certificate } = adminFiles;
  const admin = await startAdmin({
    ...{ host: settings.host, port: settings.port, socket: settings.socket, clock },
    metrics: telemetry.text,
    maxScrapePauseMs,
    health: () => control.health(),
    isAlive: () => workers.serving.isAlive(),
    onError: (error) => log.error({ err: error }, "metrics scrape failed"),
    onFailure,
    peerKey: (address) => readPeer(address, workers.main.configuration.clientAddress).key,
    onClosedForRoom: () => telemetry.connectionShed("admin", null),
    certificate: certificate && (() => adminFiles.certificate?.value ?? certificate.value),
    api: {
      plane: control,
      access: () => adminFiles.access,
      nowMs: clock.monotonicMs,
      newId: createRequestIds(),
      version,
      onWrite: (line) => log.info(line, "admin call"),
      onFailure,
      signIn,
    },
  }).catch((error) => {
    throw error instanceof UnixSocketError ? error : new ListenError("admin", settings, error);
  });
  adminFiles.onTokens(() => admin.openApi());
  const address = `${bracketed(admin.host)}:${admin.port}`;
  sharing?.announce(() => ({
    version,
    startedMs: control.startedWallMs,
    admin: adminFiles.access.tokens === null ? null : address,
  }));
  return admin;
}
