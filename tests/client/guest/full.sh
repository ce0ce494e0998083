# SPDX-License-Identifier: LGPL-3.0-or-later
# A full pool says so at the write, keeps what it has, and is usable again after rm, for
# an ordinary user as well.
. /run/tests/lib/guest.sh

fill_and_recover() {
	chmod 777 .
	as_user 1000 bash -c '
		set -e
		echo kept > kept
		# Data that does not compress.
		! dd if=/dev/urandom of=big bs=1M conv=fsync 2> /tmp/said
		grep -q "No space left" /tmp/said
		# Not a byte more, in files of any size.
		n=0
		while head -c 3000 /dev/urandom > small-$n && sync small-$n; do n=$((n + 1)); done 2> /tmp/said
		grep -q "No space left" /tmp/said
		[ "$(cat kept)" = kept ]
		rm -f small-*
		truncate -s 1M big
		rm big
		ls
	'
	# Space of removed files comes back within seconds.
	local tries=0
	until as_user 1000 dd if=/dev/urandom of=again bs=1M count=30 conv=fsync 2> /dev/null; do
		[ $((tries += 1)) -lt 60 ] || fail 'no space after rm'
		sleep 1
	done
	same kept "$(cat kept)"
	rm again kept
}

versions=$(by_size "3 4.1" "$versions" "$versions")
each_version fill_and_recover
