// Writes the wire format of protobuf as a text of one character for each byte, which one call turns into bytes: what is
// nested needs its length before it, and a text has one. All texts of the gateway are ASCII, so their characters are bytes.
// A value that is the default of its field takes no bytes, as the format asks for.

export function numberField(field: number, value: number): string {
  return value === 0 ? "" : varint(field * 8) + varint(value);
}

export function textField(field: number, text: string): string {
  return text === "" ? "" : messageField(field, text);
}

/** `content` is the concatenation of its fields. An empty message is there all the same. */
export function messageField(field: number, content: string): string {
  return varint(field * 8 + 2) + varint(content.length) + content;
}

function varint(value: number): string {
  let rest = value;
  let text = "";
  while (rest >= 128) {
    text += String.fromCharCode((rest % 128) + 128);
    rest = Math.floor(rest / 128);
  }
  return text + String.fromCharCode(rest);
}
