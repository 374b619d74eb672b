import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { purpose } from './audit';

test('known routes are said in words, others are not guessed', () => {
  expect(purpose('POST', '/api/v1/volumes')).toBe('creation of a volume');
  expect(purpose('DELETE', '/api/v1/users/ann')).toBe('removal of user ann');
  expect(purpose('POST', '/api/v1/session')).toBe('login');
  expect(purpose('PUT', '/api/v1/initiators/iqn%3Aa')).toBe('setting of initiator iqn:a');
  expect(purpose('POST', '/api/v2/volumes')).toBeNull();
});

test('every change that the interface takes is said in words', () => {
  const document = JSON.parse(readFileSync('../openapi/v1.json', 'utf8'));
  const unsaid = Object.entries<object>(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods)
      .map((method) => method.toUpperCase())
      .filter((method) => ['POST', 'PUT', 'PATCH', 'DELETE'].includes(method))
      .filter((method) => purpose(method, path) === null)
      .map((method) => `${method} ${path}`),
  );
  expect(unsaid).toEqual([]);
  expect(purpose('PATCH', '/api/v1/nodes/n1/log')).toBe('change of log levels of node n1');
  expect(purpose('DELETE', '/api/v1/volumes/db?force=true')).toBe('removal of volume db');
});
