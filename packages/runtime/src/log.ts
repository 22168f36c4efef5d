import { Writable } from 'node:stream';
import { systemClock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { pino } from 'pino';
import type { Config } from './config.ts';

/** Fields that are never logged, at the top level or one below. */
const SECRETS = [
  'authorization',
  'api_key',
  'admin_key',
  'secret',
  'secret_key',
  'password',
  'credentials',
  'configured_props',
  'cookie',
];

/** @param out default: standard output */
export function createLog(
  { logLevel, logFormat }: Pick<Config, 'logLevel' | 'logFormat'>,
  out: { write(line: string): unknown } = process.stdout,
): Log {
  const logger = pino(
    {
      level: logLevel,
      base: null,
      messageKey: 'event',
      timestamp: () => `,"time":"${new Date(systemClock.now()).toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRETS.flatMap((name) => [name, `*.${name}`]), censor: '(secret)' },
    },
    logFormat === 'pretty' ? prettyLines(out) : { write: (line: string) => void out.write(line) },
  );
  return {
    debug: (fields, event) => logger.debug(fields, event),
    info: (fields, event) => logger.info(fields, event),
    warn: (fields, event) => logger.warn(fields, event),
    error: (fields, event) => logger.error(fields, event),
  };
}

/** Those that terminals obey, except the line feed. */
const CONTROL = /[\0-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]/g;

const COLOURS: Record<string, number> = { debug: 90, info: 32, warn: 33, error: 31 };
const paint = (colour: number, text: string) => `\u001b[${colour}m${text}\u001b[0m`;

/** User code chooses some texts: they must neither control the terminal nor pass for lines of the log. */
const printable = (text: string) =>
  text
    .replace(/\r?\n/g, '\n    ')
    .replace(CONTROL, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Human-readable: time of day, level, event, fields. */
function prettyLines(out: { write(line: string): unknown }): Writable {
  return new Writable({
    decodeStrings: false,
    write(line: string, _encoding, done) {
      const { level, time, event, ...fields } = JSON.parse(line) as Record<string, unknown>;
      const rest = Object.entries(fields)
        .map(
          ([name, value]) =>
            `${paint(90, `${name}=`)}${printable(typeof value === 'string' ? value : JSON.stringify(value))}`,
        )
        .join(' ');
      const label = paint(COLOURS[String(level)] ?? 0, String(level).padEnd(5));
      out.write(`${paint(90, String(time).slice(11, 23))} ${label} ${String(event)} ${rest}\n`);
      done();
    },
  });
}
