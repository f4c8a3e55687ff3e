// Fits the bounds on connections into the maximum of open files of the process, since each connection is an open file.
// If they do not fit, the bound on client connections is lowered, so that clients get a 503 instead of no answer.
import { maxApiConnections } from "../admin/connections.ts";
import type { Settings } from "../core/settings.ts";

/** Open files of the process itself, of the admin listener, and of refused connections that are still open. */
const ownFiles = 100;
/** Open files of each thread, if there are several: its listeners, and what its event loop needs. */
const threadFiles = 10;

/** Returns the sum of all bounds as `needed`, and `listen.maxConnections` or less. */
export function fitOpenFiles(maxOpenFiles: number, settings: Settings) {
  const { listen, admin, upstream, upgrade, extAuth, workers } = settings;
  // A tunnel has a connection to the upstream besides the client's.
  const callers = (extAuth.http?.maxConnections ?? 0) + (extAuth.grpc?.maxConnections ?? 0);
  const hasApi = admin.tokensFile !== null || admin.socket !== null;
  const own = ownFiles + (hasApi ? maxApiConnections : 0) + (workers > 1 ? workers * threadFiles : 0);
  const others = upstream.maxConnections + upgrade.maxTunnels + callers + own;
  // The others rarely reach their bounds, so clients get at least half of the files.
  const fitting = Math.max(maxOpenFiles - others, Math.floor(maxOpenFiles / 2));
  return { needed: listen.maxConnections + others, maxConnections: Math.min(listen.maxConnections, fitting) };
}
