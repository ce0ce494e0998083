# SPDX-License-Identifier: LGPL-3.0-or-later
# Everything a program may do with names, attributes and data of one file system.
. /run/tests/lib/guest.sh

names() {
	touch a
	fails_with 'File exists' mkdir a
	mkdir -p d/e/f
	fails_with 'not empty' rmdir d/e
	mv a d/e/f/b
	[ ! -e a ]
	ln d/e/f/b hard
	same 2 "$(stat -c %h hard)"
	echo one > old
	echo two > new
	mv new old # over an existing file
	same two "$(cat old)"
	mkdir empty full
	touch full/x
	mv -T empty d2
	fails_with 'not empty' mv -T d2 full
	mv d/e moved # to another parent: link counts and ..
	same "$(stat -c %i .)" "$(stat -c %i moved/..)"
	same 2 "$(stat -c %h d)"
	same 3 "$(stat -c %h moved)"
	fails_with 'Invalid argument' python3 -c 'import os; os.rename("moved", "moved/f/self")'

	ln -s 'some/where else' link
	same 'some/where else' "$(readlink link)"
	local long
	long=$(printf 'n%.0s' {1..255})
	echo long > "$long"
	same long "$(cat "$long")"
	fails_with 'too long' touch "${long}n"
	touch $'odd \x01 name\n\\"*' 'ünï¢ode' '...'
	same 3 "$(find . -name 'odd*' -o -name 'ü*' -o -name '...' | grep -cE '"|ü|\.\.\.$')"
	fails_with 'No such file' cat nothing
	fails_with 'Not a directory' cat hard/x

	mkfifo fifo
	mknod null c 1 3
	mknod disk b 8 1
	python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'
	same "fifo 1,3 8,1 socket" \
		"$(stat -c %F fifo) $(stat -c %t,%T null) $(stat -c %t,%T disk) $(stat -c %F sock)"
}

data() {
	head -c 3000000 /dev/urandom > /tmp/random
	cp /tmp/random file
	remount
	cmp /tmp/random file
	# Writes in the middle, at odd places, and beyond the end.
	for at in 1 4095 65537 131071 2999999 5000001; do
		for file in /tmp/random file; do
			printf 'patch%s' $at | dd of=$file bs=1 seek=$at conv=notrunc status=none
		done
	done
	remount
	cmp /tmp/random file
	truncate -s 100001 file /tmp/random
	truncate -s 9000000 file /tmp/random
	remount
	cmp /tmp/random file
	printf more >> file
	same more "$(tail -c 4 file)"
	truncate -s 1T sparse
	printf x | dd of=sparse bs=1 seek=1099511627775 conv=notrunc status=none
	[ "$(stat -c %b sparse)" -lt 4096 ] || fail "sparse file takes $(stat -c %b sparse) blocks"
	same x "$(tail -c 1 sparse)"
	: > file
	same 0 "$(stat -c %s file)"
	# An unlinked open file lives on.
	echo alive > gone
	exec 5< gone
	rm gone
	same alive "$(cat <&5)"
	exec 5<&-
	# O_DIRECT and O_SYNC.
	dd if=/tmp/random of=direct bs=64k count=20 oflag=direct,sync status=none
	cmp -n 1310720 /tmp/random direct
}

attributes() {
	touch f
	chmod 6751 f
	same 6751 "$(stat -c %a f)"
	chown 1000:1001 f
	same '1000:1001 751' "$(stat -c '%u:%g %a' f)"
	touch -d '2001-02-03 04:05:06.123456789 UTC' f
	same '2001-02-03 04:05:06.123456789 +0000' "$(TZ=UTC stat -c %y f)"
	touch -d '1969-07-20 20:17:40 UTC' f
	touch -d '2100-01-01 00:00:00.000000001 UTC' f
	same 4102444800 "$(stat -c %Y f)"

	# suid and sgid go with a write by others.
	chmod 6777 f
	as_user 2000 sh -c 'echo x >> f'
	same 777 "$(stat -c %a f)"

	mkdir -m 2775 shared
	chgrp 1234 shared
	chmod g+s shared
	touch shared/f
	mkdir shared/d
	same '1234 1234 2755' "$(stat -c %g shared/f) $(stat -c '%g %a' shared/d)"

	# Directories: write permission, sticky bit.
	mkdir -m 755 closed
	fails_with 'Permission denied' as_user 1000 touch closed/x
	touch closed/mine
	chown 1000 closed/mine
	fails_with 'Permission denied' as_user 1000 rm -f closed/mine
	fails_with 'Permission denied' as_user 1000 mv closed/mine closed/other
	mkdir -m 1777 sticky
	as_user 1000 touch sticky/a
	fails_with 'not permitted' as_user 1001 rm -f sticky/a
	fails_with 'not permitted' as_user 1001 mv sticky/a sticky/b
	as_user 1000 rm sticky/a
	fails_with 'not permitted' as_user 1001 chmod 777 shared
	mkdir -m 700 private
	fails_with 'Permission denied' as_user 1000 ls private

	same "$(stat -f -c %T .)" nfs
	df . > /dev/null
	cp -p f copy
	same "$(stat -c '%a %u %g %Y' f)" "$(stat -c '%a %u %g %Y' copy)"
}

# What only the newest protocol has.
extras() {
	[ "$vers" = 4.2 ] || return 0
	truncate -s 1M holes
	printf x | dd of=holes bs=1 seek=524288 conv=notrunc status=none
	sync
	python3 - <<-'PY'
		import os
		f = os.open("holes", os.O_RDWR)
		assert 0 < os.lseek(f, 0, os.SEEK_DATA) <= 524288
		assert os.lseek(f, 0, os.SEEK_HOLE) == 0
		os.posix_fallocate(f, 0, 2 << 20)
		assert os.fstat(f).st_size == 2 << 20
	PY
	fallocate -p -o 0 -l 1M holes
	same 0 "$(head -c 1M holes | tr -d '\0' | wc -c)"
	setfattr -n user.colour -v green holes
	setfattr -n user.big -v "$(printf 'b%.0s' {1..3000})" holes
	remount
	same green "$(getfattr --only-values -n user.colour holes)"
	same 2 "$(getfattr holes | grep -c ^user)"
	setfattr -x user.colour holes
	fails_with 'No such attribute' getfattr -n user.colour holes
}

all() {
	for part in names data attributes extras; do
		mkdir $part
		cd $part
		$part
		cd ..
	done
}

each_version all
