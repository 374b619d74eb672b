#!/bin/bash
# The first process of a guest once it has its root: what a service manager would do, as far as an initiator
# needs it, and then the agent. It is named and addressed by the kernel's command line.
# Whatever fails ends the guest.
set -e
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
chmod 1777 /dev/shm /tmp
mkdir -p /run/lock /run/agent /run/jobs

for word in $(cat /proc/cmdline); do
  case $word in
    guest.name=*) name=${word#*=} ;;
    guest.address=*) address=${word#*=} ;;
  esac
done
hostname "$name"
echo "InitiatorName=iqn.2026-11.io.holdfast.e2e:$name" >/etc/iscsi/initiatorname.iscsi

modprobe -a virtio_net virtio_console iscsi_tcp sd_mod sg dm_multipath dm_service_time scsi_dh_alua
ip link set lo up
ip address add "$address" dev eth0
ip link set eth0 up
/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add --subsystem-match=block --subsystem-match=virtio-ports
udevadm settle --timeout=30

port=/dev/virtio-ports/holdfast.agent
until [ -c "$port" ]; do
  sleep 0.1
done
exec /guest/agent <>"$port" 1>&0 2>/dev/console
