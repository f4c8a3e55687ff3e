// `npm run schema`: writes anew what is made from the definition of the configuration: the JSON Schema, and the table
// in docs/configuration.md. A test fails while either differs from it.
import { readFileSync, writeFileSync } from "node:fs";
import { jsonSchemaText } from "./json-schema.ts";
import { configTable } from "./written.ts";

const begin = "<!-- config table: npm run schema -->\n";
const end = "<!-- end of config table -->";
const page = new URL("../../docs/configuration.md", import.meta.url);

writeFileSync(new URL("../../config/headgate.schema.json", import.meta.url), jsonSchemaText());
const text = readFileSync(page, "utf8");
writeFileSync(page, text.slice(0, text.indexOf(begin) + begin.length) + configTable() + text.slice(text.indexOf(end)));
