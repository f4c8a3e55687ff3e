// Writes the wire format of protobuf as a string in which each character is one byte: a nested message is preceded by its
// length, which a string knows. All texts of the gateway are ASCII. A default value takes no bytes, as the format
// recommends.

export function numberField(field: number, value: number): string {
  return value === 0 ? "" : varint(field * 8) + varint(value);
}

export function textField(field: number, text: string): string {
  return text === "" ? "" : messageField(field, text);
}

/** `content` is the concatenation of the message's fields. An empty message is written too. */
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
