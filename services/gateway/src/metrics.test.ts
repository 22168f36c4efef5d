import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { forSuite } from '@wellspring/testing/lifetimes';
import { startGateway } from './platform.fixture.ts';

const platform = forSuite(startGateway);

/** The value of a series, by its name and labels as Prometheus writes them; 0 when it does not exist yet. */
async function shown(series: string): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${platform.deps.config.adminPort}/metrics`);
  const line = (await answer.text()).split('\n').find((one) => one.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1) ?? 0);
}

const requests = (operation: string, status: number) =>
  `wellspring_api_requests_total{operation="${operation}",status="${status}"}`;

describe('the metrics of the gateway', () => {
  test('count API requests by operation and status, whichever service answers, and their time', async () => {
    await platform.api('GET', '/users/me');
    await platform.api('GET', '/users/me');
    await platform.api('GET', '/users/me', { key: null });
    await platform.api('GET', '/nothing');
    await platform.admin('GET', '/dead_letters');
    await eventually(async () => (await shown(requests('operatorListDeadLetters', 200))) === 1);
    expect(await shown(requests('getMe', 200))).toBe(2);
    expect(await shown(requests('getMe', 401))).toBe(1);
    expect(await shown(requests('none', 404))).toBe(1);
    expect(await shown('wellspring_api_request_seconds_count{operation="getMe"}')).toBe(3);
    expect(await shown('wellspring_api_request_seconds_sum{operation="getMe"}')).toBeGreaterThan(0);
  });

  test('count calls of endpoints by status, and how long those that are accepted take to be durable', async () => {
    const { id } = await platform.endpoint();
    await platform.call('POST', `/e/${id}`, { body: { a: 1 } });
    await platform.call('POST', '/e/e0000000000000000000000000000');
    expect(await shown('wellspring_endpoint_calls_total{status="200"}')).toBe(1);
    expect(await shown('wellspring_endpoint_calls_total{status="404"}')).toBe(1);
    expect(await shown('wellspring_endpoint_accept_seconds_count')).toBe(1);
    expect(await shown('wellspring_endpoint_accept_seconds_sum')).toBeGreaterThan(0);
  });
});
