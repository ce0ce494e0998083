# SPDX-License-Identifier: LGPL-3.0-or-later
# stress.sh VERS SEED: well-known programs that ask much of a file system.
. /run/tests/lib/guest.sh
seed=$2
duration=$(by_size 2 10 60)

random_files() {
	local i
	for i in 1 2 3; do /mnt/shared/fsx "fsx-$i" "$(by_size 400 5000 100000)" $((seed + i)) & done
	for i in 1 2 3; do wait -n; done
	rm fsx-*
}

# An office's file server.
dbench_clients() {
	dbench -c /usr/share/dbench/client.txt -D . -t "$duration" 4 > /tmp/said || fail "$(cat /tmp/said)"
	rm -rf clients
}

# All at once. Those are left out that need something that is no matter of an NFS server (other
# file systems, ioctl, leases, notification, /proc, pipes) or of no file at all.
stressors="access chdir chmod chown dentry dir dirdeep dirmany dup fallocate fcntl filename flock
	fpunch fsize fstat getdent hdd inode-flags io iomix link locka lockf lockofd mknod open rename
	symlink sync-file touch utime"
stress_ng() {
	local name each=()
	for name in $stressors; do each+=("--$name" 1); done
	[ "$vers" != 4.2 ] || each+=(--xattr 1)
	stress-ng "${each[@]}" --timeout "$(by_size 5 60 600)" --verify --temp-path "$PWD" \
		--hdd-bytes 4m --iomix-bytes 4m --sync-file-bytes 1m --fallocate-bytes 4m \
		--dentries 100 > /tmp/said 2>&1 || fail "$(cat /tmp/said)"
}

# Without its loops over single bytes.
bonnie() {
	bonnie++ -q -f -u root -d . -r 8 -s "$(by_size 16 64 512)" -n "$(by_size 1 4 64):2000:0:4" \
		> /tmp/figures 2> /tmp/said || fail "$(cat /tmp/said)"
}

mount_pool "$1"
mkdir "$pool/stress-$1"
cd "$pool/stress-$1"
# The long ones run with one version each in the small size.
case $TARN_TEST_SIZE-$1 in
small-3) long=bonnie ;;
small-4.2) long=stress_ng ;;
*) long='stress_ng bonnie' ;;
esac
for program in random_files dbench_clients $long; do
	echo "NFS $1: $program, $SECONDS s"
	mkdir $program
	cd $program
	$program
	cd ..
	# The last to close a removed file takes its name away later.
	until [ -z "$(find $program -name '.nfs*')" ]; do sleep 0.1; done
	rmdir $program || fail "left: $(find $program)"
done
echo "NFS $1: done, $SECONDS s"
unmount_pool
