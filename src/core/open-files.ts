// Whether the bounds on connections fit into the files a process may have open: each connection is one of them. Where
// they do not, fewer clients are let in, so that they are refused with an answer instead of by the system without one.
import type { Settings } from "./settings.ts";

/** What the process needs for itself, for the admin listener, and for refused connections that are still open. */
const ownFiles = 100;

export interface OpenFiles {
  /** What all bounds together can take. */
  readonly needed: number;
  /** `listen.maxConnections`, or fewer. */
  readonly maxConnections: number;
}

export function fitOpenFiles(maxOpenFiles: number, { listen, upstream, upgrade, extAuth }: Settings): OpenFiles {
  // A tunnel has a connection to the upstream besides the client's.
  const callers = (extAuth.http?.maxConnections ?? 0) + (extAuth.grpc?.maxConnections ?? 0);
  const others = upstream.maxConnections + upgrade.maxTunnels + callers + ownFiles;
  // The others seldom take all of theirs: under a low bound half of the files go to clients.
  const fitting = Math.max(maxOpenFiles - others, Math.floor(maxOpenFiles / 2));
  return { needed: listen.maxConnections + others, maxConnections: Math.min(listen.maxConnections, fitting) };
}
