import type { ThrownError } from '@wellspring/component/program/program-types';

/**
 * A frame of the author's own code in a stack, such as `/app/component.js:3:9`, or of an imported module, such as
 * `module:https://example.com/lib.mjs:3:9`. Paths are bounded: code may set any stack.
 */
const OWN_FRAME = /(?:module:(?:folder:\/\/\/)?|\/app\/(?!node_modules\/))([^\s()]{1,1024}:\d{1,9}:\d{1,9})/;

/** The first frame of the author's own code. */
export const placeOf = ({ stack }: ThrownError): string | undefined => OWN_FRAME.exec(stack)?.[1];

/** An object after an error, or the end of an element of an array. */
const END = /(?: \{|,)$/;

/** The first line of a cause as Node.js prints it; of several causes, those of all. */
function causesOf(cause: string): string {
  const lines = cause.split('\n');
  const heads = lines[0] === '[' ? lines.filter((line) => /^ {2}[^\s}]/.test(line)) : lines.slice(0, 1);
  return heads.map((line) => line.trim().replace(END, '')).join('; ');
}

/** Messages of Node.js, `bindings` and `node-gyp-build` about a native addon that is missing or of another platform. */
const NO_ADDON =
  /Cannot find module '[^'\n]*\.node'|Could not locate the bindings file|invalid ELF header|No native build was found/;
const NOT_BUILT = 'scripts of packages do not run, so packages that need a build script cannot be used';

/** Message for the author, with the cause and the place: "fetch failed (Error: connect ECONNREFUSED …) (component.js:3:9)". */
export function describeFailure(error: ThrownError): string {
  const { name, message, cause } = error;
  const notes = [
    cause === undefined ? undefined : causesOf(cause),
    placeOf(error),
    NO_ADDON.test(message) ? NOT_BUILT : undefined,
  ];
  return [message || name, ...notes.filter((note) => note).map((note) => `(${note})`)].join(' ');
}
