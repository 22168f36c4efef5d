import { type Amqp, openAmqp } from '@wellspring/amqp/client';
import { newSecret } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import type { Call } from '../port.ts';
import { createRabbitCall, type RabbitCallOptions } from './call.ts';

/** A process with connections of its own; by default alone on its exchange. */
export async function openCall(
  url: string,
  options: Partial<RabbitCallOptions> = {},
): Promise<{ call: Call; amqp: Amqp } & AsyncDisposable> {
  const amqp = await openAmqp({ url, log: silentLog });
  const rabbit = createRabbitCall({
    amqp,
    log: silentLog,
    prefix: `t${newSecret()}.`,
    member: newSecret(),
    keyed: new Set(),
    ownerOf: async () => undefined,
    owns: () => true,
    ...options,
  });
  const close = async () => {
    await rabbit.close();
    await amqp.close();
  };
  return { amqp, call: { ...rabbit, close }, [Symbol.asyncDispose]: close };
}
