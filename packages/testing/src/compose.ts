import { parse } from 'yaml';

export interface ComposeService {
  command?: string[];
  environment?: Record<string, string>;
  ports?: string[];
  volumes?: string[];
  read_only?: boolean;
  cap_drop?: string[];
  depends_on?: Record<string, { condition: string }>;
  healthcheck?: { test: string[] };
  hostname?: string;
  stop_grace_period?: string;
  security_opt?: string[];
  build?: { context: string; dockerfile: string };
}

export interface Compose {
  services: Record<string, ComposeService>;
  volumes: Record<string, unknown>;
  /** Required variables: `${NAME:?why}`. */
  required: string[];
}

const VARIABLE = /(?<!\$)\$\{(\w+)(?::([-?])([^}]*))?\}/g;

/** Reads a compose file with the variables in its values replaced, as Compose does. @param given values of variables */
export function readCompose(text: string, given: Record<string, string> = {}): Compose {
  const required = new Set<string>();
  const interpolate = (_key: unknown, value: unknown) =>
    typeof value !== 'string'
      ? value
      : value.replace(VARIABLE, (_all, name: string, kind: string | undefined, rest = '') => {
          if (kind === '?') required.add(name);
          return given[name] ?? (kind === '-' ? rest : '');
        });
  const file = parse(text, interpolate, { merge: true }) as Omit<Compose, 'required'>;
  return { ...file, required: [...required].sort() };
}
