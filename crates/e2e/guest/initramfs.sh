#!/bin/busybox sh
# The guest's first program: the drivers of its disk, the image as root with memory over it, and on to
# /guest/start. Whatever fails ends the guest: the kernel panics, and QEMU ends with it.
set -e
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
# In the order of their dependencies.
for module in $(cat /modules); do
  insmod "/drivers/$module"
done
tries=0
until [ -b /dev/vda ]; do
  tries=$((tries + 1))
  [ "$tries" -le 100 ]
  sleep 0.1
done
mount -t ext4 -o ro /dev/vda /lower
mount -t tmpfs tmpfs /upper
mkdir /upper/data /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work overlay /root
cp -R /guest /root/guest
mount --move /dev /root/dev
umount /sys
umount /proc
exec switch_root /root /guest/start
