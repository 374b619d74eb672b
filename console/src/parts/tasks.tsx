import { useQuery } from '@tanstack/react-query';
import { Unreached } from '../api/client';
import { tasksQuery } from '../api/queries';
import type { Task } from '../api/types';
import { address, Link } from '../router';
import { byWaiting, partDone, taskKind, tasksSentence } from '../text/tasks';
import { bytes, bytesPerSecond, percent, span } from '../text/units';
import { Bar, Explained, Panel, Sign } from './basic';
import { useSteady } from './left';

/** Tasks that the overview tells of; all are on a page of their own. */
const TOLD = 5;

/** What it is done with, and where that is. */
export function TaskSubject({ task }: { task: Task }) {
  if (task.volume)
    return <Link to={address('volumes', task.volume, part(task))}>{task.subject}</Link>;
  if (task.node) return <Link to={address('nodes', task.node)}>{task.subject}</Link>;
  return <>{task.subject}</>;
}

function part({ kind }: Task): string {
  if (kind === 'scrub') return 'scrub';
  return kind === 'creation' ? 'load' : 'copies';
}

/** How far it is. */
export function TaskProgress({ task }: { task: Task }) {
  const done = partDone(task);
  if (done === null) return <span className="dim">–</span>;
  const text = percent(task.bytes_done ?? 0, task.bytes_total ?? 0);
  return (
    <span className="used">
      <Bar label={`${taskKind(task).word} of ${task.subject}: ${text}`} part={done} />
      <Explained
        tip={`${bytes(task.bytes_done ?? 0)} of ${bytes(task.bytes_total ?? 0)} are done.`}
      >
        {text}
      </Explained>
    </span>
  );
}

/** Until it is done, at its present rate. */
export function TaskTime({ task }: { task: Task }) {
  const left = useSteady(task.seconds_left);
  if (left === null) return <span className="dim">–</span>;
  return <>{left < 1 ? 'in a moment' : span(left)}</>;
}

/** The first of what is under way; nothing of nothing. */
export function UnderWay() {
  const { data, error } = useQuery(tasksQuery);
  const tasks = data?.tasks ?? [];
  // That the node does not answer is said above the page: what is here is what it said last.
  const isLacking = error !== null && !(data && error instanceof Unreached);
  if (tasks.length === 0 && !isLacking) return null;
  return (
    <Panel
      title="Under way"
      aside={
        <Link to="/tasks">
          {tasks.length > TOLD ? `All ${tasks.length} tasks` : 'Tasks'}
          {tasks.length > 0 ? `: ${tasksSentence(tasks)}` : ''}
        </Link>
      }
    >
      {isLacking ? (
        <div className="warning" role="status">
          <Sign tone="warn" size={18} />
          <span>Tasks could not be read: there may be some that are not shown here.</span>
        </div>
      ) : null}
      <ul className="under-way">
        {byWaiting(tasks)
          .slice(0, TOLD)
          .map((task) => (
            <li key={task.id}>
              <span className="under-way-what">
                <Explained tip={taskKind(task).tip} className="strip-name">
                  {taskKind(task).word}
                </Explained>{' '}
                <TaskSubject task={task} />
              </span>
              <TaskProgress task={task} />
              <span className="numeric">
                {task.bytes_left == null ? null : (
                  <Explained tip={leftTip(task)}>{bytes(task.bytes_left)}</Explained>
                )}
              </span>
              <span className="numeric">
                {task.is_waiting ? (
                  <Explained tip="It waits for its turn, or for what does not come by itself.">
                    waits
                  </Explained>
                ) : (
                  <Explained tip="Until it is done, at this rate.">
                    <TaskTime task={task} />
                  </Explained>
                )}
              </span>
            </li>
          ))}
      </ul>
    </Panel>
  );
}

function leftTip({ bytes_per_second: rate }: Task): string {
  return `Bytes that are left${rate ? `; they become fewer by ${bytesPerSecond(rate)}` : ''}.`;
}
