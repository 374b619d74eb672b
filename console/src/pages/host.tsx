import { useQuery } from '@tanstack/react-query';
import { initiatorSessionsQuery, initiatorsQuery } from '../api/queries';
import { Empty, Explained, PageHead, Panel, Shown } from '../parts/basic';
import { HistoryCharts } from '../parts/chart';
import { useDialog } from '../parts/dialog';
import { PathTable } from '../parts/paths';
import { RoleButton } from '../parts/role';
import { address, Link, useTitle } from '../router';
import { PutDialog } from './host-changes';

/** One initiator: what is on record of it, its paths to volumes, and what it does with all of them. */
export function HostPage({ name }: { name: string }) {
  useTitle(`Host ${name}`);
  const known = useQuery(initiatorsQuery);
  const sessions = useQuery(initiatorSessionsQuery(name));
  const [dialog, open, close] = useDialog<'put'>();
  const record = known.data?.initiators.find((one) => one.name === name);
  return (
    <>
      <PageHead
        title={name}
        above={<Link to="/hosts">Hosts</Link>}
        actions={
          known.data ? (
            <RoleButton takes="operator" variant="default" onClick={() => open('put')}>
              {record ? 'CHAP' : 'Put on record'}
            </RoleButton>
          ) : null
        }
      />
      {known.data ? (
        <div className="fact-line">
          {record ? (
            <>
              <Explained tip="How it proves who it is when it logs in.">
                {record.chap_name ? `CHAP, as ${record.chap_name}` : 'its name is believed'}
              </Explained>
              <Explained tip="How targets prove to it who they are.">
                {record.mutual_name
                  ? `targets by CHAP, as ${record.mutual_name}`
                  : 'targets do not prove themselves to it'}
              </Explained>
              <span>
                {record.volumes.length === 0
                  ? 'no volume lists it'
                  : record.volumes.map((volume, index) => (
                      <span key={volume}>
                        {index > 0 ? ', ' : 'listed by '}
                        <Link to={address('volumes', volume, 'access')}>{volume}</Link>
                      </span>
                    ))}
              </span>
            </>
          ) : (
            <Explained tip="Nobody has put it on record: it uses volumes that are for everybody, and its name is believed.">
              not on record
            </Explained>
          )}
        </div>
      ) : null}
      <Panel title="Sessions and paths" flush>
        <Shown query={sessions} what="its sessions">
          {({ sessions, silent }) => (
            <PathTable
              label="Sessions"
              sessions={sessions}
              silent={silent}
              of="initiator"
              empty={
                <Empty
                  title="It is not logged in"
                  action={<Link to="/volumes">To the volumes</Link>}
                >
                  A volume’s page says under “Attach” how a host gets at it.
                </Empty>
              }
            />
          )}
        </Shown>
      </Panel>
      <HistoryCharts title="Load of this host" subject={{ of: 'host', initiator: name }} brief />
      {dialog === 'put' ? (
        <PutDialog
          opened={record ?? null}
          called={record ? '' : name}
          all={known.data?.initiators ?? []}
          onClose={close}
        />
      ) : null}
    </>
  );
}
