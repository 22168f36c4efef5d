import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from '@jest/globals';

const ROOT = join(import.meta.dirname, '../../..');
const documents = globSync(['*.md', 'docs/**/*.md', '{packages,services}/*/README.md', 'examples/*.md'], {
  cwd: ROOT,
});

const LINK = /\]\((?!https?:|mailto:)([^)#\s]+)/g;
const PATH = /`((?:packages|services|docs|deploy|bench|examples|\.ci)\/[\w./-]+)`/g;
/** A file of the package whose README names it. */
const FILE = /`([\w.-]+(?:\/[\w.-]+)*(?:\.ts|\.mjs|\/))`/g;

const matches = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, path]) => path!);

/** Paths that a document names and that do not exist, relative to the root. */
function missingPaths(document: string): string[] {
  const text = readFileSync(join(ROOT, document), 'utf8');
  const directory = dirname(document);
  const isPackage = /^(packages|services)\//.test(document);
  const candidates = [
    ...matches(text, LINK).map((path) => [join(directory, path)]),
    ...matches(text, PATH).map((path) => [path]),
    ...(isPackage
      ? matches(text, FILE).map((path) => [join(directory, 'src', path), join(directory, path)])
      : []),
  ];
  return candidates
    .filter((paths) => !paths.some((path) => existsSync(join(ROOT, path))))
    .map(([path]) => path!);
}

test('documents are found', () => {
  expect(documents.length).toBeGreaterThan(40);
});

test.each(documents)('%s names only files that exist', (document) => {
  expect(missingPaths(document)).toEqual([]);
});
