import { writeFileSync } from "node:fs";
import { chartFiles } from "./chart-files.ts";

for (const [path, text] of chartFiles()) writeFileSync(new URL(`../headgate/${path}`, import.meta.url), text);
