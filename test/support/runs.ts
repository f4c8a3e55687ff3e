// How often a property is tried: in full by `npm run test:long`, which lists the files, and a fifth as often by `npm test`.

export const runs = (full: number): { readonly numRuns: number } => ({ numRuns: scaled(full) });

/** A number that grows with the runs, such as how often something must have happened in them. */
export const scaled = (full: number): number => (process.env["HEADGATE_RUNS"] === "full" ? full : Math.ceil(full / 5));
