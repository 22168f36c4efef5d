import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { openAmqp } from '@wellspring/amqp/client';
import { CallFailed } from '@wellspring/call/port';
import { createRabbitCall } from '@wellspring/call/rabbitmq';
import { newSecret } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach } from '@wellspring/testing/lifetimes';
import { withServers } from '@wellspring/testing/servers/servers';

const OWNER = fileURLToPath(new URL('frozen-owner.fixture.ts', import.meta.url));

await withServers(['rabbitmq'], ({ rabbitmq }) => {
  const closing = closeAfterEach();

  test('an owner that was frozen does not execute the hooks that their callers have given up', async () => {
    const prefix = `t${newSecret()}.`;
    const owner = spawn(process.execPath, [OWNER, rabbitmq, prefix, 'owner'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    closing({
      async close() {
        owner.kill('SIGKILL');
        await once(owner, 'exit');
      },
    });
    let executed = '';
    owner.stdout.on('data', (text) => {
      executed += text;
    });
    const amqp = closing(await openAmqp({ url: rabbitmq, log: silentLog }));
    const call = closing(
      createRabbitCall({
        ...{ amqp, log: silentLog, prefix, member: 'caller', keyed: new Set(['hook']) },
        ...{ ownerOf: async () => 'owner', owns: () => false },
      }),
    );
    const hook = (n: number) => call.request('hook', n, { key: 'dc_1', deadlineMs: 60_000 });
    expect(await hook(1)).toBe(1);
    owner.kill('SIGSTOP');
    await expect(hook(2)).rejects.toBeInstanceOf(CallFailed);
    owner.kill('SIGCONT');
    expect(await hook(3)).toBe(3);
    // The output of the process comes by another way than its answer.
    await eventually(() => expect(executed).toBe('1\n3\n'));
  }, 90_000);
});
