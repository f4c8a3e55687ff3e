// The maximum size of a request head, the same for all protocols.

/** Request line and headers together, as Node counts them. */
export const maxHeadBytes = 16 * 1024;

export const maxFields = 200;
