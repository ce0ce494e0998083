# SPDX-License-Identifier: LGPL-3.0-or-later
"""create.py before|after STATE: exclusive creation, on both sides of a restart."""
import sys
import time

import nfs4
from nfs3 import *

client = Client()
root = client.mount("/tarn")
one, two = b"verifier", b"\0\xff other"
newer = nfs4.Client()


def newer_top():
    return newer.root("/tarn/create")


if sys.argv[1] == "before":
    top = client.mkdir(root, b"create")[0]
    handle, attr = client.create(top, b"exclusive", verifier=one)
    # The verifier is not to be seen as a time.
    attr = client.getattr(handle)
    for stamp in (attr.atime, attr.mtime, attr.ctime):
        assert abs(stamp / 1e9 - time.time()) < 3600, f"time {stamp}"
    assert client.create(top, b"exclusive", verifier=one)[0] == handle, "retransmission"
    refused(EXIST, client.create, top, b"exclusive", verifier=two)
    handle = newer.open(newer_top(), b"exclusive-4", create=nfs4.EXCLUSIVE4_1, verifier=one,
                        mode=0o600)[1]
    for stamp in newer.attrs(handle, "atime", "mtime", "ctime").values():
        assert abs(stamp / 1e9 - time.time()) < 3600, f"time {stamp}"
    handle = client.lookup(top, b"exclusive")
    client.setattr(handle, mode=0o640, mtime=1_000_000_000_000_000_001)
    refused(EXIST, client.create, top, b"exclusive", verifier=two)

    plain = client.create(top, b"plain", guarded=True, mode=0o600)[0]
    refused(EXIST, client.create, top, b"plain", guarded=True)
    refused(EXIST, client.create, top, b"plain", verifier=one)
    client.write(plain, 0, b"content", FILE_SYNC)
    assert client.create(top, b"plain")[0] == plain # unchecked: the file that is there
    assert client.getattr(plain).size == 7
    client.create(top, b"plain", size=0)
    assert client.getattr(plain).size == 0

    client.mkdir(top, b"folder")
    refused(EXIST, client.mkdir, top, b"folder")
    refused((EXIST, ISDIR), client.create, top, b"folder", guarded=True)
    # Open, without a name: it lives as long as the server.
    opened, gone = newer.open(newer_top(), b"gone", create=nfs4.GUARDED, mode=0o600)
    newer.run(nfs4.putfh(gone), nfs4.write(0, b"x" * 1000000, opened.stateid, FILE_SYNC))
    client.remove(top, b"gone")
    assert newer.attrs(gone, "nlink") == {"nlink": 0}
    with open(sys.argv[2], "wb") as state:
        state.write(gone)
    # A directory that moves to another parent: links, .. and times of both.
    a, b = client.mkdir(top, b"a")[0], client.mkdir(top, b"b")[0]
    moved = client.mkdir(a, b"moved")[0]
    assert client.getattr(a).nlink == 3
    before = client.getattr(a).ctime, client.getattr(b).ctime
    client.rename(a, b"moved", b, b"moved")
    assert (client.getattr(a).nlink, client.getattr(b).nlink) == (2, 3)
    assert client.lookup(moved, b"..") == b and client.lookup(b, b"..") == top
    assert client.getattr(a).ctime > before[0] and client.getattr(b).ctime > before[1]
    refused(INVAL, client.rename, top, b"b", moved, b"loop")
else:
    top = client.lookup(root, b"create")
    client.create(top, b"exclusive", verifier=one)
    refused(EXIST, client.create, top, b"exclusive", verifier=two)
    with open(sys.argv[2], "rb") as state:
        gone = state.read()
    refused(STALE, newer.run, nfs4.putfh(gone), nfs4.getattr_("size"))
    refused(NOENT, client.lookup, top, b"gone")
    # Of files made by v4 too, for either version.
    newer.open(newer_top(), b"exclusive-4", create=nfs4.EXCLUSIVE4_1, verifier=one, mode=0o600)
    refused(EXIST, newer.open, newer_top(), b"exclusive-4", create=nfs4.EXCLUSIVE4_1,
            verifier=two, mode=0o600)
    client.create(top, b"exclusive-4", verifier=one)
    refused(EXIST, client.create, top, b"exclusive-4", verifier=two)
    attr = client.getattr(client.lookup(top, b"exclusive"))
    assert (attr.mode, attr.mtime) == (0o640, 1_000_000_000_000_000_001)
    b = client.lookup(top, b"b")
    assert client.lookup(client.lookup(b, b"moved"), b"..") == b
