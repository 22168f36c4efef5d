import type { PropDescriptor } from '@wellspring/contract/definition';
import type { DeploymentRow } from '@wellspring/store/collections/sources';
import type { Deps } from './deps.ts';

/** Values of secret props: sealed in the rows of deployments. */

type Values = Record<string, unknown>;

/** Precedes the sealed JSON text of a value that is not a string. A sealed string never begins with it. */
const JSON_MARK = 'json:';

/** The schedule of a timer is not hidden: the API shows it. */
const isSecret = ({ secret, type }: PropDescriptor) => secret === true && type !== '$.interface.timer';

function mapSecrets(
  props: readonly PropDescriptor[],
  values: Values,
  change: (value: unknown) => unknown,
): Values {
  const changed = { ...values };
  for (const prop of props) {
    if (isSecret(prop) && Object.hasOwn(changed, prop.name)) changed[prop.name] = change(changed[prop.name]);
  }
  return changed;
}

/** @param emitterId the source or workflow that is deployed */
export const sealValues = (
  { seal }: Pick<Deps, 'seal'>,
  props: readonly PropDescriptor[],
  values: Values,
  emitterId: string,
): Values =>
  mapSecrets(props, values, (value) =>
    typeof value === 'string'
      ? seal.seal(value, emitterId)
      : `${JSON_MARK}${seal.seal(JSON.stringify(value), emitterId)}`,
  );

/** Values of a deployment with its secrets in clear. */
export const openValues = (
  { seal }: Pick<Deps, 'seal'>,
  { source_id, definition, configured_props }: DeploymentRow,
): Values =>
  mapSecrets(definition.props, configured_props, (value) => {
    // Earlier versions sealed strings only.
    if (typeof value !== 'string') return value;
    if (!value.startsWith(JSON_MARK)) return seal.open(value, source_id);
    return JSON.parse(seal.open(value.slice(JSON_MARK.length), source_id));
  });

/** The texts and numbers in the values of secret props, which logs must not show. */
export const secretTexts = (props: readonly PropDescriptor[], values: Values): string[] =>
  props
    .filter((prop) => isSecret(prop) && Object.hasOwn(values, prop.name))
    .flatMap(({ name }) => textsIn(values[name]));

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value === 'number') return [String(value)];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}
