# SPDX-License-Identifier: LGPL-3.0-or-later
"""readonly.py make|check|change: /tarn/quiet before, while and after it must not change."""
import sys

import nfs4
from nfs3 import *

client, newer = Client(), nfs4.Client(minor=2)
top = client.lookup(client.mount("/tarn"), b"quiet")
top4 = newer.root("/tarn/quiet")

if sys.argv[1] == "make":
    client.mkdir(top, b"folder")
    client.write(client.create(top, b"file", verifier=b"12345678")[0], 0, b"content", FILE_SYNC)
    client.symlink(top, b"link", b"target")
    newer.run(nfs4.putfh(newer.root("/tarn/quiet/file")), nfs4.setxattr(b"x", b"y"))
    sys.exit()
file = client.lookup(top, b"file")
file4 = newer.root("/tarn/quiet/file")
if sys.argv[1] == "change":
    opened, _ = newer.open(top4, b"file", access=nfs4.WRITE_ACCESS)
    newer.run(nfs4.putfh(file4), nfs4.write(0, b"content", opened.stateid), nfs4.close(opened.stateid))
    client.setattr(file, mode=0o644)
    sys.exit()

before = client.getattr(file), client.getattr(top)
for call, args in ((client.create, ()), (client.mkdir, ()), (client.symlink, (b"t",)),
                   (client.mknod, (FIFO,))):
    refused(ROFS, call, top, b"new", *args)
    refused((EXIST, ISDIR, ROFS), call, top, b"folder", *args)
refused((EXIST, ROFS), client.create, top, b"file", guarded=True)
refused(ROFS, client.create, top, b"file", size=0)
refused(ROFS, client.write, file, 0, b"x")
refused(ROFS, client.write, file, 0, b"x", FILE_SYNC)
for what in ({"mode": 0o600}, {"uid": 7}, {"size": 0}, {"mtime": "server"}, {"atime": 1}):
    refused(ROFS, client.setattr, file, **what)
refused(ROFS, client.link, file, top, b"new")
refused(ROFS, client.remove, top, b"file")
refused(ROFS, client.rmdir, top, b"folder")
refused(ROFS, client.rename, top, b"file", top, b"new")
for access in (nfs4.WRITE_ACCESS, nfs4.BOTH_ACCESS):
    refused(ROFS, newer.open, top4, b"file", access=access)
refused(ROFS, newer.open, top4, b"file", access=nfs4.READ_ACCESS, create=nfs4.UNCHECKED, size=0)
refused(ROFS, newer.open, top4, b"new", create=nfs4.UNCHECKED, mode=0o600)
refused(ROFS, newer.open, top4, b"new", create=nfs4.EXCLUSIVE4_1, verifier=b"12345678", mode=0o600)
for operation in (nfs4.setxattr(b"x", b"z"), nfs4.removexattr(b"x"),
                  nfs4.allocate(nfs4.ANONYMOUS, 0, 1 << 20),
                  nfs4.deallocate(nfs4.ANONYMOUS, 0, 1 << 20), nfs4.setattr_(mode=0o600)):
    refused(ROFS, newer.run, nfs4.putfh(file4), operation)

# What changes nothing goes on.
client.commit(file)
assert client.read(file, 0, 100) == (b"content", True)
assert client.readlink(client.lookup(top, b"link")) == b"target"
assert sorted(e.name for e in client.listing(top)) == [b"file", b"folder", b"link"]
opened, _ = newer.open(top4, b"file", access=nfs4.READ_ACCESS)
assert newer.one(nfs4.putfh(file4), nfs4.read(0, 100, opened.stateid)) == (True, b"content")
newer.run(nfs4.putfh(file4), nfs4.close(opened.stateid))
opened, _ = newer.open(top4, b"file", access=nfs4.READ_ACCESS, create=nfs4.UNCHECKED, mode=0o600)
assert newer.one(nfs4.putfh(file4), nfs4.getxattr(b"x")) == b"y"
after = client.getattr(file)._replace(atime=before[0].atime), client.getattr(top)
assert after == before, "it has changed"
