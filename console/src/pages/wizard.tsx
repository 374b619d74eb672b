import { Button, Radio, Stepper, TagsInput, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { allowAll } from '../api/access';
import { ask, client } from '../api/client';
import { useCreation } from '../api/creation';
import { wasSent } from '../api/key';
import { clusterQuery, initiatorsQuery, nodesQuery, volumesQuery } from '../api/queries';
import type { Policy, Status } from '../api/types';
import { AttachRecipes, LUN_TIP, portalsOf } from '../parts/attach';
import { Explained, Failure, PageHead, Panel } from '../parts/basic';
import { Promised } from '../parts/promised';
import { RoleButton, RolePage } from '../parts/role';
import { say } from '../parts/say';
import { address, Link, navigate, useTitle } from '../router';
import { bytes, parseBytes, percent } from '../text/units';
import { POLICIES, policyObstacle } from '../text/words';
import { type Draft, faults, initiatorFault, lunOf, targetOf } from './wizard-rules';

const STEPS = ['Name and size', 'Protection', 'Hosts', 'Check'] as const;

export function WizardPage() {
  useTitle('Create volume');
  const volumes = <Link to="/volumes">Volumes</Link>;
  return (
    <RolePage takes="operator" title="Create volume" above={volumes}>
      <Wizard />
    </RolePage>
  );
}

const EMPTY: Draft = {
  name: '',
  size: '',
  policy: 'mirror2',
  everybody: true,
  initiators: [],
  target: '',
  lun: '',
};

function Wizard() {
  const { draft, change, create } = useCreation(EMPTY, makeVolume);
  const [step, setStep] = useState(0);
  const [tried, setTried] = useState(false);
  /** The name by which one was asked for last, and the cluster before that. */
  const [asked, setAsked] = useState<{ name: string; status: Status | undefined } | null>(null);
  const [made, setMade] = useState<string | null>(null);
  const now = useQuery(clusterQuery).data?.status;
  const sent = asked !== null && draft.name === asked.name && wasSent(create);
  /** The cluster without it, on every step: one may go back while it is being made. */
  const status = sent ? asked.status : now;
  const volumes = useQuery(volumesQuery).data?.volumes ?? [];
  const wrong = faults(
    draft,
    // One that is there since it was asked for here is no other.
    volumes.map((volume) => volume.name).filter((name) => !sent || name !== asked.name),
  );
  const nodes = useQuery(nodesQuery).data?.nodes;
  const obstacle = (nodes && policyObstacle(draft.policy, nodes)) ?? undefined;
  const stepWrong = [
    wrong.name ?? wrong.size ?? wrong.target ?? wrong.lun,
    obstacle,
    wrong.initiators,
    undefined,
  ][step];

  if (made !== null) return <Made name={made} />;
  const on = () => {
    if (stepWrong) {
      setTried(true);
      return;
    }
    setTried(false);
    if (step < STEPS.length - 1) setStep(step + 1);
    else {
      setAsked({ name: draft.name, status });
      create.mutate(undefined, {
        onSuccess: () => {
          say(`Volume ${draft.name} was made`);
          setMade(draft.name);
        },
      });
    }
  };
  const shown = tried ? wrong : {};
  return (
    <>
      <PageHead title="Create volume" above={<Link to="/volumes">Volumes</Link>} />
      <div className="panel wizard">
        <Stepper
          active={step}
          size="xs"
          iconSize={26}
          onStepClick={setStep}
          allowNextStepsSelect={false}
        >
          {STEPS.map((label) => (
            <Stepper.Step key={label} label={label} />
          ))}
        </Stepper>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            on();
          }}
        >
          <div className="wizard-step">
            {step === 0 ? <NameStep draft={draft} change={change} wrong={shown} /> : null}
            {step === 1 ? (
              <PolicyStep
                draft={draft}
                change={change}
                obstacle={tried ? obstacle : undefined}
                status={status}
              />
            ) : null}
            {step === 2 ? <HostsStep draft={draft} change={change} wrong={shown} /> : null}
            {step === 3 ? <CheckStep draft={draft} status={status} /> : null}
          </div>
          {create.error ? <Failure error={create.error} /> : null}
          <div className="dialog-buttons">
            <Button
              variant="default"
              onClick={() => (step === 0 ? navigate('/volumes') : setStep(step - 1))}
            >
              {step === 0 ? 'Cancel' : 'Back'}
            </Button>
            {step === STEPS.length - 1 ? (
              <RoleButton takes="operator" type="submit" loading={create.isPending}>
                Create volume
              </RoleButton>
            ) : (
              <Button type="submit">Next</Button>
            )}
          </div>
        </form>
      </div>
    </>
  );
}

