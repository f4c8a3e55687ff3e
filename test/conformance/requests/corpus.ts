// The whole request corpus, as data.
import { hostile } from "./hostile.ts";
import type { RequestCase } from "./request-case.ts";
import { rfc9110 } from "./rfc9110.ts";
import { rfc9112 } from "./rfc9112.ts";

export const requestCases: readonly RequestCase[] = [...rfc9112, ...rfc9110, ...hostile];
