// `npm run api`: writes the reference of all calls in docs/api.md, of all commands in docs/commands.md, of all metrics in
// docs/metrics.md, of all fields of the access log in docs/logs.md and of all other lines of the log in docs/log-lines.md. A
// test fails if one is not up to date.
import { readFileSync, writeFileSync } from "node:fs";
import { apiReference } from "./api-reference.ts";
import { commandReference } from "./command-reference.ts";
import { logFieldReference } from "./log-field-reference.ts";
import { logReference } from "./log-reference.ts";
import { metricReference } from "./metric-reference.ts";

function write(name: string, subject: string, reference: string): void {
  const page = new URL(`../../docs/${name}`, import.meta.url);
  const [begin, end] = [`<!-- ${subject}: npm run api -->\n`, `<!-- end of ${subject} -->`];
  const text = readFileSync(page, "utf8");
  writeFileSync(page, text.slice(0, text.indexOf(begin) + begin.length) + reference + text.slice(text.indexOf(end)));
}

write("api.md", "all calls", await apiReference());
write("commands.md", "all commands", commandReference());
write("metrics.md", "all metrics", await metricReference());
write("log-lines.md", "all log lines", logReference());
write("logs.md", "all fields", logFieldReference());