/** Makes the volume, and then says whom it is for: until then nothing is on it that anybody could read. */
async function makeVolume(
  draft: Draft,
  params: { header: { 'Idempotency-Key': string } },
): Promise<void> {
  const { name, policy } = draft;
  const body = {
    name,
    policy,
    bytes: parseBytes(draft.size) ?? 0,
    ...(draft.target.trim() ? { target: draft.target.trim() } : {}),
    ...(draft.target.trim() && draft.lun.trim() ? { lun: Number(draft.lun) } : {}),
  };
  await ask(client.POST('/api/v1/volumes', { params, body }));
  if (draft.everybody) return;
  await allowAll(name, draft.initiators);
}

/** What keeps one from going on: it is spoken when it comes, for the button that was pressed is elsewhere. */
function heard(fault: string | undefined): ReactNode {
  return fault === undefined ? undefined : <span role="alert">{fault}</span>;
}

type StepProps = { draft: Draft; change: (to: Partial<Draft>) => void };
type Wrong = ReturnType<typeof faults>;

function NameStep({ draft, change, wrong }: StepProps & { wrong: Wrong }) {
  const size = parseBytes(draft.size);
  return (
    <div className="fields">
      <TextInput
        label="Name"
        description="1 to 63 lower-case letters, digits, '-' and '.'; a letter or a digit first and last"
        placeholder="sql-data"
        autoFocus
        autoComplete="off"
        spellCheck={false}
        value={draft.name}
        error={heard(wrong.name)}
        onChange={(event) => change({ name: event.currentTarget.value })}
      />
      <TextInput
        label="Size"
        description="What hosts see, as in 500 GiB or 2 TiB. Room is taken when data is written, and a volume can grow in use."
        placeholder="100 GiB"
        autoComplete="off"
        value={draft.size}
        error={heard(wrong.size)}
        rightSectionWidth={110}
        rightSection={size === null ? null : <span className="dim">{bytes(size)}</span>}
        onChange={(event) => change({ size: event.currentTarget.value })}
      />
      <details>
        <summary>A target that several volumes share</summary>
        <div className="fields fields-inner">
          <TextInput
            label="Target"
            description="Its iSCSI name. Without one the volume has a target of its own."
            placeholder="iqn.2026-11.com.example:db"
            value={draft.target}
            error={heard(wrong.target)}
            onChange={(event) => change({ target: event.currentTarget.value })}
          />
          <TextInput
            label="LUN"
            description="Its number there, 0 to 255"
            placeholder="0"
            disabled={draft.target.trim() === ''}
            value={draft.lun}
            error={heard(wrong.lun)}
            onChange={(event) => change({ lun: event.currentTarget.value })}
          />
        </div>
      </details>
    </div>
  );
}

type PolicyProps = StepProps & { obstacle: string | undefined; status: Status | undefined };

