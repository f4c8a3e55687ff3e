// `npm run api`: writes the reference of all calls in docs/api.md. A test fails if it is not up to date.
import { readFileSync, writeFileSync } from "node:fs";
import { apiReference } from "./api-reference.ts";

const begin = "<!-- all calls: npm run api -->\n";
const end = "<!-- end of all calls -->";
const page = new URL("../../docs/api.md", import.meta.url);

const reference = await apiReference();
const text = readFileSync(page, "utf8");
writeFileSync(page, text.slice(0, text.indexOf(begin) + begin.length) + reference + text.slice(text.indexOf(end)));
