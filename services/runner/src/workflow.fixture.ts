import { newId } from '@wellspring/core/ids';
import { sealValues } from '@wellspring/runtime/secret-values';
import { deployments } from '@wellspring/store/collections/sources';
import { workflowDeployments, workflows } from '@wellspring/store/collections/workflows';
import { OWNER } from '@wellspring/testing/rows';
import { seal } from '@wellspring/testing/service-harness';
import type { Platform } from './platform.fixture.ts';
import { insertBundle } from './rows.fixture.ts';

export interface TestStep {
  name: string;
  /** Body of `run({$, steps})`. */
  body: string;
  /** Source text of props, and their values. */
  props?: string;
  values?: Record<string, unknown>;
}

/** A live workflow with these steps; a text is the body of a step named by its place: one, two, three. */
export async function deployWorkflow(
  t: Platform,
  ...steps: (TestStep | string)[]
): Promise<{ id: string; cells: string[] }> {
  const { store, prepare } = t;
  const [id, deployment_id] = [newId('p'), newId('d')];
  const deployed = [];
  for (const [at, step] of steps.entries()) {
    const named = typeof step === 'string' ? { name: ['one', 'two', 'three'][at]!, body: step } : step;
    const { name, body, props = '', values = {} }: TestStep = named;
    const code = `export default { name: '${name}', type: 'action', props: { ${props} }, async run({ $, steps }) { ${body} } };`;
    const prepared = await prepare(code);
    const { bundle_id, definition } = prepared;
    await insertBundle(t, prepared);
    const sealed = sealValues({ seal }, definition.props, values, id);
    const row = { id: newId('d'), source_id: id, component_id: 'sc_0000000000', bundle_id, definition };
    await store.collection(deployments).insert({ ...row, configured_props: sealed, created_at: 0 });
    deployed.push({ name, cell_id: newId('c'), deployment_id: row.id });
  }
  const row = { workflow_id: id, name: 'Tested', definition: '{}', steps: deployed, created_at: 0 };
  await store.collection(workflowDeployments).insert({ id: deployment_id, ...row });
  await store.collection(workflows).insert({
    id,
    owner_id: OWNER,
    name: 'Tested',
    source_id: 'dc_0000000000',
    made_source: false,
    deployment_id,
    status: 'live',
    transition: null,
    created_at: 0,
    updated_at: 0,
  });
  return { id, cells: deployed.map(({ cell_id }) => cell_id) };
}