function PolicyStep({ draft, change, obstacle, status }: PolicyProps) {
  const nodes = useQuery(nodesQuery).data?.nodes;
  const pool = status?.pool;
  const size = parseBytes(draft.size) ?? 0;
  return (
    <>
      <Radio.Group
        label="How it is protected"
        error={heard(
          obstacle &&
            `${draft.policy} ${obstacle}. Choose another one, or have more nodes take part.`,
        )}
        description="Copies are on nodes that do not fail together, as far as you have said which do."
        value={draft.policy}
        onChange={(policy) => change({ policy: policy as Policy })}
      >
        <div className="policies">
          {(Object.keys(POLICIES) as Policy[]).map((policy) => {
            const words = POLICIES[policy];
            const lacking = nodes ? policyObstacle(policy, nodes) : null;
            const full = size * words.copies;
            return (
              <Radio.Card
                key={policy}
                value={policy}
                className="policy"
                disabled={lacking !== null}
                aria-label={`${words.title} (${policy})`}
              >
                <div className="policy-head">
                  <Radio.Indicator size="xs" disabled={lacking !== null} />
                  <b>{words.title}</b>
                  <span className="mono dim">{policy}</span>
                </div>
                <dl>
                  <dt>Survives</dt>
                  <dd>{words.survives}</dd>
                  <dt>Goes on</dt>
                  <dd>{words.goesOn}</dd>
                  <dt>Costs</dt>
                  <dd>
                    {words.costs} Full, this volume takes {bytes(full)}
                    {pool && pool.bytes > 0 ? `, ${percent(full, pool.bytes)} of the pool` : ''}.
                  </dd>
                </dl>
                {lacking ? <div className="policy-obstacle">Not now: {lacking}.</div> : null}
              </Radio.Card>
            );
          })}
        </div>
      </Radio.Group>
      <Promised more={size * POLICIES[draft.policy].copies} status={status} />
    </>
  );
}

function HostsStep({ draft, change, wrong }: StepProps & { wrong: Wrong }) {
  const known = useQuery(initiatorsQuery).data?.initiators ?? [];
  return (
    <div className="fields">
      <Radio.Group
        label="Whom it is for"
        value={draft.everybody ? 'everybody' : 'some'}
        onChange={(to) => change({ everybody: to === 'everybody' })}
      >
        <div className="choices">
          <Radio
            value="everybody"
            label="Every host that reaches a portal"
            description="Whoever reaches one can read and write it."
          />
          <Radio value="some" label="These hosts only" />
        </div>
      </Radio.Group>
      {draft.everybody ? null : (
        <TagsInput
          label="Initiators"
          description="iSCSI names. On Linux a host's is in /etc/iscsi/initiatorname.iscsi. Press Enter after each."
          placeholder={draft.initiators.length === 0 ? 'iqn.1993-08.org.debian:01:2d4f1a' : ''}
          data={known.map((initiator) => initiator.name)}
          value={draft.initiators}
          error={heard(
            wrong.initiators ?? draft.initiators.map(initiatorFault).find((fault) => fault),
          )}
          onChange={(initiators) => change({ initiators })}
          acceptValueOnBlur
        />
      )}
    </div>
  );
}

/** All that is asked for, before it is. */
export function CheckStep({ draft, status }: { draft: Draft; status: Status | undefined }) {
  const portals = portalsOf(useQuery(nodesQuery).data?.nodes ?? []);
  const size = parseBytes(draft.size) ?? 0;
  const words = POLICIES[draft.policy];
  return (
    <>
      <dl className="facts">
        <dt>Name</dt>
        <dd>{draft.name}</dd>
        <dt>Size</dt>
        <dd>
          <Explained tip="What hosts see. Room is taken when data is written.">
            {bytes(size)}
          </Explained>
        </dd>
        <dt>Protection</dt>
        <dd>
          {words.title}. Survives: {words.survives}
        </dd>
        <dt>Takes when full</dt>
        <dd>
          <Explained tip="What all copies take in the pool when every block has been written.">
            {bytes(size * words.copies)}
          </Explained>
        </dd>
        <dt>For</dt>
        <dd>
          {draft.everybody ? 'every host that reaches a portal' : draft.initiators.join(', ')}
        </dd>
        <dt>Target</dt>
        <dd className="mono">{targetOf(draft)}</dd>
        <dt>LUN</dt>
        <dd className="mono">
          <Explained tip={LUN_TIP}>{lunOf(draft)}</Explained>
        </dd>
        <dt>Portals</dt>
        <dd className="mono">{portals.length === 0 ? 'not known' : portals.join('  ')}</dd>
      </dl>
      <Promised more={size * words.copies} status={status} />
    </>
  );
}

function Made({ name }: { name: string }) {
  return (
    <>
      <PageHead
        title={`Volume ${name} was made`}
        above={<Link to="/volumes">Volumes</Link>}
        actions={<Button onClick={() => navigate(address('volumes', name))}>Open volume</Button>}
      />
      <Panel title="Attach it to a host">
        <AttachRecipes name={name} />
      </Panel>
    </>
  );
}
