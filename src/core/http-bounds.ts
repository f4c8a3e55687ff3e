// Bounds of messages and of connections of HTTP, whoever reads them: clients with their requests, and ingresses with their
// checks.

/** Of a request head: request line and headers together, as Node counts them. */
export const maxHeadBytes = 16 * 1024;

/** Of a request head. */
export const maxFields = 200;

/** Of HTTP/1.1: how long bytes are read and discarded after the last response, so that it is read (RFC 9112, 9.6). */
export const lingerMs = 2_000;

/** With so many bytes of requests waiting, the socket is not read. One read of the socket may exceed it. */
export const maxUnreadBytes = 64 * 1024;
