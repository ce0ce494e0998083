# SPDX-License-Identifier: LGPL-3.0-or-later
# Copies trees in, compares and removes them, with df all the while, on an old and a new version of
# NFS, until the host says stop. Tells the host of each round that it has done.
. /run/tests/lib/guest.sh
tree=/usr/include/linux/netfilter

for vers in 3 4.1; do
	mkdir -p "$pool-$vers"
	mount -t nfs -o "vers=$vers,proto=tcp,hard" "$SERVER_IP:/tarn" "$pool-$vers"
done

ask_for_space() {
	until [ -e /mnt/shared/stop ]; do
		df "$1" > /dev/null
		df -i "$1" > /dev/null
	done
}

copy_and_remove() {
	local i
	cp -r $tree "$1/tree-$2"
	diff -r $tree "$1/tree-$2"
	mv "$1/tree-$2" "$1/moved-$2"
	for i in 1 2 3 4 5; do ln "$1/moved-$2/nfnetlink.h" "$1/moved-$2/link-$i"; done
	mkdir -p "$1/moved-$2"/{a,b,c}/{d,e,f}
	rm -r "$1/moved-$2"
	[ ! -e "$1/moved-$2" ]
}

loops=()
for vers in 3 4.1; do
	ask_for_space "$pool-$vers" &
	loops+=($!)
done
for ((round = 1; ; round++)); do
	copy_and_remove "$pool-3" 3 &
	one=$!
	copy_and_remove "$pool-4.1" 4.1
	wait $one
	signal "round-$round"
	[ ! -e /mnt/shared/stop ] || break
done
for loop in "${loops[@]}"; do wait "$loop"; done
for vers in 3 4.1; do umount "$pool-$vers"; done
