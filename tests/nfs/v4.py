# SPDX-License-Identifier: LGPL-3.0-or-later
"""Operations of NFSv4.1 and 4.2, one after the other."""
import nfs3
from nfs3 import (EXIST, FBIG, INVAL, ISDIR, NAMETOOLONG, NOENT, NOTDIR, NOTEMPTY, NOTSUPP, STALE,
                  XDEV, refused)
from nfs4 import *

MAX = 1 << 62  # the largest file
client = Client(minor=2)
root = client.root("/tarn")
client.run(putfh(root), mkdir(b"v4"))
top = client.root("/tarn/v4")


def change(handle):
    return client.attrs(handle, "change")["change"]


# ---- attributes ----

supported = client.attrs(top, "supported")["supported"]
wanted = {ATTRS[name][0] for name in ATTRS} - {50}  # no creation time: ganesha has it off
assert wanted <= supported, f"not supported: {wanted - supported}"
limits = client.attrs(top, "maxfilesize", "maxname", "maxlink", "xattr_support")
assert limits == {"maxfilesize": MAX, "maxname": 255, "maxlink": (1 << 32) - 1,
                  "xattr_support": 1}
child, pool = (client.attrs(client.root(path), "fsid", "fileid", "mounted_on")
               for path in ("/tarn/child", "/tarn"))
assert child["fsid"] != pool["fsid"] and child["fileid"] == child["mounted_on"]

# VERIFY and NVERIFY compare.
opened, file = client.open(top, b"file", create=GUARDED, mode=0o640)
client.run(putfh(file), write(0, b"content", opened.stateid))
client.run(putfh(file), plain(VERIFY, fattr(size=7)), plain(NVERIFY, fattr(size=8)))
refused(SAME, client.run, putfh(file), plain(NVERIFY, fattr(size=7)))
refused(NOT_SAME, client.run, putfh(file), plain(VERIFY, fattr(size=8, mode=0o640)))

# ---- exclusive creation ----

made, exclusive = client.open(top, b"exclusive", create=EXCLUSIVE4_1, verifier=b"12345678",
                              mode=0o604)
got = client.attrs(exclusive, "mode", "atime", "mtime", "ctime")
assert got["mode"] == 0o604 and got["atime"] == got["mtime"] == got["ctime"]
assert client.open(top, b"exclusive", create=EXCLUSIVE4_1, verifier=b"12345678", mode=0o604,
                   owner=b"again")[1] == exclusive
refused(EXIST, client.open, top, b"exclusive", create=EXCLUSIVE4_1, verifier=b"12345679",
        mode=0o604)
refused(EXIST, client.open, top, b"exclusive", create=GUARDED, mode=0o604)
assert client.attrs(exclusive, "atime", "mtime", "ctime") == {
    name: got[name] for name in ("atime", "mtime", "ctime")}

# ---- names: what a reply says of the directories is what they are ----

b_before = change(top)
(made_info, _), a, = client.run(putfh(top), mkdir(b"a"), getfh())[1:]
assert made_info.after == change(top) != b_before
b = client.one(putfh(top), mkdir(b"b"), getfh())
moved = client.one(putfh(a), mkdir(b"moved"), getfh())
parent = client.one(putfh(moved), plain(LOOKUPP), getfh())
assert parent == a
assert client.attrs(a, "nlink")["nlink"] == 3 and client.attrs(b, "nlink")["nlink"] == 2
before = [change(h) for h in (a, b, moved)]
source, target = client.one(putfh(a), plain(SAVEFH), putfh(b), rename(b"moved", b"moved"))
assert (source.after, target.after) == (change(a), change(b))
assert source.after > before[0] and target.after > before[1] and change(moved) > before[2]
assert client.one(putfh(moved), plain(LOOKUPP), getfh()) == b
assert client.one(putfh(b), plain(LOOKUPP), getfh()) == top
assert client.attrs(a, "nlink")["nlink"] == 2 and client.attrs(b, "nlink")["nlink"] == 3
refused(NOENT, client.run, putfh(client.root("/")), plain(LOOKUPP))
refused(NOTDIR, client.run, putfh(file), plain(LOOKUPP))

