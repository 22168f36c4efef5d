import { jsonTextOf } from '@wellspring/core/json-text';
import type { ComponentRow } from '@wellspring/store/collections/components';
import { unpackText } from '@wellspring/store/packed-text';

/** A component as the API shows it. */
export const presentComponent = async ({
  id,
  code,
  code_hash,
  definition,
  source_url,
  created_at,
  updated_at,
}: ComponentRow) => ({
  id,
  // Up to megabytes.
  code: (await jsonTextOf(await unpackText(code))) as unknown as string,
  code_hash,
  name: definition.name,
  key: definition.key,
  version: definition.version,
  type: definition.type,
  description: definition.description,
  component_url: source_url,
  configurable_props: definition.props,
  created_at,
  updated_at,
});
