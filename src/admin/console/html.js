// What all files use of Preact. Text in a template is text, never markup.
import htm from "./htm.js";
import { createElement } from "./preact.js";

export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./hooks.js";
export { render } from "./preact.js";

export const html = htm.bind(createElement);
