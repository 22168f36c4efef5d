import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Endpoint } from '../endpoint.ts';
import { endpoints } from '../endpoints/all.ts';
import { openApiDocument } from './document.ts';

interface Media {
  schema: object;
  example?: unknown;
}
interface Operation {
  operationId: string;
  summary: string;
  description: string;
  parameters: { name: string; in: string; required: boolean; schema: object; example?: unknown }[];
  requestBody?: { required: boolean; content: Record<string, Media> };
  responses: Record<
    string,
    { content?: Record<string, Media>; links?: Record<string, { operationId: string }> }
  >;
}

const all = Object.entries(endpoints) as [string, Endpoint][];

test('every endpoint is exported under its operation id, and no two share method and path', () => {
  for (const [name, { operationId }] of all) expect(operationId).toBe(name);
  const places = all.map(
    ([, { listener, method, path }]) => `${listener} ${method} ${path.replace(/\{\w+\}/g, '{}')}`,
  );
  expect(new Set(places).size).toBe(places.length);
});

describe.each([
  ['public', 'openapi.json'],
  ['operator', 'operator-openapi.json'],
] as const)('the document of the %s API', (listener, file) => {
  const document = JSON.parse(JSON.stringify(openApiDocument(listener))) as {
    paths: Record<string, Record<string, Operation>>;
    components: { schemas: Record<string, object> };
  };
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema(document, 'document');
  const errorsOf = (schema: object, value: unknown) => {
    const local = JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"document#/'));
    const validate = ajv.compile(local);
    return validate(value) ? null : validate.errors;
  };

  test('the golden document equals the generated one', () => {
    const golden = readFileSync(join(import.meta.dirname, '../../golden', file), 'utf8');
    expect(JSON.parse(golden)).toEqual(document);
  });

  test('every endpoint of the listener stands in the document once', () => {
    const declared = all.filter(([, endpoint]) => endpoint.listener === listener).map(([name]) => name);
    expect(operations.map(({ operation }) => operation.operationId).sort()).toEqual(declared.sort());
  });

  test('path parameters are declared, required and named once', () => {
    for (const { path, operation } of operations) {
      const inPath = operation.parameters.filter((parameter) => parameter.in === 'path');
      expect(inPath.map(({ name }) => `{${name}}`)).toEqual(path.match(/\{\w+\}/g) ?? []);
      expect(inPath.every(({ required }) => required)).toBe(true);
      const names = operation.parameters.map(({ name }) => name);
      expect(new Set(names).size).toBe(names.length);
    }
  });

  test('a GET or DELETE has no body', () => {
    for (const { method, operation } of operations) {
      if (method === 'get' || method === 'delete') expect(operation).not.toHaveProperty('requestBody');
    }
  });

  test('every reference leads to a schema, and every schema is referred to', () => {
    const text = JSON.stringify(document);
    const referred = [...text.matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name);
    expect([...new Set(referred)].sort()).toEqual(Object.keys(document.components.schemas).sort());
  });

  test('failures are described as the error body', () => {
    for (const { operation } of operations) {
      const failures = Object.entries(operation.responses).filter(([status]) => Number(status) >= 400);
      expect(failures.length).toBeGreaterThanOrEqual(3);
      for (const [status, { content }] of failures) {
        // Node.js refuses these before it reads them.
        const schema = status === '431' ? undefined : { $ref: '#/components/schemas/ErrorBody' };
        expect(content?.['application/json']?.schema).toEqual(schema);
      }
    }
  });

  test('every operation has a summary and a description, in sentences', () => {
    for (const { operation } of operations) {
      expect(operation.summary).toMatch(/^[A-Z].*[^.]$/);
      expect(operation.description).toMatch(/^[A-Z0-9].*\.$/);
    }
  });

  test('every body and every success that has a schema has an example, and it is valid', () => {
    for (const { operation } of operations) {
      const successes = Object.entries(operation.responses).filter(([status]) => status < '400');
      const bodies = [operation.requestBody, ...successes.map(([, response]) => response)];
      for (const media of bodies.flatMap((body) => Object.values(body?.content ?? {}))) {
        // A raw answer, such as this document.
        if (JSON.stringify(media.schema) === '{"type":"object"}') continue;
        const named = `${operation.operationId}: ${JSON.stringify(media)}`;
        expect(media.example === undefined ? named : undefined).toBeUndefined();
        if (typeof media.example === 'string') continue;
        expect([operation.operationId, errorsOf(media.schema, media.example)]).toEqual([
          operation.operationId,
          null,
        ]);
      }
    }
  });

  test('request bodies are named schemas', () => {
    for (const { operation } of operations) {
      const media = operation.requestBody?.content['application/json'];
      if (media) expect(media.schema).toEqual({ $ref: expect.stringMatching(/\/[A-Z]\w+Body$/) });
    }
  });

  test('links lead to operations of the document', () => {
    const known = new Set(operations.map(({ operation }) => operation.operationId));
    const links = operations.flatMap(({ operation }) =>
      Object.values(operation.responses).flatMap((response) => Object.values(response.links ?? {})),
    );
    expect(links.length).toBeGreaterThan(3);
    for (const { operationId } of links) expect(known).toContain(operationId);
  });
});

test('a source is created from at least one identifier', () => {
  const { components } = openApiDocument('public') as { components: { schemas: Record<string, object> } };
  const validate = new Ajv2020({ strict: false }).compile(components.schemas.CreateSourceBody!);
  expect(validate({ key: 'orders' })).toBe(true);
  expect(validate({ key: 'orders', component_id: null })).toBe(true);
  expect(validate({ key: 'orders', component_id: 'sc_XyZ987abcD' })).toBe(true);
  expect(validate({ key: null })).toBe(false);
  expect(validate({})).toBe(false);
});
