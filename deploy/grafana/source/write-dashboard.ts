// `npm run dashboard`: writes deploy/grafana/headgate.json anew from what stands beside this file. A test fails while
// the two differ.
import { writeFileSync } from "node:fs";
import { dashboardText } from "./dashboard.ts";

writeFileSync(new URL("../headgate.json", import.meta.url), dashboardText());
