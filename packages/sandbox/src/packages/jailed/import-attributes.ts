import vm from 'node:vm';

/** `from './x.json' assert { type: 'json' }`, and the same of `import './x.json'`. */
const STATIC =
  /((?:\bfrom|\bimport)\s*(?:"[^"\n]*"|'[^'\n]*')\s*)assert(\s*\{\s*(?:type|"type"|'type')\s*:)/g;
/** `import('./x.json', { assert: { type: 'json' } })` */
const DYNAMIC =
  /(\bimport\s*\(\s*(?:"[^"\n]*"|'[^'\n]*')\s*,\s*\{\s*)assert(\s*:\s*\{\s*(?:type|"type"|'type')\s*:)/g;

function parses(text: string): boolean {
  try {
    new vm.SourceTextModule(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * Replaces the keyword `assert` of import attributes, which Node.js no longer accepts, with `with`. Static imports are
 * changed only if the file parses with the change and not without it, so that strings that look like imports stay
 * unchanged. Needs the flag --experimental-vm-modules.
 */
export function modernAttributes(content: Buffer): Buffer {
  if (!content.includes('assert')) return content;
  const text = content.toString('utf8');
  const dynamic = text.replace(DYNAMIC, '$1with$2');
  const modern = dynamic.replace(STATIC, '$1with$2');
  if (modern !== dynamic && !parses(dynamic) && parses(modern)) return Buffer.from(modern);
  return dynamic === text ? content : Buffer.from(dynamic);
}
