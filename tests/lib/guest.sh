# SPDX-License-Identifier: LGPL-3.0-or-later
# Sourced by the scripts that run on a kernel client (tests/client/guest). The first failing
# command ends the script and says where.
set -Eeuo pipefail
trap 'echo "line $LINENO of $BASH_SOURCE failed: $BASH_COMMAND (vers=${vers-})"' ERR
pool=/mnt/pool
versions="3 4.0 4.1 4.2"

fail() {
	echo "FAILED: $* (vers=${vers-})"
	exit 1
}

by_size() {
	case $TARN_TEST_SIZE in
	small) echo "$1" ;;
	medium) echo "$2" ;;
	large) echo "$3" ;;
	esac
}

# mount_pool VERS [OPTIONS [PATH]]
mount_pool() {
	mkdir -p $pool
	mount -t nfs -o "vers=$1,proto=tcp,hard,${2:-rw}" "$SERVER_IP:${3:-/tarn}" $pool
	vers=$1
}

unmount_pool() {
	cd /
	umount $pool
}

# each_version FUNCTION: in a folder of the pool, once for each NFS version.
each_version() {
	for vers in $versions; do
		echo "NFS $vers: $1"
		mount_pool "$vers"
		mkdir -p "$pool/work-$vers"
		cd "$pool/work-$vers"
		"$1"
		unmount_pool
	done
}

# remount: forgets all that the client has cached.
remount() {
	local here=$PWD
	cd /
	umount $pool
	mount_pool "$vers"
	cd "$here"
}

# same EXPECTED ACTUAL...
same() {
	[ "$1" = "${*:2}" ] || fail "expected '$1', got '${*:2}'"
}

# fails_with ERROR COMMAND...: as in "fails_with 'File exists' mkdir a".
fails_with() {
	local said
	if said=$("${@:2}" 2>&1); then fail "should have failed: ${*:2}"; fi
	case $said in
	*"$1"*) ;;
	*) fail "'${*:2}' failed with '$said', not '$1'" ;;
	esac
}

as_user() { # as_user UID COMMAND...
	setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"
}

# Clients and the host tell each other how far they are with files in /mnt/shared.
signal() { : > "/mnt/shared/$1"; }
await() {
	until [ -e "/mnt/shared/$1" ]; do sleep 0.1; done
}