linked = client.one(putfh(file), plain(SAVEFH), putfh(a), link(b"hard"))
assert linked.after == change(a) and client.attrs(file, "nlink")["nlink"] == 2
removed = client.one(putfh(a), remove(b"hard"))
assert removed.after == change(a) and client.attrs(file, "nlink")["nlink"] == 1
for name in (b"n" * 256,):
    for operation in (mkdir(name), lookup(name), remove(name), rename(b"moved", name)):
        refused((NAMETOOLONG, NOENT), client.run, putfh(b), plain(SAVEFH), operation)

# ---- listings tell what GETATTR tells ----

told = sorted(set(ATTRS) - {"create_time"})
for where in (top, client.root("/tarn")):
    listed, _, end = client.one(putfh(where), readdir(*told))
    assert listed and end
    for name, attrs in listed.items():
        assert attrs["filehandle"] == client.one(putfh(where), lookup(name), getfh())
        assert attrs == client.attrs(attrs["filehandle"], *told), name
    assert len({attrs["type"] for attrs in listed.values()}) == (2 if where == top else 1)

# ---- space: SEEK, ALLOCATE, DEALLOCATE and sizes up to the largest ----

opened, sparse = client.open(top, b"sparse", create=UNCHECKED, mode=0o600)
state = opened.stateid
client.run(putfh(sparse), write(1 << 20, b"data", state))
assert client.one(putfh(sparse), seek(state, 0, True)) == (False, 0)
eof, at = client.one(putfh(sparse), seek(state, 0, False))
assert not eof and 0 < at <= 1 << 20
assert client.one(putfh(sparse), seek(state, 1 << 20, True)) == (False, (1 << 20) + 4)
for offset in ((1 << 20) + 4, 1 << 40):
    for hole in (False, True):
        refused(nfs3.NXIO, client.run, putfh(sparse), seek(state, offset, hole))
refused(UNION_NOTSUPP, client.run, putfh(sparse),
        plain(SEEK, state + u64(0) + u32(7), lambda r: None))
client.run(putfh(sparse), allocate(state, 0, 2 << 20))
assert client.attrs(sparse, "size")["size"] == 2 << 20
was = change(sparse)
client.run(putfh(sparse), deallocate(state, 0, 2 << 20))
assert change(sparse) > was and client.attrs(sparse, "size")["size"] == 2 << 20
assert client.one(putfh(sparse), read(1 << 20, 4, state)) == (False, bytes(4))
client.run(putfh(sparse), deallocate(state, 1 << 61, 1 << 20))  # behind the end: nothing
assert client.attrs(sparse, "size")["size"] == 2 << 20
for offset, length in ((MAX, 2), (1 << 63, 1), ((1 << 64) - 1, (1 << 64) - 1), (2, MAX)):
    refused((FBIG, INVAL), client.run, putfh(sparse), allocate(state, offset, length))
    if offset + length >= 1 << 64:
        refused((FBIG, INVAL), client.run, putfh(sparse), deallocate(state, offset, length))
    refused((FBIG, INVAL), client.run, putfh(sparse), write(max(offset, MAX), b"xx", state))
refused((FBIG, INVAL), client.run, putfh(sparse), setattr_(state, size=MAX + 1))
assert client.attrs(sparse, "size")["size"] == 2 << 20
client.run(putfh(sparse), write(1 << 61, b"far", state))
client.run(putfh(sparse), write(MAX - 3, b"end", state))
assert client.attrs(sparse, "size")["size"] == MAX
assert client.one(putfh(sparse), read(1 << 61, 3, state)) == (False, b"far")
assert client.one(putfh(sparse), read(MAX - 3, 10, state)) == (True, b"end")
client.run(putfh(sparse), setattr_(state, size=0))
client.run(putfh(sparse), setattr_(state, size=MAX))
assert client.attrs(sparse, "used")["used"] < 1 << 20

