// The headers of a message as they stand on the wire, which keeps their order, spelling and number.

/** name, value, name, value…; one character is one byte. */
export type HeaderList = readonly string[];
