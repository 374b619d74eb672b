import { expect, test } from 'vitest';
import type { Explanation, Node, Protection, Status } from '../api/types';
import {
  attentionCount,
  healthSentence,
  nodeState,
  policyObstacle,
  pulse,
  untilProtected,
} from './words';

const work = { replicas: 0, bytes: 0, bytes_per_second: 0, seconds_left: 0 };

function status(change: Partial<Status>): Status {
  return {
    cluster: '0'.repeat(32),
    health: 'healthy',
    nodes: { total: 3, up: 3 },
    volumes: { total: 2, healthy: 2, degraded: 0, unavailable: 0 },
    pool: { bytes: 100, used_bytes: 0 },
    promised_bytes: 50,
    alerts: [],
    revision: 1,
    ...change,
  };
}

function node(name: string, change: Partial<Node> = {}): Node {
  return {
    name,
    node: 1,
    state: 'up',
    answers: true,
    standing: 'active',
    portal: '',
    api: '',
    incarnation: 1,
    replicas: 0,
    primaries: 0,
    ...change,
  };
}

test('health is one true sentence', () => {
  expect(healthSentence(status({})).text).toBe(
    'Both volumes are served, with every copy in place.',
  );
  const degraded = status({
    health: 'degraded',
    nodes: { total: 3, up: 2 },
    volumes: { total: 2, healthy: 1, degraded: 1, unavailable: 0 },
  });
  expect(healthSentence(degraded)).toEqual({
    tone: 'warn',
    text: 'Every volume is served; 1 of 2 lacks copies; one node is not up.',
  });
  const stopped = status({
    health: 'unavailable',
    volumes: { total: 2, healthy: 0, degraded: 1, unavailable: 1 },
  });
  expect(healthSentence(stopped).tone).toBe('bad');
});

test('that all is well is not said above alarms', () => {
  expect(healthSentence(status({}), 1)).toEqual({
    tone: 'warn',
    text: 'Both volumes are served, with every copy in place; one alarm needs attention.',
  });
  const stopped = { total: 2, healthy: 0, degraded: 1, unavailable: 1 };
  expect(healthSentence(status({ health: 'unavailable', volumes: stopped }), 2)).toEqual({
    tone: 'bad',
    text: '1 of 2 volumes cannot be used in full; 2 alarms need attention.',
  });
});

test('nothing is called healthy, in green, beside a sentence that is not', () => {
  expect(pulse(status({}))).toMatchObject({ tone: 'good', word: 'healthy' });
  expect(pulse(status({}), 1)).toMatchObject({ tone: 'warn', word: 'needs attention' });
  expect(pulse(status({ health: 'degraded' }), 1)).toMatchObject({
    tone: 'warn',
    word: 'degraded',
  });
});

test('what nobody tells any more was well, and is not said to be', () => {
  expect(pulse(status({}), 0, true)).toEqual({
    tone: 'calm',
    word: 'was healthy',
    text: 'Both volumes were served, with every copy in place.',
  });
  expect(pulse(status({}), 1, true)).toMatchObject({ tone: 'warn', word: 'needs attention' });
  const down = status({ health: 'degraded', nodes: { total: 3, up: 2 } });
  expect(pulse(down, 0, true)).toMatchObject({ tone: 'warn', word: 'degraded' });
});

test('a cluster that is not healthy is never said to be, whatever its volumes are', () => {
  const idle = status({ health: 'degraded', nodes: { total: 3, up: 2 } });
  expect(healthSentence(idle).tone).toBe('warn');
  expect(healthSentence(status({ health: 'degraded' })).tone).toBe('warn');
  expect(healthSentence(status({ health: 'unavailable' })).tone).toBe('bad');
});

test('no time is promised while something is waited for', () => {
  const waiting: Protection = {
    protected: false,
    slices: 1,
    work: { ...work, seconds_left: 5 },
    waits_for: [{ what: 'n3 to come back', seconds_left: 3600 }],
  };
  const never = { ...waiting, waits_for: [...waiting.waits_for, { what: 'room' }] };
  expect(untilProtected(never).text).toBe('unknown');
  expect(untilProtected(waiting)).toEqual({
    tone: 'warn',
    name: 'Time until protected',
    text: 'unknown',
    waits: ['n3 to come back, in 60\u00a0min'],
  });
  const going: Protection = { ...waiting, waits_for: [] };
  expect(untilProtected(going).text).toBe('about 5\u00a0s');
  expect(untilProtected(going, 0.2).text).toBe('about 1\u00a0s');
  const unknown: Protection = { ...going, work: { ...work, seconds_left: null } };
  expect(untilProtected(unknown).text).toBe('not known yet');
  expect(untilProtected({ ...going, protected: true })).toMatchObject({
    name: 'Protected',
    text: 'every volume',
  });
});

test('nodes of one failure domain are one place', () => {
  const nodes = [
    node('n1', { failure_domain: 'left' }),
    node('n2', { failure_domain: 'left' }),
    node('n3'),
  ];
  expect(policyObstacle('mirror2', nodes)).toBeNull();
  expect(policyObstacle('mirror3', nodes)).toMatch(/needs 3 .* there are 2/);
  const [first, ...others] = nodes;
  expect(policyObstacle('mirror2', [first as Node])).toMatch(/there is 1/);
  expect(policyObstacle('none', others)).toBeNull();
});

test('a node that is down is never shown as in maintenance', () => {
  expect(
    nodeState(node('n1', { state: 'down', answers: false, standing: 'maintenance' })).word,
  ).toBe('down');
  const stopped = node('n1', { state: 'down', answers: false, stopped: true });
  expect(nodeState(stopped).word).toBe('stopped');
  expect(nodeState(node('n1', { state: 'down', awaited_device: '/dev/sdb' })).tip).toContain(
    '/dev/sdb',
  );
});

test('what needs attention is counted, whoever tells of it', () => {
  const explanation = (change: Partial<Explanation>) =>
    ({ metadata: [], nodes: [], volumes: [], ...change }) as unknown as Explanation;
  const finding = { kind: 'down', what: 'it is down', waits_for: [], remedies: [] };
  const about = [{ node: 'n1', findings: [finding] }] as unknown as Explanation['nodes'];
  const alert = { severity: 'warning', subject: 'node n1', detail: 'it is slow' } as const;
  expect(attentionCount(explanation({}), status({}))).toBe(0);
  expect(attentionCount(explanation({ nodes: about }), status({}))).toBe(1);
  expect(attentionCount(explanation({}), status({ alerts: [alert] }))).toBe(1);
  expect(attentionCount(explanation({ nodes: about }), status({ alerts: [alert] }), 2)).toBe(4);
});
