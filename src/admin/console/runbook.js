// One section of docs/runbooks.md, which the gateway serves with the page: what to do about a problem. Its Markdown becomes
// elements; links to other sections lead there, and other links are text, because those pages are not served.
import { encoded } from "./format.js";
import { html } from "./html.js";
import { usePoll } from "./live.js";
import { Missing, Wide } from "./parts.js";

export function RunbookView({ session: { api }, about }) {
  const { value, error } = usePoll(() => api.file("runbooks.md"), 3_600_000);
  if (value === null) return html`<${Missing} value=${value} error=${error} />`;
  const sections = value.split(/^## /m).slice(1);
  const titles = sections.map((section) => section.slice(0, section.indexOf("\n")));
  const section = sections[titles.findIndex((title) => slugOf(title) === slugOf(about))];
  if (section === undefined)
    return html`<h1>Runbooks</h1><ul class="runbooks">${titles.map((title) => html`<li>${linkTo(title, title)}</li>`)}</ul>`;
  const [title, ...lines] = section.split("\n");
  return html`<article class="runbook"><h1>${title}</h1>${blocksOf(lines).map(block)}</article>`;
}

function slugOf(title) {
  return title.toLowerCase().replaceAll(" ", "-");
}

function linkTo(slug, text) {
  return html`<a href=${`#/runbook/${encoded(slugOf(slug))}`}>${text}</a>`;
}

/** Lines that belong together; lines of code keep their empty ones. */
function blocksOf(lines) {
  const blocks = [[]];
  let isCode = false;
  for (const line of lines) {
    if (line.trimStart().startsWith("```")) isCode = !isCode;
    const begins = /^(?:- |\d+\. |#|\|)/.test(line) && !(line.startsWith("|") && blocks.at(-1)[0]?.startsWith("|"));
    if (!isCode && (line === "" || begins)) blocks.push([]);
    if (line !== "" || isCode) blocks.at(-1).push(line);
  }
  return blocks.filter((block) => block.length > 0);
}

function block(lines) {
  const [first] = lines;
  if (first.startsWith("|")) return table(lines);
  const code = lines.findIndex((line) => line.trimStart().startsWith("```"));
  if (code !== -1) {
    const end = lines.findLastIndex((line) => line.trimStart().startsWith("```"));
    const text = lines.slice(code + 1, end).join("\n");
    return html`${code > 0 && block(lines.slice(0, code))}<pre><code>${text}</code></pre>`;
  }
  const text = lines.map((line) => line.trim()).join(" ");
  const item = /^(- |\d+\. )(.*)$/.exec(text);
  if (item !== null)
    return html`<p class="item"><span>${item[1] === "- " ? "•" : item[1]}</span><span>${inline(item[2])}</span></p>`;
  if (first.startsWith("#")) return html`<h2>${text.replace(/^#+ /, "")}</h2>`;
  return html`<p>${inline(text)}</p>`;
}

function table([head, , ...rows]) {
  const cells = (line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => inline(cell.trim()));
  return html`<${Wide} label="Table" columns=${cells(head).map((cell) => [cell])}>
    ${rows.map((row) => html`<tr>${cells(row).map((cell) => html`<td>${cell}</td>`)}</tr>`)}
  <//>`;
}

/** Code, bold, emphasis and links. */
function inline(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*]+\*|\[[^\]]+\]\([^)]+\))/).map((part) => {
    if (part.startsWith("`")) return html`<code>${part.slice(1, -1)}</code>`;
    if (part.startsWith("**")) return html`<b>${part.slice(2, -2)}</b>`;
    const link = /^\[([^\]]+)\]\(([^)]+)\)$/.exec(part);
    if (link !== null)
      return link[2].startsWith("#") ? linkTo(link[2].slice(1), inline(link[1])) : html`<i>${inline(link[1])}</i>`;
    return /^\*[^*]+\*$/.test(part) ? html`<i>${part.slice(1, -1)}</i>` : part;
  });
}
