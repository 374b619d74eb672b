import { Button, Radio, TextInput } from '@mantine/core';
import { IconChartLine, IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ask, client, told } from '../api/client';
import { devicesQuery, deviceWorkQuery, useChange } from '../api/queries';
import { recent } from '../api/recent';
import type { Device, DeviceChange, DeviceTier } from '../api/types';
import { Bar, Explained, fillTone, Panel, Shown, Standing, Tag } from '../parts/basic';
import { HistoryCharts } from '../parts/chart';
import { Dialog, Tick, TypedName, useDialog } from '../parts/dialog';
import { Left } from '../parts/left';
import { RoleButton } from '../parts/role';
import { say } from '../parts/say';
import { bytes, bytesPerSecond, count, latency, moment, percent, plural } from '../text/units';
import { DEVICE_STATES, deviceWas, fillTip, LATENCY_TIP, TIERS } from '../text/words';

type Kind = 'add' | 'drain' | 'resume' | 'remove' | 'replace';

/** A node's devices, how full each is, and what can be done with it. */
export function DevicesPanel({ name, answers }: { name: string; answers: boolean }) {
  const query = useQuery({ ...devicesQuery(name), enabled: answers });
  const [dialog, open, close] = useDialog<Kind>();
  const [chosen, setChosen] = useState<Device | null>(null);
  const order = (kind: Kind, device: Device | null) => {
    setChosen(device);
    open(kind);
  };
  if (!answers)
    return <DevicesBefore name={name} devices={query.data?.devices} at={query.dataUpdatedAt} />;
  return (
    <Panel
      title="Devices"
      aside={
        query.data ? (
          <RoleButton
            takes="operator"
            variant="default"
            size="compact-xs"
            leftSection={<IconPlus size={13} />}
            onClick={() => order('add', null)}
          >
            Add device
          </RoleButton>
        ) : null
      }
    >
      <Shown query={query} what="its devices">
        {({ devices, awaited_device }) => (
          <>
            {awaited_device ? (
              <p className="tone-bad">
                It waits for the device <span className="mono">{awaited_device}</span> before it
                opens them.
              </p>
            ) : null}
            {devices.length === 0 && !awaited_device ? <p>Its devices are not open.</p> : null}
            <ul className="devices">
              {devices.map((device) => (
                <DeviceLine
                  key={device.number}
                  node={name}
                  device={device}
                  order={(kind) => order(kind, device)}
                />
              ))}
            </ul>
            {dialog === 'add' ? <AddDialog node={name} replaced={null} onClose={close} /> : null}
            {dialog === 'replace' && chosen ? (
              <AddDialog node={name} replaced={chosen} onClose={close} />
            ) : null}
            {chosen && (dialog === 'drain' || dialog === 'resume') ? (
              <PlainDialog node={name} device={chosen} order={dialog} onClose={close} />
            ) : null}
            {chosen && dialog === 'remove' ? (
              <RemoveDialog node={name} device={chosen} onClose={close} />
            ) : null}
          </>
        )}
      </Shown>
    </Panel>
  );
}

type BeforeProps = { name: string; devices: Device[] | undefined; at: number };

/** The devices of a node that does not answer, as it told of them last. */
function DevicesBefore({ name, devices, at }: BeforeProps) {
  return (
    <Panel title="Devices">
      <p className="note">
        A node tells of its own devices, and {name} does not answer.{' '}
        {devices
          ? `This is what it said at ${moment(at)}, and may be different now.`
          : 'As long as it is away, nothing is known of them here.'}
      </p>
      <ul className="devices devices-before">
        {devices?.map((device) => (
          <DeviceLine key={device.number} node={name} device={device} order={null} />
        ))}
      </ul>
    </Panel>
  );
}

/** What may be ordered of a device as it stands. */
function orders(device: Device): { kind: Kind; label: string }[] {
  const replace = { kind: 'replace', label: 'Replace' } as const;
  const remove = { kind: 'remove', label: 'Remove' } as const;
  const resume = { kind: 'resume', label: 'Call off' } as const;
  switch (device.state) {
    case 'in-use':
      return [{ kind: 'drain', label: 'Drain' }, replace];
    case 'draining':
      return [resume];
    case 'drained':
      return [resume, remove];
    case 'leaving':
      return [];
    case 'missing':
    case 'lost':
      return [replace, remove];
  }
}

type LineProps = {
  node: string;
  device: Device;
  /** Null of what was, and may not be. */
  order: ((kind: Kind) => void) | null;
};

