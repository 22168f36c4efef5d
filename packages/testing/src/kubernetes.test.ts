import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { SERVICES, type ServiceName } from '@wellspring/contract/endpoint';
import { QUEUES, type QueueName } from '@wellspring/queue/port';
import { configTable, readConfig } from '@wellspring/runtime/config';
import { PARTITIONS } from '@wellspring/runtime/infra-distributed';
import { STOP_TIMEOUT_MS } from '@wellspring/runtime/run';
import { readDockerfile } from './dockerfile.ts';
import { isHealthPath } from './health-paths.ts';
import { type Fields, type Manifest, readKustomization, readManifests } from './kustomize.ts';

/** Checks the manifests against the code that they run. */

const DEPLOY = join(import.meta.dirname, '../../../deploy');
const image = readDockerfile(readFileSync(join(DEPLOY, 'Dockerfile'), 'utf8'));
const base = readKustomization(join(DEPLOY, 'kubernetes/base'));
/** The base, with all components: an installation. */
const all = readKustomization(join(DEPLOY, 'kubernetes/example'));

const ofKind = (kind: string) => all.filter((one) => one.kind === kind);
const named = (kind: string, name: string) => {
  const found = ofKind(kind).find(({ metadata }) => metadata.name === name);
  if (!found) throw new Error(`there is no ${kind} ${name}`);
  return found;
};
const COMPONENT = 'app.kubernetes.io/component';
const podOf = (service: string): Fields => named('Deployment', service).spec.template;
const containerOf = (service: string): Fields => podOf(service).spec.containers[0];

/** Environment of a service: from the image, the ConfigMap, the Secrets and the Deployment. */
function environmentOf(service: string): Record<string, string> {
  const { envFrom = [], env = [] } = containerOf(service);
  const secretOf = (name: string): Record<string, string> => named('Secret', name).stringData;
  const sources = (envFrom as Fields[]).map(({ configMapRef, secretRef }) =>
    configMapRef ? named('ConfigMap', configMapRef.name).data : secretOf(secretRef.name),
  );
  const own = (env as Fields[]).map(({ name, value, valueFrom }) => [
    name,
    value ?? secretOf(valueFrom.secretKeyRef.name)[valueFrom.secretKeyRef.key],
  ]);
  return Object.assign({}, image.environment, ...sources, Object.fromEntries(own));
}
const configOf = (service: string) =>
  readConfig({ env: environmentOf(service), services: containerOf(service).args, isTerminal: false });

/** The container's port of this name. */
const portOf = (service: string, name: string): number =>
  (containerOf(service).ports as Fields[]).find((one) => one.name === name)?.containerPort;

test('every service is a Deployment, and no other object starts pods', () => {
  expect(
    ofKind('Deployment')
      .map(({ metadata }) => metadata.name)
      .sort(),
  ).toEqual([...SERVICES].sort());
  const others = ['StatefulSet', 'DaemonSet', 'Job', 'CronJob', 'Pod'];
  expect(all.filter(({ kind }) => others.includes(kind))).toEqual([]);
});

