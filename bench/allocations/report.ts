// Allocations as tables: totals for the page, and the functions that allocate most for whoever makes them allocate less.
import { shown, table } from "../figures.ts";
import type { Allocations } from "./allocations.ts";

const longestList = 15;

export function allocationTable(allocations: readonly Allocations[]): string[] {
  const checkouts = [...new Set(allocations.map(({ checkout }) => checkout))];
  const rows = allocations.map((one) => {
    const cells = [shown(one.heapBytes, 0), shown(one.objects, 0), shown(one.bufferBytes, 0)];
    return `| ${one.title} | ${checkouts.length > 1 ? `${one.checkout} | ` : ""}${cells.join(" | ")} |`;
  });
  const head = `| request | ${checkouts.length > 1 ? "checkout | " : ""}bytes on the heap | objects | bytes of buffers |`;
  return table("Allocated for a request", head, rows);
}

export function topAllocations(allocations: readonly Allocations[]): string[] {
  return allocations.flatMap(({ checkout, title, places }) => {
    const rows = places
      .slice(0, longestList)
      .map(({ place, bytes, objects }) => `| ${place} | ${shown(bytes, 0)} | ${shown(objects, 1)} |`);
    return table(`${title}: who allocates (${checkout})`, "| function | bytes | objects |", rows);
  });
}