export function DeviceLine({ node, device, order }: LineProps) {
  const [charts, setCharts] = useState(false);
  const part = device.bytes > 0 ? device.used_bytes / device.bytes : 0;
  const label = device.path || `device ${device.number}`;
  return (
    <li className="device">
      <div className="device-head">
        <span className="mono device-path" title={device.path}>
          {label}
        </span>
        <Standing {...(order ? DEVICE_STATES[device.state] : deviceWas(device))} />
        <Tag tip="Its class.">{TIERS[device.tier]}</Tag>
        {device.journal ? (
          <Tag tip="The node's journal is on it: every write is there first.">journal</Tag>
        ) : null}
        {device.detached ? (
          <span className="tone-bad">what is at its path is not this device any more</span>
        ) : null}
        {device.bad_blocks ? (
          <Explained
            className="tone-warn"
            tip="Blocks of 4 KiB on it that cannot be read, or fail their checksum, and that were not fetched from other nodes yet."
          >
            {plural(device.bad_blocks, 'bad block')}
          </Explained>
        ) : null}
        {order ? (
          <span className="device-orders">
            <Button
              variant="subtle"
              size="compact-xs"
              leftSection={<IconChartLine size={13} />}
              aria-label={`Charts of ${label}`}
              aria-expanded={charts}
              onClick={() => setCharts(!charts)}
            >
              Charts
            </Button>
            {orders(device).map(({ kind, label: word }) => (
              <RoleButton
                takes="operator"
                key={kind}
                variant="default"
                size="compact-xs"
                aria-label={`${word} ${label}`}
                onClick={() => order(kind)}
              >
                {word}
              </RoleButton>
            ))}
          </span>
        ) : null}
      </div>
      <Bar
        wide
        label={`Fill of ${label}: ${percent(device.used_bytes, device.bytes)}`}
        part={part}
        tone={fillTone(part)}
      />
      <div className="device-fill">
        <Explained tip={fillTip(device)}>
          {bytes(device.used_bytes)}{' '}
          {device.state === 'draining' ? 'left' : device.is_absent ? 'lacking' : 'used'}
          {device.bytes_per_second ? `, ${bytesPerSecond(device.bytes_per_second)} going` : ''}
          <Left seconds={device.seconds_left} />
        </Explained>
        <Explained tip="That, as a part of what the device can hold of pages.">
          {percent(device.used_bytes, device.bytes)} of {bytes(device.bytes)}
        </Explained>
      </div>
      {order ? <DeviceWork node={node} device={device} /> : null}
      {charts ? (
        <HistoryCharts
          within
          title={`Charts of ${label}`}
          subject={{ of: 'device', node, device: device.number }}
        />
      ) : null}
    </li>
  );
}

/** What a device does at present, and how long that takes. */
export function DeviceWork({ node, device }: { node: string; device: Device }) {
  const work = useQuery(deviceWorkQuery(node, device.number));
  const point = recent(work)?.points.at(-1);
  const took = device.latency_p99_us;
  if (!point && !work.error && took == null) return null;
  const ten = 'as a mean of ten seconds';
  const isIdle =
    point && [point.reads, point.writes, point.others].every((flow) => flow.per_second === 0);
  return (
    <div className="device-work">
      {point ? (
        <>
          <Explained
            tip={`Operations of the medium that were done in a second, ${ten}: ${count(point.reads.per_second)} reads, ${count(point.writes.per_second)} writes, ${count(point.others.per_second)} flushes and discards.`}
          >
            <b>{count(point.reads.per_second + point.writes.per_second)}</b> IOPS
          </Explained>
          <Explained tip={`Bytes that were read in a second, ${ten}.`}>
            <b>{bytesPerSecond(point.reads.bytes_per_second)}</b> read
          </Explained>
          <Explained tip={`Bytes that were written in a second, ${ten}.`}>
            <b>{bytesPerSecond(point.writes.bytes_per_second)}</b> written
          </Explained>
          <Explained tip={`Operations that were under way at a time, ${ten}.`}>
            queue depth <b>{count(point.queue_depth)}</b>
          </Explained>
        </>
      ) : work.error ? (
        <Explained tip={`What it does at present could not be read: ${told(work.error).detail}.`}>
          work not known
        </Explained>
      ) : null}
      {took == null ? null : (
        <Explained tip={isIdle ? 'No operation in the last ten seconds.' : LATENCY_TIP}>
          p99 <b>{isIdle ? '–' : latency(took)}</b>
        </Explained>
      )}
    </div>
  );
}