describe.each(SERVICES)('%s', (service) => {
  const pod = podOf(service);
  const container = containerOf(service);

  test('runs one service with a valid configuration', () => {
    const config = configOf(service);
    expect([config.mode, config.services]).toEqual(['distributed', [service]]);
    expect(config.isolation).toBe('required');
    // Only the gateway has the operator's key; without a preset API key it would generate one at every start.
    expect([config.adminKey, config.apiKey].map((key) => key !== null)).toEqual(
      service === 'gateway' ? [true, true] : [false, false],
    );
  });

  test('sets only variables that the service reads', () => {
    const known = new Set([...configTable.map(({ name }) => name), ...Object.keys(image.environment)]);
    expect(Object.keys(environmentOf(service)).filter((name) => !known.has(name))).toEqual([]);
    // Variables that Kubernetes derives from Services could be taken for settings.
    expect(pod.spec.enableServiceLinks).toBe(false);
  });

  test('exposes the ports that its listeners use, on every address', () => {
    const { port, adminPort, host, adminHost } = configOf(service);
    expect([portOf(service, 'http'), portOf(service, 'operator')]).toEqual([port, adminPort]);
    expect([host, adminHost]).toEqual(['0.0.0.0', '0.0.0.0']);
  });

  test('has probes on /health and /ready', () => {
    const { livenessProbe, readinessProbe } = container;
    expect([livenessProbe.httpGet, readinessProbe.httpGet]).toEqual([
      { path: '/health', port: 'operator' },
      { path: '/ready', port: 'http' },
    ]);
    for (const { httpGet } of [livenessProbe, readinessProbe]) expect(isHealthPath(httpGet.path)).toBe(true);
  });

  test('has a grace period that is longer than the drain', () => {
    const [command, seconds] = container.lifecycle.preStop.exec.command;
    expect(command).toBe('sleep');
    expect(pod.spec.terminationGracePeriodSeconds * 1000).toBeGreaterThan(
      STOP_TIMEOUT_MS + Number(seconds) * 1000 + 5_000,
    );
  });

  test('has no privileges, and writes only to its data directory and /tmp', () => {
    const { securityContext } = pod.spec;
    expect(`${securityContext.runAsUser}:${securityContext.runAsGroup}`).toBe(image.user);
    expect(securityContext.runAsNonRoot).toBe(true);
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    expect(pod.spec.automountServiceAccountToken).toBe(false);
    const mounted = (container.volumeMounts as Fields[]).map(({ name, mountPath }) => [mountPath, name]);
    expect(mounted).toEqual([
      [configOf(service).dataDir, 'data'],
      ['/tmp', 'tmp'],
    ]);
    const volumes = (pod.spec.volumes as Fields[]).map(({ name, emptyDir }) => [
      name,
      typeof emptyDir.sizeLimit,
    ]);
    expect(Object.fromEntries(volumes)).toEqual({ data: 'string', tmp: 'string' });
  });

  test('only the runner replaces the default seccomp profile', () => {
    const { seccompProfile, appArmorProfile } = pod.spec.securityContext;
    expect([seccompProfile.type, appArmorProfile?.type]).toEqual(
      service === 'runner' ? ['Unconfined', 'Unconfined'] : ['RuntimeDefault', undefined],
    );
  });

  test('declares its resources, and at most one of its pods may be evicted at a time', () => {
    const { requests, limits } = container.resources;
    expect([requests.cpu, requests.memory, limits.memory].every((one) => /^\d+(m|Mi|Gi)?$/.test(one))).toBe(
      true,
    );
    // A CPU limit would pause the process in the middle of its work.
    expect(limits.cpu).toBeUndefined();
    const { spec } = named('PodDisruptionBudget', service);
    expect(spec.maxUnavailable).toBe(1);
    expect(pod.metadata.labels).toMatchObject(spec.selector.matchLabels);
    expect(named('Deployment', service).spec.selector.matchLabels).toEqual({ [COMPONENT]: service });
    expect(pod.metadata.labels[COMPONENT]).toBe(service);
  });

  test('has one autoscaler, with a minimum of two processes', () => {
    const scales = ({ spec }: Manifest) => spec.scaleTargetRef.name === service;
    const [scaler, ...more] = [...ofKind('HorizontalPodAutoscaler'), ...ofKind('ScaledObject')].filter(
      scales,
    );
    expect(more).toEqual([]);
    const { minReplicas, minReplicaCount, maxReplicas, maxReplicaCount } = scaler!.spec;
    expect(minReplicas ?? minReplicaCount).toBeGreaterThanOrEqual(2);
    expect(maxReplicas ?? maxReplicaCount).toBeGreaterThan(minReplicas ?? minReplicaCount);
  });
});

