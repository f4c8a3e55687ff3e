// The resources that all clients share. One client may use all of a resource while no other client needs it. Otherwise
// the client may have to give back what exceeds its share.

export const sharedResources = [
  "connections", // to the upstream
  "queue", // places of requests that wait for such a connection
  "tunnels",
] as const;

export type SharedResource = (typeof sharedResources)[number];

/** Called for each request or tunnel that is refused or ended because other clients wait. */
export type OnShareExceeded = (resource: SharedResource, client: string) => void;