function useOrder(node: string) {
  return useChange((body: DeviceChange) =>
    ask(client.POST('/api/v1/nodes/{name}/devices', { params: { path: { name: node } }, body })),
  );
}

function PlainDialog({
  node,
  device,
  order,
  onClose,
}: {
  node: string;
  device: Device;
  order: 'drain' | 'resume';
  onClose: () => void;
}) {
  const change = useOrder(node);
  const drain = order === 'drain';
  return (
    <Dialog
      title={drain ? 'Drain a device' : 'Call off what was ordered'}
      does={drain ? 'Begin to drain' : 'Call it off'}
      busy={change.isPending}
      error={change.error}
      onClose={onClose}
      onDo={() =>
        change.mutate(
          { order, device: device.number },
          {
            onSuccess: () => {
              say(drain ? `${device.path} is being drained` : `${device.path} takes data again`);
              onClose();
            },
          },
        )
      }
    >
      <p className="mono">{device.path}</p>
      <p>
        {drain
          ? 'What it holds goes to the other devices of its node, and the journal to one that has room for it. Then it can be removed.'
          : 'It takes data again. What has gone elsewhere stays there.'}
      </p>
    </Dialog>
  );
}

export function RemoveDialog({
  node,
  device,
  onClose,
}: {
  node: string;
  device: Device;
  onClose: () => void;
}) {
  const [giveUp, setGiveUp] = useState(false);
  const [typed, setTyped] = useState('');
  const change = useOrder(node);
  const called = device.path || `device ${device.number}`;
  return (
    <Dialog
      title={`Remove a device of ${node}`}
      does="Remove device"
      danger
      ready={typed === called}
      busy={change.isPending}
      error={change.error}
      onClose={onClose}
      onDo={() =>
        change.mutate(
          { order: 'remove', device: device.number, ...(giveUp ? { give_up: true } : {}) },
          {
            onSuccess: () => {
              say(`${called} is not a device of ${node} any more`);
              onClose();
            },
          },
        )
      }
    >
      <p className="mono">{called}</p>
      <p>{node} does without it from then on.</p>
      <TypedName name={called} value={typed} onChange={setTyped} />
      {device.is_absent ? (
        <Tick
          label="Give up what is lacking because of it, where no other node has it: that data is lost"
          value={giveUp}
          onChange={setGiveUp}
        />
      ) : null}
    </Dialog>
  );
}

function AddDialog({
  node,
  replaced,
  onClose,
}: {
  node: string;
  replaced: Device | null;
  onClose: () => void;
}) {
  const [path, setPath] = useState('');
  const [tier, setTier] = useState<DeviceTier>(replaced?.tier ?? 'flash');
  const [journal, setJournal] = useState(false);
  const change = useOrder(node);
  const absolute = path.startsWith('/') && path.length > 1;
  return (
    <Dialog
      title={replaced ? 'Replace a device' : `Add a device to ${node}`}
      does={replaced ? 'Replace device' : 'Add device'}
      ready={absolute}
      busy={change.isPending}
      error={change.error}
      onClose={onClose}
      onDo={() =>
        change.mutate(
          {
            order: 'add',
            path,
            tier,
            ...(journal ? { journal_room: true } : {}),
            ...(replaced ? { replaces: replaced.number } : {}),
          },
          {
            onSuccess: () => {
              say(`${path} is a device of ${node}`);
              onClose();
            },
          },
        )
      }
    >
      {replaced ? (
        <p>
          The new one takes the place of <span className="mono">{replaced.path}</span>: what that
          holds goes to the others, and then it is removed.
        </p>
      ) : null}
      <TextInput
        data-autofocus
        label="Path"
        description={`On the machine of ${node}: a block device, or a file that is there. It must be blank.`}
        placeholder="/dev/sdd"
        value={path}
        error={path !== '' && !absolute ? 'an absolute path' : undefined}
        onChange={(event) => setPath(event.currentTarget.value)}
      />
      <Radio.Group label="Class" value={tier} onChange={(to) => setTier(to as DeviceTier)}>
        <div className="choices">
          <Radio value="flash" label="Flash" />
          <Radio value="capacity" label="Capacity" />
        </div>
      </Radio.Group>
      {replaced?.journal ? null : (
        <Tick
          label="Leave room on it for the node's journal, so that this can go there"
          value={journal}
          onChange={setJournal}
        />
      )}
    </Dialog>
  );
}
