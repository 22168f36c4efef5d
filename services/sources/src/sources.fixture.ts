import { afterEach, beforeEach } from '@jest/globals';
import { deployments, endpoints, sources, timers } from '@wellspring/store/collections/sources';
import { ALICE } from '@wellspring/testing/service-harness';
import { code, createTestbed, type Testbed } from './platform.fixture.ts';

export interface Shown {
  id: string;
  component_id: string;
  name: string;
  name_slug: string;
  active: boolean;
  configured_props: Record<string, Record<string, unknown> & string>;
}

export let bed: Testbed;
beforeEach(async () => {
  bed = await createTestbed();
});
afterEach(() => bed.close());

export const create = (input: Record<string, unknown> = {}, principal = ALICE) =>
  bed.invoke<Shown>('createSource', {}, { component_code: code(), ...input }, principal);
export const update = (id: string, input: Record<string, unknown>, principal = ALICE) =>
  bed.invoke<Shown>('updateSource', { id }, input, principal);
export const read = (id: string, principal = ALICE) => bed.invoke<Shown>('getSource', { id }, {}, principal);
export const names = () => bed.hooks.map((line) => line.split(' ')[0]);
export const leftovers = async () => {
  const counts = [sources, deployments, endpoints, timers].map((each) =>
    bed.store.collection(each as typeof sources).count(),
  );
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
};
