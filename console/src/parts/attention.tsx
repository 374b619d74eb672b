import type { Explanation, Finding, Status } from '../api/types';
import { address, Link } from '../router';
import { bytes, bytesPerSecond } from '../text/units';
import { waitSentence } from '../text/words';
import { Commands, Empty, Sign } from './basic';
import { Left } from './left';
import { Prose } from './prose';

type About = { key: string; title: string; to: string; findings: Finding[] };

/** What needs attention, why, what that waits for, and what an operator may do. */
export function Attention({ explanation, status }: { explanation: Explanation; status: Status }) {
  const all: About[] = [
    ...(explanation.metadata?.length
      ? [{ key: 'metadata', title: 'Metadata', to: '/nodes', findings: explanation.metadata }]
      : []),
    ...explanation.nodes.map(({ node, findings }) => ({
      key: `node ${node}`,
      title: `Node ${node}`,
      to: address('nodes', node),
      findings,
    })),
    ...explanation.volumes.map(({ volume, findings }) => ({
      key: `volume ${volume}`,
      title: `Volume ${volume}`,
      to: address('volumes', volume),
      findings,
    })),
  ];
  // An alert about something that is explained anyway says nothing new.
  const explained = new Set(all.map((about) => about.key));
  const alerts = status.alerts.filter((alert) => !explained.has(alert.subject));
  if (all.length === 0 && alerts.length === 0) {
    return <Empty title="Nothing">Every node is up, and every copy is where it belongs.</Empty>;
  }
  return (
    <ul className="attention">
      {alerts.map((alert) => (
        <li key={`${alert.subject} ${alert.detail}`}>
          <Sign tone={alert.severity === 'error' ? 'bad' : 'warn'} />
          <div>
            <strong>{alert.subject}</strong>: <Prose text={alert.detail} />
          </div>
        </li>
      ))}
      {all.map((about) =>
        about.findings.map((finding) => (
          <li key={`${about.key} ${finding.kind} ${finding.what}`}>
            <Sign tone={toneOf(finding)} />
            <div>
              <Link to={about.to} className="attention-about">
                {about.title}
              </Link>
              : <Prose text={finding.what} />
              <FindingDetails finding={finding} />
            </div>
          </li>
        )),
      )}
    </ul>
  );
}

function toneOf(finding: Finding): 'bad' | 'warn' | 'calm' {
  if (finding.health === 'unavailable') return 'bad';
  return finding.health === 'degraded' ? 'warn' : 'calm';
}

/** What a finding waits for, how far the work is, and what helps. */
export function FindingDetails({ finding }: { finding: Finding }) {
  const { work } = finding;
  return (
    <div className="finding">
      {finding.waits_for.map((wait) => (
        <div key={wait.what}>
          Waits for <Prose text={waitSentence(wait)} />.
        </div>
      ))}
      {work && work.bytes > 0 ? (
        <div>
          {bytes(work.bytes)} left
          {work.bytes_per_second > 0 ? ` at ${bytesPerSecond(work.bytes_per_second)}` : ''}
          <Left seconds={work.seconds_left} />.
        </div>
      ) : null}
      {finding.remedies.length > 0 ? (
        <details>
          <summary>What you may do</summary>
          <ul>
            {finding.remedies.map((remedy) => (
              <li key={remedy.what}>
                <Prose text={remedy.what} alone />
                {remedy.command ? (
                  <Commands label={`Command: ${remedy.what}`} text={remedy.command} />
                ) : null}
              </li>
            ))}
          </ul>
        </details>
      ) : null}
    </div>
  );
}
