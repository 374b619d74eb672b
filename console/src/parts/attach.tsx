import { Tabs } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { nodesQuery, volumesQuery } from '../api/queries';
import type { Node, VolumeSummary } from '../api/types';
import { recipes } from '../text/attach';
import { Commands, Explained, Shown, Waiting } from './basic';

/** What the number of a volume is. */
export const LUN_TIP = 'Its number at its target: hosts find it by both.';

/** Where hosts reach a volume: any node that belongs to the cluster takes any command. */
export function portalsOf(nodes: Node[]): string[] {
  return nodes.filter((node) => node.standing !== 'waiting').map((node) => node.portal);
}

/** How hosts get at a volume, with its names and addresses put in. */
export function AttachRecipes({ name }: { name: string }) {
  const volumes = useQuery(volumesQuery);
  const nodes = useQuery(nodesQuery);
  return (
    <Shown query={volumes} what="the volumes">
      {({ volumes }) => {
        const volume = volumes.find((one) => one.name === name);
        if (!volume) return <Waiting what="the volume" />;
        return (
          <Shown query={nodes} what="the nodes">
            {({ nodes }) => <Recipes volume={volume} portals={portalsOf(nodes)} />}
          </Shown>
        );
      }}
    </Shown>
  );
}

function Recipes({ volume, portals }: { volume: VolumeSummary; portals: string[] }) {
  const all = recipes({ target: volume.target, lun: volume.lun, portals });
  return (
    <>
      <dl className="facts facts-attach">
        <dt>Target</dt>
        <dd className="mono">{volume.target}</dd>
        <dt>LUN</dt>
        <dd className="mono">
          <Explained tip={LUN_TIP}>{volume.lun}</Explained>
        </dd>
        <dt>Portals</dt>
        <dd className="mono">{portals.join('  ')}</dd>
      </dl>
      <p className="note">
        Have every host log in on all portals: any node takes any command, and the paths are what
        goes on without one.
      </p>
      <Tabs defaultValue="Linux" keepMounted={false}>
        <Tabs.List>
          {all.map((recipe) => (
            <Tabs.Tab key={recipe.host} value={recipe.host}>
              {recipe.host}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {all.map((recipe) => (
          <Tabs.Panel key={recipe.host} value={recipe.host} pt="sm">
            <p className="note">Needs {recipe.needs}</p>
            {recipe.steps.map((step) => (
              <div key={step.says} className="recipe-step">
                <div>{step.says}</div>
                <Commands label={`${recipe.host}: ${step.says}`} text={step.commands} />
              </div>
            ))}
          </Tabs.Panel>
        ))}
      </Tabs>
    </>
  );
}
