# SPDX-License-Identifier: LGPL-3.0-or-later
# Copies and compares again and again until the host says stop, having lost a
# device meanwhile.
. /run/tests/lib/guest.sh

mkdir /tmp/truth
tar -xf /mnt/shared/tarball --strip-components=2 -C /tmp/truth --no-same-owner --wildcards '*/src/FSAL'
mount_pool 4.1
cd $pool
for ((round = $(find . -maxdepth 1 -name "copy-*" | wc -l); ; round++)); do
	cp -r /tmp/truth "copy-$round"
	remount
	for ((i = 0; i <= round; i += 3)); do diff -r /tmp/truth "copy-$i"; done
	signal "round-$round"
	[ ! -e /mnt/shared/stop ] || break
done
unmount_pool
