import { expect, test } from '@jest/globals';
import type { Endpoint } from '@wellspring/contract/endpoint';
import { endpoints } from '@wellspring/contract/endpoints/all';
import { createRouteTable } from './route-table.ts';

const declared = Object.values(endpoints) as Endpoint[];
const find = createRouteTable(declared.filter(({ listener }) => listener === 'public'));
const operation = (method: string, path: string) => {
  const found = find(method, path);
  return found.kind === 'endpoint' ? found.endpoint.operationId : found.kind;
};

test('every declared endpoint is found under its method and path, with a slash at the end too', () => {
  for (const listener of ['public', 'operator']) {
    const own = declared.filter((one) => one.listener === listener);
    const table = createRouteTable(own);
    for (const { method, path, operationId } of own) {
      for (const end of ['', '/']) {
        const found = table(method, path.replace(/\{\w+\}/g, 'x') + end);
        expect(found).toMatchObject({ kind: 'endpoint', endpoint: { operationId } });
      }
    }
  }
});

test('literal segments go before parameters', () => {
  expect(operation('GET', '/users/me/sources')).toBe('listMySources');
  expect(operation('GET', '/components/registry/x')).toBe('getRegistryComponent');
  expect(operation('GET', '/components/registry')).toBe('getComponent');
  expect(operation('GET', '/sources/x/$errors/event_summaries')).toBe('listSourceErrors');
});

test('HEAD goes where GET goes', () => expect(operation('HEAD', '/users/me')).toBe('getMe'));

test.each(['', '/', '/nothing', '/users', '/sources/a/b/c', '/Users/me', '/__proto__', '/constructor/x'])(
  '%j is unknown',
  (path) => expect(operation('GET', path)).toBe('unknown'),
);

test('a known path tells the methods it has', () => {
  expect(find('PATCH', '/sources/x')).toEqual({
    kind: 'method',
    allow: expect.arrayContaining(['GET', 'PUT', 'DELETE', 'HEAD']),
  });
  expect(find('GET', '/components')).toEqual({ kind: 'method', allow: ['POST'] });
});