describe('the Services', () => {
  test('have the names and ports that the gateway connects to', () => {
    const config = configOf('gateway');
    for (const service of ['components', 'sources', 'subscriptions', 'webhooks', 'events'] as const) {
      for (const origin of config[`${service}Url`]) {
        const { hostname, port } = new URL(origin);
        const { spec } = named('Service', hostname);
        expect(spec.selector).toEqual({ [COMPONENT]: service });
        expect(spec.ports).toEqual([{ name: 'http', port: Number(port), targetPort: 'http' }]);
      }
    }
  });

  test('the Ingress leads to the gateway’s, which does not show the operator API', () => {
    const { name, port } = ofKind('Ingress')[0]!.spec.rules[0].http.paths[0].backend.service;
    const { spec } = named('Service', name);
    expect(spec.selector).toEqual({ [COMPONENT]: 'gateway' });
    expect(spec.ports).toEqual([{ name: port.name, port: 3000, targetPort: 'http' }]);
  });

  test('admit only the required clients', () => {
    const [toServices] = ofKind('NetworkPolicy').filter(
      ({ metadata }) => metadata.name === 'gateway-to-services',
    );
    const asked = SERVICES.filter((name) => `${name}Url` in configOf('gateway'));
    expect(toServices!.spec.podSelector.matchExpressions[0].values).toEqual(asked);
    const labels = new Set(SERVICES.map((name) => podOf(name).metadata.labels[COMPONENT]));
    for (const { spec } of ofKind('NetworkPolicy')) {
      for (const { key, values } of spec.podSelector.matchExpressions ?? []) {
        expect(key).toBe(COMPONENT);
        expect((values as string[]).filter((value) => !labels.has(value))).toEqual([]);
      }
    }
  });
});

describe('KEDA', () => {
  const consumed: [ServiceName, QueueName][] = [
    ['runner', 'runs'],
    ['delivery', 'emitted'],
  ];
  /** Names of the broker's queues: `wellspring.<queue>.<partition>`. */
  const names = (queue: string) => Array.from({ length: PARTITIONS }, (_, n) => `wellspring.${queue}.${n}`);
  const every = QUEUES.flatMap(names);

  test.each(consumed)(
    'scales %s by all partitions of the queue %s, and by nothing else',
    (service, queue) => {
      const { spec } = named('ScaledObject', service);
      const { metadata } = (spec.triggers as Fields[]).find(({ type }) => type === 'rabbitmq')!;
      expect(metadata).toMatchObject({
        protocol: 'http',
        mode: 'QueueLength',
        useRegex: 'true',
        operation: 'sum',
      });
      expect(Number(metadata.pageSize)).toBeGreaterThanOrEqual(PARTITIONS);
      const pattern = new RegExp(metadata.queueName);
      expect(
        [...every, 'wellspring.runs.0.dead', 'other.runs.0'].filter((name) => pattern.test(name)),
      ).toEqual(names(queue));
      // Shares would be uneven: with as many processes as partitions, a third would own none.
      expect(spec.maxReplicaCount).toBeLessThanOrEqual(PARTITIONS / 2);
    },
  );

  test('names an existing Secret for the URL of the broker', () => {
    const [{ name, key }] = ofKind('TriggerAuthentication')[0]!.spec.secretTargetRef;
    expect(new URL(named('Secret', name).stringData[key]).pathname).toBe(
      new URL(named('Secret', 'wellspring').stringData.WELLSPRING_AMQP_URL).pathname,
    );
  });
});

test('Prometheus scrapes the metrics port of every pod', () => {
  const { spec } = ofKind('PodMonitor')[0]!;
  const [{ port, path }] = spec.podMetricsEndpoints;
  for (const service of SERVICES) {
    expect(podOf(service).metadata.labels).toMatchObject(spec.selector.matchLabels);
    expect(portOf(service, port)).toBe(configOf(service).adminPort);
  }
  expect(isHealthPath(path, { onOperatorPort: true })).toBe(true);
  expect(isHealthPath(path)).toBe(false);
});

test('the base needs no cluster operator and contains no secret', () => {
  const groups = new Set(base.map(({ apiVersion }) => apiVersion.split('/')[0]!));
  expect([...groups].filter((group) => group.includes('.') && !group.endsWith('.k8s.io'))).toEqual([]);
  expect(base.filter(({ kind }) => kind === 'Secret')).toEqual([]);
  const secrets = readManifests(join(DEPLOY, 'kubernetes/example/secrets.yaml'));
  for (const { stringData } of secrets) {
    for (const value of Object.values(stringData)) expect(value).toContain('CHANGE-ME');
  }
});
