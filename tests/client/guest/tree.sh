# SPDX-License-Identifier: LGPL-3.0-or-later
# A real source tree: unpacked, compared, compiled in parallel, kept in git, removed.
. /run/tests/lib/guest.sh
tarball=/mnt/shared/tarball

unpack() {
	tar -xf "$tarball" --strip-components=1 -C "$1" --no-same-owner
}

listing() {
	find "$1" -mindepth 1 \( -type d -printf '%P %m %T@\n' -o -printf '%P %m %T@ %s %l\n' \) |
		sort | md5sum
}

tree() {
	mkdir src
	unpack src
	remount
	diff -r /tmp/truth src
	same "$(listing /tmp/truth)" "$(listing src)"
}

compile() {
	cp -a /run/tests/client/guest/compile.mk Makefile
	make -s -j 8 TREE=src CONFIG=/mnt/shared > /dev/null
	./program
	touch src/src/avl/avl.c
	make -s -j 8 TREE=src CONFIG=/mnt/shared | grep -q avl.c
	make -s clean
	[ ! -e program ]
}

keep_in_git() {
	export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.com
	export GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.com
	git init -q repo
	cp -r src/src/FSAL repo/
	git -C repo add .
	git -C repo commit -q -m first
	git clone -q repo clone
	for i in 1 2 3 4 5; do
		echo "$i" >> clone/FSAL/CMakeLists.txt
		git -C clone commit -q -a -m "change $i"
	done
	git -C clone push -q origin HEAD:refs/heads/other
	git -C repo gc -q --aggressive
	git -C clone gc -q
	remount
	git -C repo fsck --strict --no-progress
	git -C clone fsck --strict --no-progress
	same '' "$(git -C clone status --porcelain)"
	same 6 "$(git -C repo rev-list --count other)"
}

remove() {
	cp -r src copy
	rm -rf src copy repo clone Makefile
	same '' "$(ls -A)"
}

all() {
	tree
	# Each version does both in the larger runs.
	if [ "$TARN_TEST_SIZE" != small ] || [ "$vers" = 3 ] || [ "$vers" = 4.1 ]; then compile; fi
	if [ "$TARN_TEST_SIZE" != small ] || [ "$vers" = 4.0 ] || [ "$vers" = 4.2 ]; then keep_in_git; fi
	remove
}

mkdir /tmp/truth
unpack /tmp/truth
each_version all
