import type { ServerResponse } from 'node:http';
import type { Endpoint } from '@wellspring/contract/endpoint';
import type { Metrics } from '@wellspring/core/metrics';
import { closedStatus } from '@wellspring/http/once-closed';

/**
 * Measures responses by operation and status. Called when a request arrives; the returned function is called with the
 * endpoint once it is known. Requests without an endpoint count as operation `none`.
 */
export function createApiMetrics(metrics: Metrics): (res: ServerResponse) => (endpoint: Endpoint) => void {
  const requests = metrics.counter('wellspring_api_requests_total', 'API requests by operation and status', [
    'operation',
    'status',
  ]);
  const seconds = metrics.histogram(
    'wellspring_api_request_seconds',
    'Duration of API requests, without event streams',
    ['operation'],
  );
  return (res) => {
    const begun = performance.now();
    let known: Endpoint | undefined;
    res.once('close', () => {
      const operation = known?.operationId ?? 'none';
      requests.inc({ operation, status: String(closedStatus(res)) });
      if (known && known.envelope !== 'stream') {
        seconds.observe((performance.now() - begun) / 1000, { operation });
      }
    });
    return (endpoint) => {
      known = endpoint;
    };
  };
}
