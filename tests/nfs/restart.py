# SPDX-License-Identifier: LGPL-3.0-or-later
"""restart.py make|compare STATE: what clients go by, before and after a crash."""
import json
import sys

import nfs4
from nfs3 import *

client, newer = Client(), nfs4.Client()
root = client.mount("/tarn")


def seen(handle):
    path = newer.root("/tarn/file")
    return [client.read(handle, 0, 100)[0].hex(), newer.attrs(path, "change")["change"]]


if sys.argv[1] == "make":
    verifiers, contents = [], []
    handle = client.create(root, b"file")[0]
    client.commit(handle)
else:
    verifiers, contents = json.load(open(sys.argv[2]))
    handle = client.lookup(root, b"file")
    contents.append(seen(handle))
for i in range(3):  # never committed
    data = b"%d-%d" % (len(verifiers), i)
    verifier = client.write(handle, 0, data)[2]
    contents.append(seen(handle))
    assert contents[-1][0] == data.hex()
assert client.commit(client.create(root, b"other")[0]) == verifier
assert verifier.hex() not in verifiers, "a crash that clients can't see"
verifiers.append(verifier.hex())
by_change = {}
for data, change in contents:
    assert by_change.setdefault(change, data) == data, "one change attribute, two contents"
with open(sys.argv[2], "w") as state:
    json.dump([verifiers, contents], state)
