// `npm run dashboard`: generates deploy/grafana/headgate.json from the files in this folder. A test fails while the two
// differ.
import { writeFileSync } from "node:fs";
import { dashboardText } from "./dashboard.ts";

writeFileSync(new URL("../headgate.json", import.meta.url), dashboardText());
