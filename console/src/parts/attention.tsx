import type { Alarm, Explanation, Finding, Status } from '../api/types';
import { address, Link } from '../router';
import { isCritical, noted, untold } from '../text/attention';
import { bytes, bytesPerSecond, plural } from '../text/units';
import { waitSentence } from '../text/words';
import { About } from './about';
import { Commands, Empty, Explained, Sign, Waiting } from './basic';
import { Left } from './left';
import { Prose } from './prose';

type Told = { key: string; title: string; to: string; findings: Finding[] };

/** What needs attention, why, what that waits for, and what an operator may do. */
export function Attention({
  explanation,
  status,
  alarms,
  unknown,
}: {
  explanation: Explanation;
  status: Status;
  /** Those that are raised; undefined as long as that is not known. */
  alarms: Alarm[] | undefined;
  /** Why it is not known, if it is known why. */
  unknown: unknown;
}) {
  const all: Told[] = [
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
  const raised = untold(alarms ?? [], explanation);
  if (all.length === 0 && alerts.length === 0 && raised.length === 0) {
    if (alarms) return <Nothing noted={noted(alarms)} />;
    if (!unknown) return <Waiting what="the alarms" />;
  }
  return (
    <ul className="attention">
      {alarms ? null : unknown ? (
        <li>
          <Sign tone="warn" />
          <div>Alarms could not be read: there may be some that are not shown here.</div>
        </li>
      ) : null}
      {raised.filter(isCritical).map((alarm) => (
        <Raised key={alarm.id} alarm={alarm} />
      ))}
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
      {raised
        .filter((alarm) => !isCritical(alarm))
        .map((alarm) => (
          <Raised key={alarm.id} alarm={alarm} />
        ))}
    </ul>
  );
}

function Nothing({ noted }: { noted: number }) {
  if (noted === 0) {
    return <Empty title="Nothing">Every node is up, and every copy is where it belongs.</Empty>;
  }
  return (
    <Empty title="Nothing new" action={<Link to="/alarms">To the alarms</Link>}>
      {plural(noted, 'alarm')} {noted === 1 ? 'is' : 'are'} raised still, of which somebody has
      taken note.
    </Empty>
  );
}

/** An alarm of which nobody has taken note. */
function Raised({ alarm }: { alarm: Alarm }) {
  return (
    <li>
      <Sign tone={isCritical(alarm) ? 'bad' : 'warn'} />
      <div>
        <Link to="/alarms" className="attention-about">
          {isCritical(alarm) ? 'Critical alarm' : 'Alarm'}
        </Link>
        , <About subject={alarm.subject} />: {alarm.title}. <Prose text={alarm.detail} alone />.
        <div className="finding">
          <details>
            <summary>What you may do</summary>
            <Prose text={alarm.action} />
          </details>
        </div>
      </div>
    </li>
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
          <Explained tip="What copies lack still, at most, and how fast that becomes less.">
            {bytes(work.bytes)} left
            {work.bytes_per_second > 0 ? ` at ${bytesPerSecond(work.bytes_per_second)}` : ''}
            <Left seconds={work.seconds_left} />
          </Explained>
          .
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
