// Properties draw the same inputs in each run, so that a result depends on the code alone. HEADGATE_SEED=<number> draws
// others.
import fc from "fast-check";

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(process.env["HEADGATE_SEED"] ?? 1) });
