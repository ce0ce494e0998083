# SPDX-License-Identifier: LGPL-3.0-or-later
# The checks of posix/, in all versions of NFS at once.
. /run/tests/lib/guest.sh

mount_all() {
	local v
	for v in $versions; do
		pool=/mnt/$v mount_pool "$v"
		pool=/mnt/managed-$v mount_pool "$v" rw /managed
	done
}

# each WHAT: main.py does it in each version.
each() {
	local v status=0
	for v in $versions; do
		python3 -B /run/tests/client/guest/posix/main.py "$v" "/mnt/$v/work-$v" "$1" \
			> "/tmp/$1-$v" 2>&1 &
		echo $! > "/tmp/pid-$v"
	done
	for v in $versions; do
		wait "$(cat "/tmp/pid-$v")" || status=1
		cat "/tmp/$1-$v"
	done
	return $status
}

status=0
mount_all
for v in $versions; do mkdir "/mnt/$v/work-$v"; done
each check || status=1
umount -t nfs,nfs4 -a
signal restart
await restarted
mount_all
each verify || status=1
umount -t nfs,nfs4 -a
exit $status
