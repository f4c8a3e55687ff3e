// The connections to the upstream: undici's pool over connections that are opened as the gateway opens its own, with the
// certificate verified, its files reread, and TCP and TLS within one timeout.
import type { SecureContext } from "node:tls";
import { type buildConnector, Pool } from "undici";
import { clientTlsFiles } from "../../config/tls-files.ts";
import type { Files } from "../../core/file-group.ts";
import { maxHeadBytes } from "../../core/http-bounds.ts";
import { upstreamTargets } from "../../core/upstream.ts";
import { createFileLog, type Logger } from "../../telemetry/log.ts";
import { defaultIdleMs, openSocket } from "../../upstream/upstream-socket.ts";
import { UpstreamTls } from "../../upstream/upstream-tls.ts";
import type { PluginUpstream } from "../plugin-options.ts";

export interface UpstreamPool {
  readonly pool: Pool;
  close(): void;
}

/** Rejects with a FilesError. Opens no connection. */
export async function openPool(upstream: PluginUpstream, files: Files, log: Logger): Promise<UpstreamPool> {
  const tls = await openTls(upstream, files, log);
  const pool = new Pool(new URL(upstream.url).origin, {
    connections: upstream.maxConnections,
    pipelining: 1,
    headersTimeout: upstream.responseTimeoutMs,
    bodyTimeout: upstream.responseTimeoutMs,
    maxHeaderSize: maxHeadBytes,
    keepAliveTimeout: defaultIdleMs,
    // By default an upstream's hint can make it ten minutes.
    keepAliveMaxTimeout: defaultIdleMs,
    connect: connector(upstream, tls),
  });
  return {
    pool,
    close() {
      void pool.destroy();
      tls?.close();
    },
  };
}

async function openTls(upstream: PluginUpstream, files: Files, log: Logger): Promise<UpstreamTls | null> {
  const { host, isTls } = upstreamTargets({ url: upstream.url, addresses: [] });
  if (!isTls) return null;
  const events = createFileLog<SecureContext>(log, "files of upstream.tls");
  return new UpstreamTls(upstream.tls, host, await files.open(clientTlsFiles("upstream.tls", upstream.tls), events));
}

function connector(upstream: PluginUpstream, tls: UpstreamTls | null): buildConnector.connector {
  const [target] = upstreamTargets({ url: upstream.url, addresses: [] }).targets;
  if (target === undefined) throw new Error("a URL without a target");
  // Undici reads streams.
  const options = { ...target, tls, timeoutMs: upstream.connectTimeoutMs, isStream: true };
  return (_options, done) => {
    openSocket(options, (error, reader) => {
      if (reader === null) {
        done(error ?? new Error("no connection"), null);
        return;
      }
      reader.socket.allowHalfOpen = false;
      done(null, reader.socket);
    });
  };
}
