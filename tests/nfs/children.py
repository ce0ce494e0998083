# SPDX-License-Identifier: LGPL-3.0-or-later
"""children.py STATE NAME...: /tarn/above shows these child datasets, and has changed since.
children.py parent: /tarn/three lies below /tarn."""
import os
import sys
import time

import nfs4
from nfs3 import *

client, newer = Client(), nfs4.Client()
if sys.argv[1] == "parent":
    root, end = client.mount("/tarn"), time.monotonic() + 60
    while client.lookup(client.lookup(root, b"three"), b"..") != root:
        assert time.monotonic() < end, ".. leads to where the dataset was"
        time.sleep(0.1)
    sys.exit()
above = client.lookup(client.mount("/tarn"), b"above")
state, names = sys.argv[1], sorted(name.encode() for name in sys.argv[2:] if name != "start")


def seen():
    attr = client.getattr(above)
    return attr.mtime, attr.ctime, newer.attrs(newer.root("/tarn/above"), "change")["change"]


# Attributes and names of a dataset's root are from the server's cache for a second or two.
if os.path.exists(state):
    before = tuple(map(int, open(state).read().split()))
    end = time.monotonic() + 60
    while not all(new > old for new, old in zip(seen(), before)):
        assert time.monotonic() < end, f"{seen()} after {before}"
        time.sleep(0.1)
assert sorted(e.name for e in client.listing(above)) == names
for name in names:
    assert client.lookup(client.lookup(above, name), b"..") == above
for name in {b"one", b"two", b"three", b"a"} - set(names):
    refused(NOENT, client.lookup, above, name)
assert client.getattr(above).nlink >= 2 + len(names)
with open(state, "w") as f:
    f.write(" ".join(map(str, seen())))
