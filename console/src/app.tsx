import { ActionIcon, useComputedColorScheme, useMantineColorScheme } from '@mantine/core';
import {
  IconActivity,
  IconBell,
  IconDatabase,
  IconDevicesPc,
  IconHelp,
  IconHistory,
  IconHourglass,
  IconListCheck,
  IconMoon,
  IconServer2,
  IconSettings,
  IconSun,
  IconUsers,
} from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Component, type ReactNode, Suspense, useEffect, useRef } from 'react';
import { clusterQuery, raisedQuery, sessionQuery } from './api/queries';
import type { Identity } from './api/types';
import { LoginPage } from './pages/login';
import { OverviewPage } from './pages/overview';
import { Account } from './parts/account';
import { Empty, Failure, Sign, Waiting } from './parts/basic';
import { fetchLater, later } from './parts/later';
import { Lost, useIsLost } from './parts/lost';
import { SaidList } from './parts/say';
import { Link, split, usePath } from './router';
import { untold } from './text/attention';
import { helpFor } from './text/help';
import { returnToPlace } from './text/login';
import { pulse } from './text/words';

/** One comes to the overview first: what the others are made of is fetched after it. */
const rest = () => import('./pages/rest');
const AlarmsPage = later(async () => (await rest()).AlarmsPage);
const AuditPage = later(async () => (await rest()).AuditPage);
const HostPage = later(async () => (await rest()).HostPage);
const HostsPage = later(async () => (await rest()).HostsPage);
const NodePage = later(async () => (await rest()).NodePage);
const NodesPage = later(async () => (await rest()).NodesPage);
const SettingsPage = later(async () => (await rest()).SettingsPage);
const StallsPage = later(async () => (await rest()).StallsPage);
const TasksPage = later(async () => (await rest()).TasksPage);
const UsersPage = later(async () => (await rest()).UsersPage);
const VolumePage = later(async () => (await rest()).VolumePage);
const VolumesPage = later(async () => (await rest()).VolumesPage);
const WizardPage = later(async () => (await rest()).WizardPage);

/** Where one can go; some of it is for some only. */
const PLACES: {
  to: string;
  name: string;
  Icon: typeof IconActivity;
  isFor?: (who: Identity) => boolean;
}[] = [
  { to: '/', name: 'Overview', Icon: IconActivity },
  { to: '/volumes', name: 'Volumes', Icon: IconDatabase },
  { to: '/nodes', name: 'Nodes', Icon: IconServer2 },
  { to: '/hosts', name: 'Hosts', Icon: IconDevicesPc },
  { to: '/tasks', name: 'Tasks', Icon: IconListCheck },
  { to: '/alarms', name: 'Alarms', Icon: IconBell },
  { to: '/stalls', name: 'Stalls', Icon: IconHourglass },
  { to: '/settings', name: 'Settings', Icon: IconSettings },
  { to: '/users', name: 'Users', Icon: IconUsers, isFor: (who) => who.role === 'administrator' },
  {
    to: '/audit',
    name: 'Audit',
    Icon: IconHistory,
    isFor: (who) => who.role === 'administrator' && who.kind !== 'anybody',
  },
];

export function App() {
  const session = useQuery(sessionQuery);
  const wasKnown = useRef(false);
  if (session.data) wasKnown.current = true;
  if (session.data === null) return <LoginPage ended={wasKnown.current} />;
  // A node that does not answer is told by the pages.
  if (session.isPending) return <Waiting what="who you are" />;
  return <Shell who={session.data} />;
}

