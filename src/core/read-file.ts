// How the parts that keep rereading a file are given the reading of it.

/** Rejects with what the system says, or because it is no regular file, without waiting for whoever writes to a pipe. */
export type ReadFile = (path: string, encoding: "utf8" | "latin1") => Promise<string>;
