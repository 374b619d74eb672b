const WORDS: [RegExp, string][] = [
  [/^POST \/api\/v1\/session$/, 'login'],
  [/^DELETE \/api\/v1\/session$/, 'logout'],
  [/^PUT \/api\/v1\/session\/password$/, 'change of the own password'],
  [/^PATCH \/api\/v1\/settings$/, 'change of settings'],
  [/^PATCH \/api\/v1\/retention$/, 'change of retention'],
  [/^PATCH \/api\/v1\/volumes\/([^/]+)\/access$/, 'change of who may use volume $'],
  [/^POST \/api\/v1\/volumes\/([^/]+)\/scrub$/, 'scrub of volume $'],
  [/^POST \/api\/v1\/nodes\/([^/]+)\/devices$/, 'change of devices of node $'],
  [/^PATCH \/api\/v1\/nodes\/([^/]+)\/log$/, 'change of log levels of node $'],
  [/^PATCH \/api\/v1\/local\/log$/, 'change of log levels of the node that was asked'],
  [/^POST \/api\/v1\/local\/devices$/, 'change of devices of the node that was asked'],
  [/^PATCH \/api\/v1\/alarm-kinds\/([^/]+)$/, 'change of when alarms are raised: $'],
  [/^DELETE \/api\/v1\/alarm-kinds\/([^/]+)$/, 'default of when alarms are raised: $'],
  [/^POST \/api\/v1\/alarms\/([^/]+)\/acknowledge$/, 'note of alarm $'],
  [/^DELETE \/api\/v1\/tasks\/([^/]+)$/, 'calling off of task $'],
  [/^POST \/api\/v1\/receivers\/([^/]+)\/test$/, 'test of receiver $'],
  [/^POST \/api\/v1\/(volume|user|token)s$/, 'creation of a $'],
  [/^PATCH \/api\/v1\/((?:volume|user|node)s\/[^/]+)$/, 'change of $'],
  [/^PUT \/api\/v1\/((?:initiator|receiver)s\/[^/]+)$/, 'setting of $'],
  [/^DELETE \/api\/v1\/((?:volume|user|token|node|initiator|receiver)s\/[^/]+)$/, 'removal of $'],
];

/** What a request was for, whether it was done or refused; null if its route is not known. */
export function purpose(method: string, path: string): string | null {
  const [bare] = path.split('?');
  for (const [route, words] of WORDS) {
    const found = route.exec(`${method} ${bare}`);
    if (!found) continue;
    return words.replace('$', () => readable(found[1] ?? '').replace(/^([a-z]+)s\//, '$1 '));
  }
  return null;
}

function readable(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
