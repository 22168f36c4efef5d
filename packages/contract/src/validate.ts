import { invalidParameter, missingParameter } from '@wellspring/core/problem';
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import type { TObject } from 'typebox';

/**
 * Validation of input. Values of a query are converted to the declared type; values of a body must have it. Unknown
 * fields are removed.
 */

/**
 * A schema is compiled by the first request to its endpoint, on the main thread. So the compilation must be short: schemas
 * are checked by a test instead, and the generated code is not optimized, which takes longer than it saves.
 */
const OPTIONS = {
  strict: false,
  // JSON has numbers beyond those of JavaScript: 1e400 is read as Infinity.
  strictNumbers: true,
  allErrors: false,
  useDefaults: false,
  validateFormats: false,
  validateSchema: false,
  meta: false,
  code: { optimize: false },
} as const;
const strict = new Ajv(OPTIONS);
const coercing = new Ajv({ ...OPTIONS, coerceTypes: true });
const compiled = new WeakMap<object, Validators>();

interface Validators {
  body: ValidateFunction;
  /** Of parameters that a query has contained. */
  fields: Map<string, ValidateFunction>;
}

function validatorsOf(schema: TObject): Validators {
  let found = compiled.get(schema);
  if (!found) {
    found = { body: strict.compile(schema), fields: new Map() };
    compiled.set(schema, found);
  }
  return found;
}

function fieldValidatorOf(schema: TObject, name: string): ValidateFunction {
  const { fields } = validatorsOf(schema);
  let found = fields.get(name);
  if (!found) {
    found = coercing.compile({ type: 'object', properties: { [name]: schema.properties[name] } });
    fields.set(name, found);
  }
  return found;
}

/** A number in a query consists of digits only: `1e3`, `0x10` and an empty text are refused. */
const NUMBER = /^-?\d+(\.\d+)?$/;

function fromQuery(schema: TObject, name: string, value: unknown): unknown {
  const declared = schema.properties[name] as { type?: string };
  if (typeof value !== 'string') throw invalidParameter(name, `${name} must be given once.`);
  if ((declared.type === 'integer' || declared.type === 'number') && !NUMBER.test(value)) {
    throw invalidParameter(
      name,
      `${name} must be ${declared.type === 'integer' ? 'an integer' : 'a number'}.`,
    );
  }
  const holder: Record<string, unknown> = { [name]: value };
  const validate = fieldValidatorOf(schema, name);
  if (!validate(holder)) throw problemOf(validate.errors);
  return holder[name];
}

/**
 * The input of an endpoint, from the query or else the JSON body.
 * @throws Problem 400 that names the parameter
 */
export function validateInput(
  schema: TObject,
  query: Record<string, unknown>,
  body: Record<string, unknown>,
): unknown {
  const input: Record<string, unknown> = {};
  for (const name of Object.keys(schema.properties)) {
    if (Object.hasOwn(query, name)) input[name] = fromQuery(schema, name, query[name]);
    else if (Object.hasOwn(body, name)) input[name] = body[name];
  }
  const { body: validate } = validatorsOf(schema);
  if (!validate(input)) throw problemOf(validate.errors);
  return input;
}

/** Names in the query and the body that the endpoint does not have. They are ignored. */
export function unknownFields(
  schema: TObject,
  query: Record<string, unknown>,
  body: Record<string, unknown>,
): string[] {
  const names = new Set([...Object.keys(query), ...Object.keys(body)]);
  return [...names].filter((name) => !Object.hasOwn(schema.properties, name));
}

const KINDS: Record<string, string> = {
  string: 'a text',
  integer: 'an integer',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'an array',
};

/** The values of a choice of constants, each of which is an error of its own. */
const allowedValues = (errors: ErrorObject[], { instancePath }: ErrorObject): unknown[] =>
  errors
    .filter((other) => other.keyword === 'const' && other.instancePath === instancePath)
    .map(({ params }) => (params as { allowedValue: unknown }).allowedValue);

/** One sentence for the first error, with the path of the field at fault. */
function problemOf(errors: ErrorObject[] | null | undefined): Error {
  const error = errors?.[0];
  if (!error) return invalidParameter(undefined, 'The input is not valid.');
  const path = error.instancePath.slice(1).replaceAll('/', '.');
  const join = (name: string) => (path ? `${path}.${name}` : name);
  const params = error.params as Record<string, unknown>;
  switch (error.keyword) {
    case 'required':
      return missingParameter(join(String(params.missingProperty)));
    case 'type': {
      const kinds = [params.type].flat().map((type) => KINDS[String(type)] ?? String(type));
      return invalidParameter(path, `${path} must be ${kinds.join(' or ')}.`);
    }
    case 'minLength':
      if (params.limit === 1) return missingParameter(path);
      return invalidParameter(path, `${path} must have at least ${params.limit} characters.`);
    case 'maxLength':
      return invalidParameter(path, `${path} has more than ${params.limit} characters.`);
    case 'enum':
      return invalidParameter(
        path,
        `${path} must be one of ${(params.allowedValues as unknown[]).join(', ')}.`,
      );
    case 'const':
      return invalidParameter(path, `${path} must be one of ${allowedValues(errors, error).join(', ')}.`);
    case 'anyOf':
      return invalidParameter(path, `${path} has a value that is not allowed.`);
    default:
      return invalidParameter(path, `${path} ${error.message ?? 'is not valid'}.`);
  }
}
