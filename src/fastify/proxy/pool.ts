// The connections to the upstream: undici's pool over connections that are opened as the gateway opens its own, with the
// certificate verified, its files reread, and TCP and TLS within one timeout.
import type { SecureContext } from "node:tls";
import { type buildConnector, Pool } from "undici";
import { outboundTlsFiles } from "../../config/tls-files.ts";
import type { Files } from "../../core/file-group.ts";
import { type UpstreamHostSettings, upstreamTargets } from "../../core/upstream.ts";
import { createFileLog, type Logger } from "../../telemetry/log.ts";
import { readAfterFailedWrite } from "../../upstream/read-ends.ts";
import { freshMsOf, openSocket } from "../../upstream/upstream-socket.ts";
import { UpstreamTls } from "../../upstream/upstream-tls.ts";

/** Rejects with a FilesError. Opens no connection. */
export async function openPool(upstream: UpstreamHostSettings, files: Files, log: Logger) {
  const { host, targets, isTls } = upstreamTargets(upstream.url, []);
  const [target] = targets;
  if (target === undefined) throw new Error("a URL without a target");
  const tls = isTls ? await openTls(upstream, host, files, log) : null;
  // No request is repeated, so each needs a connection that cannot be closing. Undici takes no 0: see `ProxiedRequest`.
  const keepAliveTimeout = Math.max(1, freshMsOf(upstream.keepAliveMs));
  const pool = new Pool(new URL(upstream.url).origin, {
    connections: upstream.maxConnections,
    pipelining: 1,
    headersTimeout: upstream.responseTimeoutMs,
    bodyTimeout: upstream.bodyTimeoutMs,
    maxHeaderSize: upstream.maxHeaderBytes,
    keepAliveTimeout,
    // By default an upstream's hint can make it ten minutes.
    keepAliveMaxTimeout: keepAliveTimeout,
    keepAliveTimeoutThreshold: 1_000,
    // Undici reads streams.
    connect: connector({ ...target, tls, timeoutMs: upstream.connectTimeoutMs, isStream: true }),
  });
  return {
    pool,
    close() {
      void pool.destroy();
      tls?.close();
    },
  };
}

async function openTls({ tls }: UpstreamHostSettings, host: string, files: Files, log: Logger): Promise<UpstreamTls> {
  const events = createFileLog<SecureContext>(log, "files of upstream.tls");
  return new UpstreamTls(tls, host, await files.open(outboundTlsFiles("upstream.tls", tls), events));
}

function connector(options: Parameters<typeof openSocket>[0]): buildConnector.connector {
  return (_options, done) => {
    openSocket(options, (error, reader) => {
      if (reader === null) {
        done(error ?? new Error("no connection"), null);
        return;
      }
      reader.socket.allowHalfOpen = false;
      reader.socket.on("error", renameReset);
      readAfterFailedWrite(reader.socket, options.tls === null, () => true);
      done(null, reader.socket);
    });
  };
}

/** Undici takes an ECONNRESET for the end of a response without a length, and would pass an incomplete one on as complete. */
function renameReset(error: NodeJS.ErrnoException): void {
  if (error.code === "ECONNRESET") error.code = "UPSTREAM_RESET";
}
