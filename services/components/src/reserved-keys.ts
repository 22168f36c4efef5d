import type { Definition } from '@wellspring/contract/definition';
import { endpoints } from '@wellspring/contract/endpoints/all';
import { invalidComponent } from '@wellspring/core/problem';

const LITERAL = /^\/components\/([^/{]+)$/;

/** Keys whose path, `/components/{key}`, belongs to another call, which would hide the component. */
const RESERVED: ReadonlySet<string | null> = new Set(
  Object.values(endpoints).flatMap(({ path }) => LITERAL.exec(path)?.[1] ?? []),
);

/**
 * @param param contains or locates the code
 * @throws Problem 400
 */
export function assertPublishable({ key }: Definition, param: string): void {
  if (RESERVED.has(key)) {
    throw invalidComponent(
      `The key of the component must not be ${key}: /components/${key} is another call.`,
      param,
    );
  }
}
