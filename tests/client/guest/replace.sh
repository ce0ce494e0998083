# SPDX-License-Identifier: LGPL-3.0-or-later
# Names that are replaced by renames, the first one of the directory among them, while the
# server has the directory in its cache.
. /run/tests/lib/guest.sh

listed() {
	remount
	same "$1" "$(ls | tr '\n' ' ')"
}

replace() {
	touch first second third
	listed 'first second third '
	local i
	for i in 1 2 3; do
		for name in first second third; do
			echo "$i $name" > new
			mv new $name
			same "$i $name" "$(cat $name)"
		done
		listed 'first second third '
		same "$i first" "$(cat first)"
		touch extra
		rm second
		listed 'extra first third '
		echo second > second
		listed 'extra first second third '
		mv second first
		mv third second
		touch third
		rm -f extra*
		for j in $(seq "$i"); do touch "extra$j"; done
		listed "$(printf 'extra%s ' $(seq "$i"))first second third "
		rm -f extra*
	done
	rm -f ./*
	listed ''
}

each_version replace
