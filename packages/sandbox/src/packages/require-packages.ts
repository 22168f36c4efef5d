/** Marks a package that code loads with `require`; see REQUIRE. */
export const REQUIRED = 'required:';

/**
 * Code that wraps a function `require`. A package that has only ES modules is given as code of CommonJS expects it: as
 * its default export, with its named exports as properties.
 */
const WRAP = `((load) => Object.assign((id) => {
  if (!id.startsWith('${REQUIRED}')) return load(id);
  const loaded = load(id.slice(${REQUIRED.length}));
  if (Object.prototype.toString.call(loaded) !== '[object Module]' || !('default' in loaded)) return loaded;
  const main = loaded.default;
  if ((typeof main !== 'object' && typeof main !== 'function') || main === null) return loaded;
  return new Proxy(main, {
    has: (target, name) => name in target || name in loaded,
    get: (target, name) => name !== 'prototype' && name in loaded ? loaded[name] : target[name],
  });
}, load))`;

const oneLine = (code: string) => code.replace(/\n\s*/g, ' ');

/** The beginning of a bundle that contains such packages. */
export const REQUIRE = {
  esm: oneLine(
    `import { createRequire as createRequireOfBundle } from 'node:module'; const require = ${WRAP}(createRequireOfBundle(import.meta.url));`,
  ),
  cjs: oneLine(`require = ${WRAP}(require);`),
};
