import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Registry settings from the operator's configuration of npm or pnpm. The jail does not get them. */
export interface RegistrySettings {
  /** Base URL of the registry of this package, with a trailing slash. */
  registryOf(packageName: string): string;
  /** Value of the `authorization` header for this URL; undefined if no credentials are configured. */
  authorizationFor(url: string): string | undefined;
  /** For the `proxyEnv` option of an http.Agent. */
  proxy: { HTTP_PROXY?: string; HTTPS_PROXY?: string; NO_PROXY?: string };
  /** PEM certificates trusted in addition to the defaults. */
  certificates: readonly string[];
  /** False: certificates are not verified. */
  strictSsl: boolean;
  /** Milliseconds; younger versions are not chosen. 0: no limit. */
  minimumAgeMs: number;
  /** False: a younger version is chosen if no older one matches. */
  strictAge: boolean;
  /** Epoch milliseconds; versions published later are not chosen. */
  before: number | undefined;
  /** Retries of a failed request. */
  retries: number;
}

const DEFAULT_REGISTRY = 'https://registry.npmjs.org/';
const MINUTE_MS = 60_000;
/** pnpm's default. */
const DEFAULT_AGE_MINUTES = 1440;

const withSlash = (url: string) => (url.endsWith('/') ? url : `${url}/`);

/** Parses `key=value` lines; the last one of a key wins. `${NAME}` is replaced by the environment variable. */
function parseRc(text: string, environment: Record<string, string>, into: Map<string, string>): void {
  for (const line of text.split('\n')) {
    const match = /^\s*([^#;=\s][^=]*?)\s*=\s*(.*?)\s*$/.exec(line);
    if (!match) continue;
    const [, key = '', value = ''] = match;
    const plain = value.replace(/^(["'])(.*)\1$/, '$2');
    into.set(
      key,
      plain.replace(/\$\{([^}]+)\}/g, (_, name: string) => environment[name] ?? ''),
    );
  }
}

function readRc(path: string | undefined, environment: Record<string, string>, into: Map<string, string>) {
  if (path === undefined) return;
  try {
    parseRc(readFileSync(path, 'utf8'), environment, into);
  } catch {
    // The file is optional.
  }
}

/** `npm_config_fetch_retries` → `fetch-retries`; keys that contain a URL stay unchanged. */
function settingName(variable: string): string | undefined {
  const match = /^(?:pnpm|npm)_config_(.+)$/i.exec(variable);
  const name = match?.[1];
  if (name === undefined) return undefined;
  return /^(\/\/|@)/.test(name) ? name : name.toLowerCase().replaceAll('_', '-');
}

/**
 * Reads .npmrc files (global, then the user's), then variables (`npm_config_*`, then `pnpm_config_*`). Later values
 * win.
 */
export function readRegistrySettings(environment: Record<string, string>): RegistrySettings {
  const fromVariables = new Map<string, string>();
  const variables = Object.entries(environment);
  for (const prefix of [/^npm_/i, /^pnpm_/i]) {
    for (const [variable, value] of variables) {
      const name = prefix.test(variable) ? settingName(variable) : undefined;
      if (name !== undefined && value !== '') fromVariables.set(name, value);
    }
  }
  const { HOME: home } = environment;
  const settings = new Map<string, string>();
  const globals = fromVariables.get('globalconfig');
  for (const path of globals === undefined ? ['/etc/npmrc', '/usr/etc/npmrc'] : [globals])
    readRc(path, environment, settings);
  const user = fromVariables.get('userconfig') ?? (home === undefined ? undefined : join(home, '.npmrc'));
  readRc(user, environment, settings);
  for (const name of ['rc', 'auth.ini'])
    readRc(home === undefined ? undefined : join(home, '.config', 'pnpm', name), environment, settings);
  for (const [name, value] of fromVariables) settings.set(name, value);

  const registry = withSlash(settings.get('registry') ?? DEFAULT_REGISTRY);
  const age = settings.get('minimum-release-age');
  const ageDays = settings.get('min-release-age');
  const minutes =
    age !== undefined ? Number(age) : ageDays !== undefined ? Number(ageDays) * 1440 : DEFAULT_AGE_MINUTES;
  const before = Date.parse(settings.get('before') ?? '');
  const retries = Number(settings.get('fetch-retries') ?? 2);

  return {
    registryOf(packageName) {
      const scope = packageName.startsWith('@') ? packageName.split('/')[0] : undefined;
      const scoped = scope === undefined ? undefined : settings.get(`${scope}:registry`);
      return scoped === undefined ? registry : withSlash(scoped);
    },
    authorizationFor: (url) => authorization(settings, url),
    proxy: proxyOf(settings, environment),
    certificates: certificatesOf(settings, environment),
    strictSsl: settings.get('strict-ssl') !== 'false',
    minimumAgeMs: Number.isFinite(minutes) && minutes > 0 ? minutes * MINUTE_MS : 0,
    strictAge: age !== undefined || ageDays !== undefined,
    before: Number.isNaN(before) ? undefined : before,
    retries: Number.isInteger(retries) && retries >= 0 ? Math.min(retries, 5) : 2,
  };
}

/** Credentials are keyed by URL without scheme; the longest matching path wins. */
function authorization(settings: Map<string, string>, url: string): string | undefined {
  const { host, pathname } = new URL(url);
  const segments = pathname.split('/').filter(Boolean);
  for (let length = segments.length; length >= 0; length -= 1) {
    const path = segments.slice(0, length).join('/');
    const prefix = `//${host}/${path === '' ? '' : `${path}/`}`;
    for (const key of [prefix, prefix.slice(0, -1)]) {
      const token = settings.get(`${key}:_authToken`);
      if (token) return `Bearer ${token}`;
      const basic = settings.get(`${key}:_auth`);
      if (basic) return `Basic ${basic}`;
      const [name, password] = [settings.get(`${key}:username`), settings.get(`${key}:_password`)];
      if (name && password) {
        const plain = Buffer.from(password, 'base64').toString('utf8');
        return `Basic ${Buffer.from(`${name}:${plain}`).toString('base64')}`;
      }
    }
  }
  return undefined;
}

function proxyOf(settings: Map<string, string>, environment: Record<string, string>) {
  const named = (...names: string[]) =>
    names
      .map((name) => settings.get(name) ?? environment[name])
      .find((value) => value !== undefined && value !== '');
  const http = named('http-proxy', 'proxy', 'HTTP_PROXY', 'http_proxy');
  const https = named('https-proxy', 'HTTPS_PROXY', 'https_proxy', 'proxy');
  const none = named('no-proxy', 'noproxy', 'NO_PROXY', 'no_proxy');
  return {
    ...(http === undefined ? {} : { HTTP_PROXY: http }),
    ...(https === undefined ? {} : { HTTPS_PROXY: https }),
    ...(none === undefined ? {} : { NO_PROXY: none }),
  };
}

function certificatesOf(settings: Map<string, string>, environment: Record<string, string>): string[] {
  const inline = settings.get('ca');
  const files = [settings.get('cafile'), environment.NODE_EXTRA_CA_CERTS, environment.SSL_CERT_FILE];
  const read = files.flatMap((path) => {
    if (path === undefined || path === '' || path === 'null') return [];
    try {
      return [readFileSync(path, 'utf8')];
    } catch {
      return [];
    }
  });
  return [
    ...new Set([
      ...(inline === undefined || inline === 'null' ? [] : [inline.replaceAll('\\n', '\n')]),
      ...read,
    ]),
  ];
}
