# SPDX-License-Identifier: LGPL-3.0-or-later
# One directory with very many files: made, listed with attributes, removed.
. /run/tests/lib/guest.sh
count=$(by_size 8000 100000 100000)

all() {
	seq -f 'file-%06.0f' "$count" | xargs -n 250 -P 8 touch
	remount
	same "$count" "$(ls -l | grep -c file-)"
	same "$count" "$(ls -U | sort -u | wc -l)"
	seq -f 'file-%06.0f' 1 2 "$count" | xargs -n 250 -P 8 rm
	same $((count / 2)) "$(ls -U | wc -l)"
	remount
	same $((count / 2)) "$(ls -U | wc -l)"
	cd ..
	rm -rf "work-$vers"
	[ ! -e "work-$vers" ]
}

versions=$(by_size "3 4.1" "3 4.1" "$versions")
each_version all
