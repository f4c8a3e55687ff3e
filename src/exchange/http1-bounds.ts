// Bounds of connections of HTTP/1, whoever reads them: clients with their requests, and ingresses with their checks.

/** How long bytes are read and discarded after the last response, so that it is read (RFC 9112, 9.6). */
export const lingerMs = 2_000;

/** With so many bytes of requests waiting, the socket is not read. One read of the socket may exceed it. */
export const maxWaitingBytes = 64 * 1024;
