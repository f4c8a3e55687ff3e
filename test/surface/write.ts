// `npm run surface`: records the public surface as that of the version that is released now.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { surface } from "./surface.ts";

writeFileSync(join(import.meta.dirname, "released.txt"), `${(await surface()).join("\n")}\n`);
