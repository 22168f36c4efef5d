import { endpoints } from '@wellspring/contract/endpoints/all';
import { LIMITS } from '@wellspring/contract/limits';
import { contractFields, contractParameters } from './contract.ts';
import { ENDPOINT_TESTS } from './endpoints.ts';
import { RESOURCE_FIELDS } from './fields.ts';
import { FURTHER_LIMITS } from './further-limits.ts';
import { LIMIT_RULES } from './limits.ts';
import { PARAMETER_RULES } from './parameters.ts';
import type { Rule, Section, Shown } from './row.ts';
import { SECTIONS } from './sections.ts';

const PREFIX = { public: '/v1', operator: '/admin/v1' } as const;

const cell = (text: string) => text.replaceAll('|', '\\|');
const code = (text: string) => `\`${text}\``;

/** @throws Error that names everything of the contract without a row, and rows without anything in the contract */
function compare(what: string, contract: readonly string[], rows: readonly string[]): void {
  const missing = contract.filter((name) => !rows.includes(name));
  const obsolete = rows.filter((name) => !contract.includes(name));
  if (missing.length > 0)
    throw new Error(`Without a row in packages/tools/src/coverage: ${what} ${missing.join(', ')}`);
  if (obsolete.length > 0) throw new Error(`Not in the contract: ${what} ${obsolete.join(', ')}`);
}

/** @throws Error unless every endpoint, parameter, field and limit of the contract has a row */
export function checkComplete(): void {
  compare('endpoint', Object.keys(endpoints), Object.keys(ENDPOINT_TESTS));
  compare('limit', Object.keys(LIMITS), Object.keys(LIMIT_RULES));
  compare('parameter', contractParameters(), Object.keys(PARAMETER_RULES));
  const fields = contractFields();
  compare('resource', Object.keys(fields), Object.keys(RESOURCE_FIELDS));
  for (const [name, paths] of Object.entries(fields))
    compare(`field of ${name}:`, paths, Object.keys(RESOURCE_FIELDS[name]!.fields));
}

/** Every row as a rule, by section. */
export function coverageSections(): Section[] {
  checkComplete();
  const endpointRules = Object.values(endpoints).map(
    ({ operationId, listener, method, path, summary }): Rule => ({
      rule: `${code(`${method} ${PREFIX[listener]}${path}`)} ${summary}`,
      shownBy: ENDPOINT_TESTS[operationId as keyof typeof ENDPOINT_TESTS],
    }),
  );
  const parameterRules = Object.entries(PARAMETER_RULES).map(
    ([name, { rule, shownBy }]): Rule => ({ rule: `${code(name)} ${rule}`, shownBy }),
  );
  const fieldRules = Object.entries(RESOURCE_FIELDS).flatMap(([resource, { fields, shownBy, except = {} }]) =>
    Object.entries(fields).map(
      ([path, meaning]): Rule => ({
        rule: `${code(`${resource}.${path}`)} ${meaning}`,
        shownBy: except[path] ?? shownBy,
      }),
    ),
  );
  return [
    { title: 'Endpoints', rules: endpointRules },
    { title: 'Parameters', rules: parameterRules },
    { title: 'Fields', rules: fieldRules },
    ...SECTIONS,
    { title: 'Limits', rules: [...Object.values(LIMIT_RULES), ...FURTHER_LIMITS] },
  ];
}

const test = ({ file, title }: Shown) =>
  `[${file.slice(file.lastIndexOf('/') + 1)}](../${file}): ${cell(title.replaceAll('*', '\\*').replaceAll('<', '&lt;'))}`;

/** The rows as Markdown tables, a heading per section. @throws Error as `checkComplete` */
export const coverageMarkdown = (): string =>
  coverageSections()
    .map(({ title, rules }) =>
      [
        `## ${title}`,
        '',
        '| Rule | Shown by |',
        '|---|---|',
        ...rules.map(({ rule, shownBy }) => `| ${cell(rule)} | ${shownBy.map(test).join('<br>')} |`),
      ].join('\n'),
    )
    .join('\n\n');
