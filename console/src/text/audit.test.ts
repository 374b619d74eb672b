import { expect, test } from 'vitest';
import { purpose } from './audit';

test('known routes are said in words, others are not guessed', () => {
  expect(purpose('POST', '/api/v1/volumes')).toBe('creation of a volume');
  expect(purpose('DELETE', '/api/v1/users/ann')).toBe('removal of user ann');
  expect(purpose('POST', '/api/v1/session')).toBe('login');
  expect(purpose('PUT', '/api/v1/initiators/iqn%3Aa')).toBe('setting of initiator iqn:a');
  expect(purpose('POST', '/api/v2/volumes')).toBeNull();
});