function Shell({ who }: { who: Identity | undefined }) {
  const path = usePath();
  useEffect(returnToPlace, []);
  useEffect(fetchLater, []);
  // In a narrow window the places are a line that is longer than the window.
  // biome-ignore lint/correctness/useExhaustiveDependencies: where one is goes by the path
  useEffect(() => {
    const here = document.querySelector('.place[aria-current]');
    here?.scrollIntoView?.({ block: 'nearest', inline: 'center' });
  }, [path]);
  const places = PLACES.filter(({ isFor }) => isFor === undefined || (who && isFor(who)));
  return (
    <div className={useIsLost() ? 'shell lost-sight' : 'shell'}>
      <a className="skip" href="#page">
        Skip to the page
      </a>
      <header className="side">
        <Link to="/" className="brand">
          <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
            <rect width="32" height="32" rx="7" className="brand-ground" />
            <path d="M9 7v18M23 7v18M9 16h14" className="brand-lines" />
          </svg>
          <span>Holdfast</span>
        </Link>
        <nav aria-label="Pages">
          {places.map(({ to, name, Icon }) => {
            const here = to === '/' ? path === '/' : path === to || path.startsWith(`${to}/`);
            return (
              <Link key={to} to={to} className="place" aria-current={here ? 'page' : undefined}>
                <Icon size={17} stroke={1.75} aria-hidden />
                <span>{name}</span>
                {to === '/alarms' ? <Raised /> : null}
              </Link>
            );
          })}
        </nav>
        {who ? <Account who={who} /> : null}
        <div className="side-foot">
          <Pulse />
          <span className="side-tools">
            <Help path={path} />
            <Scheme />
          </span>
        </div>
      </header>
      <main id="page" className="page">
        <Lost path={path} />
        <Guard key={path}>
          <Suspense fallback={<Waiting what="the page" />}>
            <View path={path} />
          </Suspense>
        </Guard>
      </main>
      <SaidList />
    </div>
  );
}

function View({ path }: { path: string }) {
  const [place, name, part] = split(path);
  switch (place) {
    case undefined:
      return <OverviewPage />;
    case 'volumes':
      if (name === undefined) return <VolumesPage />;
      // A volume cannot have this name: the plus sign is not allowed in names.
      return name === '+new' ? <WizardPage /> : <VolumePage name={name} part={part ?? 'load'} />;
    case 'nodes':
      return name === undefined ? <NodesPage /> : <NodePage name={name} />;
    case 'hosts':
      return name === undefined ? <HostsPage /> : <HostPage name={name} />;
    case 'tasks':
      return <TasksPage />;
    case 'alarms':
      return <AlarmsPage />;
    case 'stalls':
      return <StallsPage />;
    case 'settings':
      return <SettingsPage />;
    case 'users':
      return <UsersPage />;
    case 'audit':
      return <AuditPage />;
    default:
      return <Empty title="There is no such page" action={<Link to="/">To the overview</Link>} />;
  }
}

/** How many alarms nobody has taken note of. */
function Raised() {
  const alarms = useQuery(raisedQuery).data?.alarms ?? [];
  const count = alarms.filter((one) => one.acknowledged == null).length;
  if (count === 0) return null;
  return (
    <span className="raised" title={`${count} of which nobody has taken note`}>
      {count}
      <span className="unseen"> of which nobody has taken note</span>
    </span>
  );
}

/** How the cluster is, wherever one is. */
function Pulse() {
  const isLost = useIsLost();
  const { data } = useQuery(clusterQuery);
  const alarms = useQuery(raisedQuery).data?.alarms ?? [];
  if (!data) return <span />;
  const { tone, word, text } = pulse(data.status, untold(alarms, data.explanation).length, isLost);
  return (
    <Link to="/" className="pulse" title={text} aria-label={`${word}: ${text}`}>
      <Sign tone={tone} size={15} />
      <span>{word}</span>
    </Link>
  );
}

/** What the book says of this page; every node serves it. */
function Help({ path }: { path: string }) {
  return (
    <ActionIcon
      component="a"
      href={helpFor(split(path))}
      target="_blank"
      rel="noreferrer"
      variant="subtle"
      color="gray"
      aria-label="Help: the book, about this page"
      title="Help: the book, about this page"
    >
      <IconHelp size={16} />
    </ActionIcon>
  );
}

function Scheme() {
  const { setColorScheme } = useMantineColorScheme();
  const now = useComputedColorScheme('light');
  const other = now === 'dark' ? 'light' : 'dark';
  return (
    <ActionIcon
      variant="subtle"
      color="gray"
      aria-label={`Switch to ${other}`}
      title={`Switch to ${other}`}
      onClick={() => setColorScheme(other)}
    >
      {now === 'dark' ? <IconSun size={16} /> : <IconMoon size={16} />}
    </ActionIcon>
  );
}

/** A page that fails says so, and leaves the others alone. */
class Guard extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return <Failure error={this.state.error} retry={() => window.location.reload()} />;
  }
}
