import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ask, client } from '../api/client';
import { tasksQuery, useChange } from '../api/queries';
import type { Task } from '../api/types';
import { Empty, Explained, PageHead, Shown } from '../parts/basic';
import { Dialog } from '../parts/dialog';
import { RoleButton } from '../parts/role';
import { say } from '../parts/say';
import { type Column, DataTable } from '../parts/table';
import { TaskProgress, TaskSubject, TaskTime } from '../parts/tasks';
import { useTitle } from '../router';
import { byWaiting, partDone, taskKind, tasksSentence } from '../text/tasks';
import { bytes, bytesPerSecond, moment } from '../text/units';

const COLUMNS: Column<Task>[] = [
  {
    id: 'kind',
    head: 'What',
    by: (task) => taskKind(task).word,
    cell: (task) => (
      <Explained tip={taskKind(task).tip} className="nowrap">
        {taskKind(task).word}
      </Explained>
    ),
  },
  {
    id: 'subject',
    head: 'Of what',
    by: (task) => task.subject,
    cell: (task) => <TaskSubject task={task} />,
  },
  {
    id: 'state',
    head: 'State',
    tip: 'Whether something is done, or it waits for its turn, or for what does not come by itself',
    by: (task) => (task.is_waiting ? 'waiting' : 'under way'),
    cell: (task) => (
      <span className={task.is_waiting ? 'dim' : 'nowrap'}>
        {task.is_waiting ? 'waiting' : 'under way'}
      </span>
    ),
  },
  {
    id: 'progress',
    head: 'Done',
    tip: 'The part that is done, where it is known how much there was',
    by: (task) => partDone(task) ?? -1,
    cell: (task) => <TaskProgress task={task} />,
  },
  {
    id: 'left',
    head: 'Left',
    tip: 'Bytes that are left, as far as is known',
    numeric: true,
    by: (task) => task.bytes_left ?? -1,
    cell: (task) => (task.bytes_left == null ? '–' : bytes(task.bytes_left)),
  },
  {
    id: 'rate',
    head: 'Rate',
    tip: 'How fast that becomes less',
    numeric: true,
    by: (task) => task.bytes_per_second ?? 0,
    cell: (task) => (task.bytes_per_second ? bytesPerSecond(task.bytes_per_second) : '–'),
  },
  {
    id: 'time',
    head: 'Time left',
    tip: 'Until it is done, at this rate',
    numeric: true,
    by: (task) => task.seconds_left ?? Number.MAX_SAFE_INTEGER,
    cell: (task) => <TaskTime task={task} />,
  },
  {
    id: 'began',
    head: 'Began',
    tip: 'When it began, where somebody keeps that',
    numeric: true,
    spare: true,
    by: (task) => task.began_seconds ?? 0,
    cell: (task) => (task.began_seconds == null ? '–' : moment(task.began_seconds * 1000)),
  },
];

/** What is under way in the cluster, and what of it can be called off. */
export function TasksPage() {
  useTitle('Tasks');
  const query = useQuery(tasksQuery);
  const [chosen, setChosen] = useState<Task | null>(null);
  const orders: Column<Task> = {
    id: 'order',
    head: 'Order',
    tip: 'What can be ordered of it',
    by: (task) => (task.can_cancel ? 0 : 1),
    cell: (task) =>
      task.can_cancel ? (
        <RoleButton
          takes="operator"
          variant="default"
          size="compact-xs"
          aria-label={`Call off: ${taskKind(task).word}, ${task.subject}`}
          onClick={() => setChosen(task)}
        >
          Call off
        </RoleButton>
      ) : null,
  };
  return (
    <>
      <PageHead title="Tasks" />
      <Shown query={query} what="what is under way">
        {({ tasks }) => (
          <>
            <p className="page-lead">
              Long work of the cluster, for as long as it takes.
              {tasks.length > 0 ? ` Now: ${tasksSentence(tasks)}.` : ''}
            </p>
            <div className="panel">
              <DataTable
                label="Tasks"
                rows={byWaiting(tasks)}
                columns={[...COLUMNS, orders]}
                rowId={(task) => task.id}
                sortBy="state"
                search={tasks.length > 8 ? 'tasks' : undefined}
                empty={
                  <Empty title="Nothing is under way">
                    Copies that are brought up to date or moved, drains of nodes and devices,
                    scrubs, and volumes that are being made are here while that lasts.
                  </Empty>
                }
              />
            </div>
          </>
        )}
      </Shown>
      {chosen ? <CallOff task={chosen} onClose={() => setChosen(null)} /> : null}
    </>
  );
}

function CallOff({ task, onClose }: { task: Task; onClose: () => void }) {
  const order = useChange(() =>
    ask(client.DELETE('/api/v1/tasks/{id}', { params: { path: { id: task.id } } })),
  );
  const { word } = taskKind(task);
  return (
    <Dialog
      title="Call a task off"
      does="Call it off"
      busy={order.isPending}
      error={order.error}
      onClose={onClose}
      onDo={() =>
        order.mutate(undefined, {
          onSuccess: () => {
            say(`Called off: ${word}, ${task.subject}`);
            onClose();
          },
        })
      }
    >
      <p>
        The {word} of <b>{task.subject}</b> ends where it is. It takes data again. What has gone
        elsewhere stays there.
      </p>
    </Dialog>
  );
}
