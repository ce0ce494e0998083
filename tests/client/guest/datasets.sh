# SPDX-License-Identifier: LGPL-3.0-or-later
# Child datasets (tarn/a, tarn/a/b) are crossed like mount points, each a file system of its own.
. /run/tests/lib/guest.sh

device() { stat -c %d "$1"; }

crossing() {
	cd $pool
	same 'a' "$(ls -d a)"
	touch "a/in-a-$vers" "a/b/in-b-$vers"
	[ "$(device .)" != "$(device a/.)" ] && [ "$(device a/.)" != "$(device a/b/.)" ] ||
		fail 'datasets share a device number'
	same 3 "$(df --output=target . a/. a/b/. | tail -n +2 | sort -u | wc -l)"
	same "$(stat -c %i a/.)" "$(stat -c %i a/b/..)"
	same "" "$(find . -xdev -name "in-*-$vers")"
	same "./a/b/in-b-$vers" "$(find . -name "in-b-$vers")"

	fails_with 'cross-device' ln "a/in-a-$vers" a/b/hard
	python3 - "$vers" <<-'PY'
		import errno, os, sys
		v = sys.argv[1]
		for a, b in (("a/in-a-", "x"), ("a/in-a-", "a/b/x"), ("a/b/in-b-", "a/x")):
		    try:
		        os.rename(a + v, b)
		        raise SystemExit("renamed across datasets")
		    except OSError as e:
		        assert e.errno == errno.EXDEV, e
		for path in ("a", "a/b"):
		    try:
		        os.rmdir(path)
		        raise SystemExit("removed a dataset")
		    except OSError as e:
		        assert e.errno in (errno.EBUSY, errno.ENOTEMPTY), e
	PY
	mv "a/in-a-$vers" "a/b/moved-$vers" # copied by mv
	[ -e "a/b/moved-$vers" ] && [ ! -e "a/in-a-$vers" ]
}

# One that is made while the client looks on, and one mounted by itself.
later() {
	signal "make-$vers"
	await "made-$vers"
	until [ "$(device "$pool/later-$vers/.")" != "$(device $pool)" ]; do sleep 0.2; done
	touch "$pool/later-$vers/file"
	unmount_pool
	mount_pool "$vers" rw "/tarn/later-$vers"
	same file "$(ls $pool)"
	unmount_pool
	mount_pool "$vers" rw "/tarn/a/b"
	[ -e "$pool/in-b-$vers" ]
}

each_version crossing
each_version later
