/** How hosts of each kind get at a volume. The values are explained in docs/hosts.md. */
import iscsid from '../../../dist/hosts/iscsid.conf?raw';
import multipath from '../../../dist/hosts/multipath.conf?raw';

/** By what it is seen that a host has the values already: the file's first words. */
const IN_ISCSID = 'Sessions to Holdfast';

export type Attach = {
  target: string;
  lun: number;
  /** Where initiators reach the nodes, `host:port`. */
  portals: string[];
};

export type Recipe = { host: string; needs: string; steps: { says: string; commands: string }[] };

type Address = { host: string; port: string };

function split(portal: string): Address {
  const at = portal.lastIndexOf(':');
  return { host: portal.slice(0, at).replace(/^\[|\]$/g, ''), port: portal.slice(at + 1) };
}

function lines(all: string[]): string {
  return all.join('\n');
}

export function recipes({ target, lun, portals }: Attach): Recipe[] {
  const addresses = portals.map(split);
  const first = portals[0] ?? 'NODE:3260';
  return [
    linux(target, first),
    windows(target, addresses),
    esxi(addresses),
    qemu(target, lun, first),
  ];
}

function linux(target: string, first: string): Recipe {
  return {
    host: 'Linux',
    needs: 'root, open-iscsi and multipath-tools.',
    steps: [
      {
        says: 'Once on each host: the values that make it go on without a node.',
        commands: lines([
          'apt-get install open-iscsi multipath-tools',
          `grep -q '${IN_ISCSID}' /etc/iscsi/iscsid.conf || cat >>/etc/iscsi/iscsid.conf <<'END'`,
          `${iscsid.trimEnd()}\nEND`,
          'mkdir -p /etc/multipath/conf.d',
          "cat >/etc/multipath/conf.d/holdfast.conf <<'END'",
          `${multipath.trimEnd()}\nEND`,
          'systemctl restart iscsid multipathd',
        ]),
      },
      {
        says: 'Find the portals of all nodes, and log in on each.',
        commands: lines([
          `iscsiadm --mode discovery --type sendtargets --portal ${first}`,
          `iscsiadm --mode node --targetname ${target} --login`,
        ]),
      },
      {
        says: 'Use the map, /dev/mapper/mpath…, and never one of its paths.',
        commands: 'multipath -ll',
      },
    ],
  };
}

function windows(target: string, addresses: Address[]): Recipe {
  return {
    host: 'Windows',
    needs: 'Windows Server with the feature Multipath I/O; PowerShell as administrator.',
    steps: [
      {
        says: 'Once on each host. It has to start again after the first line.',
        commands: lines([
          'Install-WindowsFeature -Name Multipath-IO',
          'Set-Service -Name MSiSCSI -StartupType Automatic',
          'Start-Service -Name MSiSCSI',
          'Enable-MSDSMAutomaticClaim -BusType iSCSI',
        ]),
      },
      {
        says: 'Make every node known, and log in on each.',
        commands: lines([
          ...addresses.map(
            ({ host, port }) =>
              `New-IscsiTargetPortal -TargetPortalAddress ${host} -TargetPortalPortNumber ${port}`,
          ),
          ...addresses.map(
            ({ host, port }) =>
              `Connect-IscsiTarget -NodeAddress "${target}" -TargetPortalAddress ${host} -TargetPortalPortNumber ${port} -IsMultipathEnabled $true -IsPersistent $true`,
          ),
        ]),
      },
      {
        says: 'The disk is there once; make it online.',
        commands: 'Get-Disk | Where-Object BusType -eq iSCSI',
      },
    ],
  };
}

function esxi(addresses: Address[]): Recipe {
  return {
    host: 'ESXi',
    needs: 'the software iSCSI adapter; its name stands in the answer to the second line.',
    steps: [
      {
        says: 'Enable the adapter, and give it every node. vmhba64 stands for its name.',
        commands: lines([
          'esxcli iscsi software set --enabled=true',
          'esxcli iscsi adapter list',
          ...addresses.map(
            ({ host, port }) =>
              `esxcli iscsi adapter discovery sendtarget add --adapter=vmhba64 --address=${host}:${port}`,
          ),
          'esxcli storage core adapter rescan --adapter=vmhba64',
        ]),
      },
      { says: 'One device, with a path by each node.', commands: 'esxcli storage core path list' },
    ],
  };
}

function qemu(target: string, lun: number, first: string): Recipe {
  const url = `iscsi://${first}/${target}/${lun}`;
  return {
    host: 'QEMU',
    needs:
      'qemu-utils and qemu-block-extra. This is one path: with its node the guest’s disk waits.',
    steps: [
      { says: 'Look at it without a guest.', commands: `qemu-img info ${url}` },
      {
        says: 'As a disk of a guest.',
        commands: `qemu-system-x86_64 … -drive file=${url},format=raw,if=virtio,cache=none`,
      },
    ],
  };
}
