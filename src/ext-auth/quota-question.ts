// What an ingress asks about a quota alone: which request of which client, by which policy, and how often it counts. The
// ingress names everything itself, and is trusted with it.
import type { HeaderList } from "../core/header-list.ts";

export interface QuotaQuestion {
  /** The client's address as the ingress sees it, with a port or without. It is the peer of the request. */
  readonly peerAddress: string;
  readonly method: string;
  readonly target: string;
  /** The token, and what else keys of policies are made of. */
  readonly rawHeaders: HeaderList;
  /** Null: not told. */
  readonly subject: string | null;
  readonly claims: ReadonlyMap<string, string>;
  /** The only policy that is asked; null: all that apply. */
  readonly policy: string | null;
  /** At least 1. */
  readonly hits: number;
}
