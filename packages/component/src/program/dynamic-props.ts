import { type Fields, isFields } from '../fields.ts';
import { attributesOf } from './define.ts';

/** Maximum of calls of additionalProps: the default of a dynamic prop may lead to further props. */
const MAX_ROUNDS = 5;

/** Copies with all attributes: additionalProps may change the props it is given. */
function copied(props: Fields): Fields {
  const copy: Fields = {};
  for (const [name, prop] of Object.entries(props)) {
    const { propDefinition } = isFields(prop) ? prop : {};
    copy[name] = { ...attributesOf(name, prop), ...(propDefinition === undefined ? {} : { propDefinition }) };
  }
  return copy;
}

/**
 * The props of a component and of its additionalProps method. A returned prop replaces a static one of the same name; the
 * method may also change the static props, which are its argument.
 * Called again when a new prop that reloads the props has a default. Sets such defaults on `self`.
 */
export async function withDynamicProps(component: Fields, self: Fields): Promise<Fields> {
  const fixed = isFields(component.props) ? component.props : {};
  const { additionalProps } = component;
  if (typeof additionalProps !== 'function') return fixed;
  let props = fixed;
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const given = copied(props);
    const returned: unknown = (await additionalProps.call(self, given)) ?? {};
    if (!isFields(returned)) throw new Error('additionalProps has to return an object of props.');
    const changed = Object.entries(given).filter(([name]) => Object.hasOwn(fixed, name));
    props = { ...fixed, ...Object.fromEntries(changed), ...returned };
    if (!setDefaults(returned, fixed, self)) break;
  }
  return props;
}

/** Whether a dynamic prop that reloads the props got its default. */
function setDefaults(props: Fields, fixed: Fields, self: Fields): boolean {
  let changed = false;
  for (const [name, prop] of Object.entries(props)) {
    if (Object.hasOwn(fixed, name) || self[name] !== undefined) continue;
    const attributes = attributesOf(name, prop);
    if (attributes.reloadProps !== true || attributes.default === undefined) continue;
    self[name] = attributes.default;
    changed = true;
  }
  return changed;
}
