import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import type { Endpoint } from './endpoint.ts';
import { endpoints } from './endpoints/all.ts';
import { openApiDocument } from './openapi.ts';

interface Operation {
  operationId: string;
  parameters: { name: string; in: string; required: boolean }[];
  responses: Record<string, { content?: Record<string, { schema: unknown }> }>;
}
const document = JSON.parse(JSON.stringify(openApiDocument())) as {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, unknown> };
};
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);
const all = Object.entries(endpoints) as [string, Endpoint][];

test('the golden document is what the declarations give', () => {
  const golden = readFileSync(join(import.meta.dirname, '../golden/openapi.json'), 'utf8');
  expect(JSON.parse(golden)).toEqual(document);
});

test('every public endpoint stands in the document once, no operator endpoint does', () => {
  const declared = all.filter(([, { listener }]) => listener === 'public').map(([name]) => name);
  expect(operations.map(({ operation }) => operation.operationId).sort()).toEqual(declared.sort());
});

test('every endpoint is exported under its operation id, and no two share method and path', () => {
  for (const [name, { operationId }] of all) expect(operationId).toBe(name);
  const places = all.map(
    ([, { listener, method, path }]) => `${listener} ${method} ${path.replace(/\{\w+\}/g, '{}')}`,
  );
  expect(new Set(places).size).toBe(places.length);
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
    for (const [, { content }] of failures) {
      expect(content?.['application/json']?.schema).toEqual({ $ref: '#/components/schemas/ErrorBody' });
    }
  }
});
