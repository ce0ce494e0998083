# SPDX-License-Identifier: LGPL-3.0-or-later
# sharing.sh writer|reader VERS ROUND: what one client closed, the other one opens; names
# that one client moves or removes, the other one sees.
. /run/tests/lib/guest.sh
role=$1 round=$3
export round

# Takes turns: each step of the writer is looked at by the reader before the next one.
step=0
did() { signal "$round-writer-$((++step))"; await "$round-reader-$step"; }
look() { await "$round-writer-$((++step))"; }
# The reader has to know the directory as it is before it looks a name up for the first time, or
# it may open the file without a word to the server from then on (docs/clients.md).
learn_names() { ls "$dir" > /tmp/listed; }
seen() { signal "$round-reader-$step"; }
# Names are revalidated when their cached attributes expire: within a few seconds.
soon() {
	local tries=0
	until "$@"; do
		[ $((tries += 1)) -lt 200 ] || fail "not seen: $*"
		sleep 0.1
	done
}

# The first line; if it is another one, is it the client's cache that is old, or the server?
is_new() {
	local line
	line=$(head -1 "$2")
	[ "$line" = "$1" ] && return
	stat "$2"
	echo "from the server: $(dd if="$2" iflag=direct bs=1M status=none | head -1)"
	echo "a second later: $(sleep 1; head -1 "$2")"
	stat "$2"
	same "$1" "$line"
}

mount_pool "$2" actimeo=1
dir=$pool/sharing-$round

if [ "$role" = writer ]; then
	mkdir "$dir"
	for i in 1 2 3 4 5; do
		head -c $((i * 100000)) /dev/urandom > "$dir/file"
		md5sum < "$dir/file" > /mnt/shared/sum
		did
	done
	for i in 1 2 3; do # same size, same file: only the data changes
		seq $((i + 1000000)) $((i + 1000100)) > "$dir/same-size"
		did
	done
	mv "$dir/file" "$dir/moved"
	did
	mkdir "$dir/sub"
	mv "$dir/moved" "$dir/sub/deeper"
	did
	echo new > "$dir/new"
	mv "$dir/new" "$dir/sub/deeper"
	did
	rm -r "$dir/sub"
	did
	exec 5>> "$dir/log"
	for i in 1 2 3; do
		echo "line $i" >&5
		sync "$dir/log"
		did
	done
	exec 5>&-
else
	for i in 1 2 3 4 5; do
		look
		[ $i != 1 ] || learn_names
		same "$(cat /mnt/shared/sum)" "$(md5sum < "$dir/file")"
		seen
	done
	for i in 1 2 3; do
		look
		[ $i != 1 ] || learn_names
		is_new $((i + 1000000)) "$dir/same-size"
		seen
	done
	look
	soon test -e "$dir/moved"
	soon test ! -e "$dir/file"
	exec 6< "$dir/moved"
	seen
	look
	soon test -e "$dir/sub/deeper"
	soon test ! -e "$dir/moved"
	same "$(cat /mnt/shared/sum)" "$(md5sum <&6)"
	seen
	look
	soon grep -qs new "$dir/sub/deeper"
	seen
	look
	soon test ! -e "$dir/sub"
	seen
	for i in 1 2 3; do
		look
		soon grep -qsx "line $i" "$dir/log"
		seen
	done
	exec 6<&-
fi
unmount_pool
