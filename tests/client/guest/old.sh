# SPDX-License-Identifier: LGPL-3.0-or-later
# Runs on a 32-bit client: i386 kernel, i386 programs, and one (old32) that does not even know
# of 64-bit file sizes and inode numbers. There is no mount.nfs and no touch (see uml-client).
. /run/tests/lib/guest.sh
mount() { command mount -i "$1" "$2" "$3" "nolock,addr=$SERVER_IP,$4" "$5" "$6"; }
count=$(by_size 1500 10000 40000)
same i686 "$(uname -m)"

# number NAME: of old32's output.
number() { sed -n "s/^$1 //p" /tmp/old32; }
# inodes COLUMN: of df.
inodes() { df --output="$1" . | tail -1 | tr -d ' '; }

make_files() {
	seq -f 'file-%06.0f' "$count" | xargs -n 250 -P 4 sh -c 'for name; do : > $name; done' -
}

programs() {
	mkdir many
	cd many
	make_files
	remount
	/mnt/shared/old32 . "$count" > /tmp/old32
	same "$count" "$(ls -f | grep -c file-)"
	same "$count" "$(find . -name 'file-*' -printf '%i\n' | sort -u | wc -l)"
	same "$count" "$(ls -i | wc -l)"
	same "$(number 'highest inode')" "$(find . -printf '%i\n' | sort -n | tail -1)"
	same "$(ls -i file-000001)" "$(stat -c '%i %n' file-000001)"
	du -s . > /dev/null

	# df: what is used is counted in spite of the pool's size.
	[ "$(inodes iused)" -ge "$count" ] && [ "$(inodes iused)" -lt $((6 * count)) ] ||
		fail "df: $(inodes iused) inodes used"
	[ "$(number 'used inodes')" -ge "$count" ] || fail "statfs: $(cat /tmp/old32)"
	[ $(($(inodes itotal) - $(inodes iavail) - $(inodes iused))) -lt $count ] || fail "$(df -i .)"

	# Numbers are used again: they stay dense.
	rm file-*
	make_files
	/mnt/shared/old32 . "$count" > /tmp/old32
	[ "$(number 'highest inode')" -lt $((10 * count)) ] || fail "sparse: $(cat /tmp/old32)"
	cd ..
	rm -r many

	truncate -s 5G long
	printf x | dd of=long bs=1 seek=5368709119 conv=notrunc status=none
	remount
	same 5368709120 "$(stat -c %s long)"
	same x "$(tail -c 1 long)"
}

# Mounted as CentOS 6 does; written with one transfer size, read with all.
sizes="8192 32768 65536 1048576"
mounts=()
mount_sizes() { # NAME OPTIONS
	local size
	for size in $sizes; do
		mkdir -p "/mnt/$1-$size"
		mount -t nfs -o "$2,hard,intr,timeo=600,retrans=2,rsize=$size,wsize=$size" \
			"$SERVER_IP:/tarn" "/mnt/$1-$size"
		same "$size" "$(sed -n "s|.* /mnt/$1-$size .*wsize=\([0-9]*\).*|\1|p" /proc/mounts)"
		mounts+=("$1-$size")
	done
}

exchange() {
	local writer reader
	for writer in "${mounts[@]}"; do
		head -c $((1300000 + RANDOM)) /dev/urandom > "/tmp/$writer"
		cp "/tmp/$writer" "/mnt/$writer/$writer"
		# Parts of pages and of transfers, and a hole, in the middle and beyond the end.
		for at in 5 8191 65530 1048570 1500001; do
			head -c 9000 /dev/urandom > /tmp/patch
			for file in "/tmp/$writer" "/mnt/$writer/$writer"; do
				dd if=/tmp/patch of="$file" bs=9000 seek=$at oflag=seek_bytes \
					conv=notrunc status=none
			done
		done
	done
	for writer in "${mounts[@]}"; do
		for reader in "${mounts[@]}"; do
			cmp "/tmp/$writer" "/mnt/$reader/$writer" || fail "$writer read as $reader"
			# In pieces that fit nothing.
			dd if="/mnt/$reader/$writer" bs=7777 iflag=direct status=none |
				cmp "/tmp/$writer" - || fail "$writer read as $reader, directly"
		done
	done
	# Everything is once more the same for who has never seen it.
	for writer in "${mounts[@]}"; do umount "/mnt/$writer"; done
	mount_pool 3
	for writer in "${mounts[@]}"; do cmp "/tmp/$writer" "$pool/$writer"; done
	unmount_pool
}

versions=$(by_size "3 4.0" "3 4.0 4.1" "$versions")
each_version programs
mount_sizes v3 nfsvers=3,proto=tcp
mount_sizes v4 nfsvers=4,minorversion=0,proto=tcp,sec=sys
exchange
