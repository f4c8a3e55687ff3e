// How large the head of a request may be, whatever its connection speaks: a client that is refused over one protocol is
// not let in over the other.

/** Request line and fields together; Node counts them as one. */
export const maxHeadBytes = 16 * 1024;

export const maxFields = 200;