# READ_PLUS would be answered with nothing at all: refused, clients read.
refused(NOTSUPP, client.run, putfh(sparse), plain(READ_PLUS, state + u64(0) + u32(100)))
refused(NOTSUPP, client.run, putfh(file), plain(READ_PLUS, ANONYMOUS + u64(0) + u32(100)))
assert client.one(putfh(file), read(0, 100)) == (True, b"content")
for number in (COPY, CLONE):
    args = {COPY: state + state + u64(0) + u64(0) + u64(0) + u32(1) + u32(1) + u32(0),
            CLONE: state + state + u64(0) + u64(0) + u64(0)}[number]
    refused(NOTSUPP, client.run, putfh(file), plain(SAVEFH), plain(number, args))

# ---- extended attributes ----

was = change(file)
info = client.one(putfh(file), setxattr(b"colour", b"green"))
assert info.after == change(file) > was
assert client.one(putfh(file), getxattr(b"colour")) == b"green"
refused(EXIST, client.run, putfh(file), setxattr(b"colour", b"red", how=1))
refused(NOXATTR, client.run, putfh(file), setxattr(b"none", b"red", how=2))
refused(NOXATTR, client.run, putfh(file), getxattr(b"none"))
client.run(putfh(file), setxattr(b"empty", b""))
client.run(putfh(file), setxattr(b"large", b"l" * 8191))  # ganesha takes no more
assert client.one(putfh(file), getxattr(b"empty")) == b""
assert client.one(putfh(file), getxattr(b"large")) == b"l" * 8191
names, cookie, eof = [], 0, False
while not eof:
    cookie, more, eof = client.one(putfh(file), listxattr(cookie, 28))
    names += more
assert names == [b"colour", b"empty", b"large"]
info = client.one(putfh(file), removexattr(b"colour"))
assert info.after == change(file)
refused(NOXATTR, client.run, putfh(file), removexattr(b"colour"))

# ---- share reservations ----

other = Client(minor=1)
opened, file = client.open(top, b"shared", access=READ_ACCESS, deny=WRITE_ACCESS, create=UNCHECKED,
                           mode=0o666, size=5)
reader, _ = other.open(top, b"shared", access=READ_ACCESS)
for access in (WRITE_ACCESS, BOTH_ACCESS):
    refused(SHARE_DENIED, other.open, top, b"shared", access=access)
    refused(SHARE_DENIED, other.open, top, b"shared", access=access, create=UNCHECKED, size=0)
# To empty it is to write, whatever else is wanted.
v3 = nfs3.Client()
v3_top = v3.lookup(v3.mount("/tarn"), b"v4")
for owner in (b"o", b"p"):  # who has it open already, and who has not
    refused(SHARE_DENIED, other.open, top, b"shared", access=READ_ACCESS, create=UNCHECKED, size=0,
            owner=owner)
refused((SHARE_DENIED, LOCKED), other.run, putfh(file), setattr_(size=0))
refused((SHARE_DENIED, LOCKED), other.run, putfh(file), write(0, b"x"))
refused(nfs3.JUKEBOX, v3.setattr, v3.lookup(v3_top, b"shared"), size=0)
refused(nfs3.JUKEBOX, v3.create, v3_top, b"shared", size=0)
assert client.attrs(file, "size")["size"] == 5
# Who forbids it to others may do so itself.
opened, _ = client.open(top, b"shared", access=READ_ACCESS, deny=WRITE_ACCESS, create=UNCHECKED,
                        size=0)
assert client.attrs(file, "size")["size"] == 0
client.run(putfh(file), close(opened.stateid))
other.open(top, b"shared", access=BOTH_ACCESS, create=UNCHECKED, size=0)

# ---- a file without a name lives while it is open ----

opened, gone = client.open(top, b"gone", create=GUARDED, mode=0o600)
client.run(putfh(gone), write(0, b"still here", opened.stateid))
client.run(putfh(top), remove(b"gone"))
assert client.attrs(gone, "nlink")["nlink"] == 0
assert client.one(putfh(gone), read(0, 100, opened.stateid)) == (True, b"still here")
client.run(putfh(gone), close(opened.stateid))
refused(STALE, client.run, putfh(gone), getattr_("size"))
