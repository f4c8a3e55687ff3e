// The spellings of a path that all backends read in the same way. Each expression takes linear time.

/**
 * An escape of any byte except control bytes, # % . / ; ? \ and those that begin overlong UTF-8: c0, c1, and e0 and f0
 * before some bytes.
 */
const harmlessEscape =
  "%(?:2[0-246-9a-dA-D]|3[0-9ac-eAC-E]|[46][0-9a-fA-F]|5[0-9abd-fABD-F]|7[0-9a-eA-E]|[89abdABD][0-9a-fA-F]|" +
  "[cC][2-9a-fA-F]|[efEF][1-9a-fA-F]|[eE]0%[abAB][0-9a-fA-F]|[fF]0%[9abAB][0-9a-fA-F])";

// A path of these characters, without empty or dot segments, has one reading, because case is always folded; unless it
// has a `droppedEnd`.
export const plainPath = /^(?:\/[A-Za-z0-9_~!$&'()*+,=:@-][A-Za-z0-9._~!$&'()*+,=:@-]*)*\/?$/;
// The same with harmless escapes, such as blanks and the letters of any language: no backend reads them as a separator,
// a dot or the end of a path.
export const plainWithEscapes = new RegExp(
  `^(?:/(?:[A-Za-z0-9_~!$&'()*+,=:@-]|${harmlessEscape})(?:[A-Za-z0-9._~!$&'()*+,=:@-]|${harmlessEscape})*)*/?$`,
);
// The same with dot segments: all backends resolve them in the same way, or not at all.
export const plainPathWithDots = /^(?:\/[A-Za-z0-9._~!$&'()*+,=:@-]+)*\/?$/;
// A name with a dot or a blank at its end, which Windows drops.
export const droppedEnd = /(?:\.|%20)(?:\/|$)/;
