// Reads server-sent events of the admin API from the bytes of an answer. The data of each is JSON.
// https://html.spec.whatwg.org/multipage/server-sent-events.html
import type { ControlEvent } from "../../admin/control-plane.ts";

/** Longer than any event of a gateway; what is longer is no stream of it. */
const maxEventLength = 1024 * 1024;

/** Throws a RangeError if an event is too long, and a SyntaxError if its data is no JSON. */
export async function* readEvents(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ControlEvent> {
  const decoder = new TextDecoder();
  let data: string[] = [];
  let length = 0;
  let rest = "";
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const written of lines) {
      const line = written.replace(/\r$/, "");
      const [, value] = /^data: ?(.*)$/s.exec(line) ?? [];
      length += line.length;
      if (value !== undefined) data.push(value);
      if (line === "" && data.length > 0) yield JSON.parse(data.join("\n")) as ControlEvent;
      if (line === "") [data, length] = [[], 0];
    }
    if (length + rest.length > maxEventLength) throw new RangeError("an event is longer than 1 MiB");
  }
}
