import { defaultEvent } from '@wellspring/component/default-event';
import { unknownValues } from '@wellspring/component/values';
import { CALLS, HOOK_DEADLINE_MS, type TestCall } from '@wellspring/contract/calls';
import { testComponent } from '@wellspring/contract/endpoints/components';
import { invalidComponent } from '@wellspring/core/problem';
import { route } from '@wellspring/http/bind';
import { createConfigurator, undeployed } from '@wellspring/runtime/configure';
import { configurationOf } from './configure.ts';
import type { ComponentsContext } from './context.ts';

/** Runs a component once; nothing is stored. */
export const testComponentRoute = (context: ComponentsContext) => {
  const { deps } = context;
  const configurator = createConfigurator(deps);
  return route(testComponent, async ({ input, principal, hold, ignore }) => {
    const configuration = await configurationOf(context, principal, input, hold);
    const { type, has_run } = configuration.component.definition;
    if (type === 'app')
      throw invalidComponent('The component is an app; only sources and actions can be tested.');
    const { definition, values } = await configurator.deploy(configuration);
    ignore(unknownValues(definition.props, configuration.given));
    const event =
      input.event === undefined ? defaultEvent(definition.props, values, deps.clock.now()) : input.event;
    const message: TestCall['message'] = {
      ...undeployed(deps, configuration, definition.props, values),
      type,
      has_run,
      event: JSON.stringify(event),
    };
    const { emitted, response, exports, sends, ...answer } = (await deps.call.request(CALLS.test, message, {
      deadlineMs: HOOK_DEADLINE_MS,
    })) as TestCall['answer'];
    return {
      ...answer,
      emitted: emitted.map(({ payload, ...more }) => ({ event: JSON.parse(payload), ...more })),
      exports: Object.fromEntries(exports.map(({ name, json }) => [name, JSON.parse(json)])),
      sends: sends.map(({ kind, json }) => ({ kind, request: JSON.parse(json) })),
      response: response && { ...response, ...readable(Buffer.from(response.body, 'base64')) },
    };
  });
};

/** The body as text, or in Base64 if it is not UTF-8. */
function readable(body: Buffer): { body: string; base64: boolean } {
  const text = body.toString('utf8');
  const base64 = !Buffer.from(text).equals(body);
  return { body: base64 ? body.toString('base64') : text, base64 };
}
