// The answers on one client connection, read strictly to the last byte: what is no whole answer, or has not all of the
// gateway's fields exactly once, is said.
import { sixFields } from "../../support/contract-fields.ts";
import { type Field, readChunks, readHead, readLength, valuesIn, visible } from "./strict-message.ts";

export interface Answer {
  readonly status: number;
  readonly fields: readonly Field[];
  readonly body: string;
  /** False if the connection ended inside of it. */
  readonly isWhole: boolean;
}

export interface Answers {
  readonly final: readonly Answer[];
  /** What is wrong with them; empty if nothing is. */
  readonly flaws: readonly string[];
}

/** `mayLackBody`: a HEAD may be among the requests. */
export function readAnswers(bytes: string, mayLackBody: boolean): Answers {
  const final: Answer[] = [];
  const flaws: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    const head = readHead(bytes, at);
    const status = Number(/^HTTP\/1\.1 ([1-9]\d\d) /.exec(head?.line ?? "")?.[1]);
    if (head === null || Number.isNaN(status)) {
      flaws.push(`no answer in ${JSON.stringify(bytes.slice(at, at + 200))}`);
      break;
    }
    if (!visible.test(head.line)) flaws.push(`the line ${JSON.stringify(head.line)}`);
    if (status < 200 && status !== 101) {
      at = head.end;
      continue;
    }
    flaws.push(...fieldFlaws(head.fields));
    const { text, end, isWhole } = readBody(bytes, head.end, status, head.fields, mayLackBody);
    final.push({ status, fields: head.fields, body: text, isWhole });
    if (!isWhole) break;
    at = end;
  }
  return { final, flaws };
}

function readBody(bytes: string, start: number, status: number, fields: readonly Field[], mayLackBody: boolean) {
  const none = { text: "", end: start, isWhole: true };
  const isNext = start === bytes.length || bytes.startsWith("HTTP/1.1 ", start);
  if (status === 204 || status === 304 || status === 101 || (mayLackBody && isNext)) return none;
  if (valuesIn(fields, "transfer-encoding").length > 0) return readChunks(bytes, start);
  const [length] = valuesIn(fields, "content-length");
  return readLength(bytes, start, length === undefined ? bytes.length - start : Number(length));
}

function fieldFlaws(fields: readonly Field[]): string[] {
  const names = fields.map(([name]) => name);
  const own = [...sixFields, "Date"].flatMap((name) => {
    const found = names.filter((other) => other.toLowerCase() === name.toLowerCase());
    return found.length === 1 && found[0] === name ? [] : [`${name} stands there ${found.length} times`];
  });
  const framing = names.filter((name) => /^(?:content-length|transfer-encoding)$/i.test(name));
  return framing.length > 1 ? [...own, `framed as ${framing.join(" and ")}`] : own;
}
