// Reports what a search found: the most expensive inputs of each class, measured again, with the longest turn of the
// event loop and the memory that the gateway keeps for them.
import type { InputClass } from "./classes.ts";
import type { FunctionSearch } from "./function-search.ts";
import type { Input } from "./input.ts";
import { type ClassSearch, type Finding, keptBytes, run, usPerRequest } from "./search.ts";
import type { Stage } from "./stage.ts";

export interface Verified extends Finding {
  readonly longestTurnUs: number;
  /** Of the heap and of buffers, for each connection while it stays open. */
  readonly keptBytes: number;
}

export interface ClassReport {
  readonly name: string;
  readonly inputs: number;
  /** An ordinary request of 120 and of 16,000 bytes. */
  readonly ordinaryUs: readonly [number, number];
  readonly findings: readonly Verified[];
}

const reported = 5;

export async function reportOn(search: ClassSearch, watched: Stage): Promise<ClassReport> {
  const findings: Verified[] = [];
  for (const finding of dearestOf(search)) {
    const verified = await search.verify(finding);
    findings.push({ ...verified, ...(await watch(search.inputClass, verified.input, watched)) });
  }
  const { inputs, ordinaryUs, inputClass } = search;
  findings.sort((a, b) => usPerRequest(b) - usPerRequest(a));
  return { name: inputClass.name, inputs, ordinaryUs, findings };
}

/** Those with the most CPU for a request, and the one with the most CPU for the whole input. */
export function dearestOf(search: ClassSearch): readonly Finding[] {
  return [...new Set([...search.findings().slice(0, reported), ...search.findings("input").slice(0, 1)])];
}

async function watch(inputClass: InputClass, input: Input, stage: Stage) {
  const { gateway } = await stage.running(inputClass.profile);
  // Warms the gateway up, and discards the turns before.
  for (let i = 0; i < 3; i += 1) await run(stage, inputClass, input, one);
  await gateway.turns();
  await run(stage, inputClass, input, one);
  const { longestTurnUs } = await gateway.turns();
  return { longestTurnUs, keptBytes: await keptBytes(stage, inputClass, input) };
}

const one = { connections: 1, calmMs: 30 };

/** As a table in Markdown. */
export function tableOf(classes: readonly ClassReport[]): string {
  const lines = [
    "| class | inputs tried | most CPU for one request | bytes of it | × ordinary | most CPU for an input | longest turn | memory for each connection | answer |",
  ];
  lines.push("|---|---|---|---|---|---|---|---|---|");
  for (const { name, inputs, findings } of classes) {
    const [dearest] = findings;
    if (dearest === undefined) continue;
    const { bytes, requests, timesOrdinary, longestTurnUs, outcome } = dearest;
    const turn = Math.max(...findings.map((each) => each.longestTurnUs));
    const input = Math.max(...findings.map(({ cpuUs }) => cpuUs));
    const kept = Math.max(...findings.map((each) => each.keptBytes));
    lines.push(
      `| ${name} | ${inputs} | ${ms(usPerRequest(dearest))} ms | ${Math.round(bytes / requests)} | ${timesOrdinary.toFixed(1)} ` +
        `| ${ms(input)} ms | ${ms(Math.max(turn, longestTurnUs))} ms | ${Math.round(kept / 1024)} KiB | ${outcome} |`,
    );
  }
  return `${lines.join("\n")}\n`;
}

export function tableOfFunctions(searches: readonly FunctionSearch[]): string {
  const lines = ["| function | inputs tried | most CPU | bytes | cost at twice the size |", "|---|---|---|---|---|"];
  for (const search of searches) {
    const [dearest] = search.findings
      .slice(0, reported)
      .map((finding) => search.verify(finding))
      .sort((a, b) => b.us - a.us);
    if (dearest === undefined) continue;
    const { us, bytes, growth } = dearest;
    lines.push(`| ${search.function.name} | ${search.inputs} | ${ms(us)} ms | ${bytes} | × ${growth.toFixed(1)} |`);
  }
  return `${lines.join("\n")}\n`;
}

const ms = (us: number): string => (us / 1000).toFixed(2);
