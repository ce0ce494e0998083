# SPDX-License-Identifier: LGPL-3.0-or-later
# Writes, replaces and removes files, then compares all of them, again and again until the host says
# stop. Tells the host of each round that it has done.
. /run/tests/lib/guest.sh

change_files() {
	local i name
	for i in 1 2 3 4 5 6; do
		name=file-$((RANDOM % 24))
		sed -i "/  $name\$/d" /tmp/sums
		if ((RANDOM % 6 == 0)); then
			rm -f "$name"
			continue
		fi
		head -c $((RANDOM * 32)) /dev/urandom | tee /tmp/content > "$name"
		if ((RANDOM % 2)); then sync "$name"; fi
		md5sum < /tmp/content | sed "s/-\$/$name/" >> /tmp/sums
	done
}

mount_pool 4.1
cd $pool
head -c 16M /dev/urandom | tee /tmp/content > whole # more than the server keeps in memory
md5sum < /tmp/content | sed 's/-$/whole/' > /tmp/sums
for ((round = 1; ; round++)); do
	change_files
	remount
	md5sum -c --quiet /tmp/sums
	signal "round-$round"
	[ ! -e /mnt/shared/stop ] || break
done
same "$(sort -k2 /tmp/sums | awk '{ print $2 }')" "$(ls | LC_ALL=C sort)"
unmount_pool
