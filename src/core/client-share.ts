// What the clients share. One client may have all of it while nobody else asks; otherwise it may have to give back what
// exceeds its share.

export const sharedResources = [
  "connections", // to the upstream
  "queue", // places of requests that wait for such a connection
  "tunnels",
] as const;

export type SharedResource = (typeof sharedResources)[number];

/** Called with each request or tunnel that is refused or ended for the sake of other clients. */
export type OnShareExceeded = (resource: SharedResource, client: string) => void;
