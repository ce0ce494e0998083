# SPDX-License-Identifier: LGPL-3.0-or-later
"""backing.py fill|check STATE: files that are acknowledged until the file system below the pool is
full; then all of them are there."""
import json
import random
import sys
import time

from nfs3 import *

SIZE = 300000
client = Client()
root = client.mount("/tarn")


def content(n):
    return random.Random(n).randbytes(SIZE)


def check(count):
    for n in range(count):
        handle = client.lookup(root, b"file-%d" % n)
        assert client.read(handle, 0, SIZE)[0] == content(n), n


if sys.argv[1] == "check":
    check(json.load(open(sys.argv[2])))
    client.write(client.create(root, b"again")[0], 0, content(0), FILE_SYNC)
    sys.exit()

done = refusals = 0
while refusals < 20:
    try:
        handle = client.create(root, b"file-%d" % done)[0]
        assert client.write(handle, 0, content(done), FILE_SYNC)[0] == SIZE
        done, refusals = done + 1, 0
    except NfsError as e:
        # The pool has room, so it is no NOSPC; clients wait for the administrator.
        assert e.status in (JUKEBOX, IO), e
        refusals += 1
        time.sleep(0.05)
assert done > 10
print(done, "files")
refused(JUKEBOX, client.create, root, b"refused")
check(done)
json.dump(done, open(sys.argv[2], "w"))
