# SPDX-License-Identifier: LGPL-3.0-or-later
"""Operations of NFSv3, one after the other. What a reply says of an object is what it is then."""
from nfs3 import *

MAX = 1 << 62  # the largest file
client = Client()
root = client.mount("/tarn")
top = client.mkdir(root, b"v3")[0]
user = Client(uid=1000, gid=1000)


def now(handle, attr):
    """attr, out of a reply, is what handle has now."""
    assert attr == client.getattr(handle), "attributes older than the operation"
    return attr


# ---- every operation that makes something ----

def made(call, name, kind, *args, **kw):
    before = client.getattr(top)
    if call == client.mknod:
        args = (kind, *args)
    handle, attr = call(top, name, *args, **kw)
    assert now(handle, attr).type == kind
    after = now(top, client.directory)
    assert after.mtime == after.ctime > before.ctime and attr.ctime >= before.ctime
    assert client.lookup(top, name) == handle
    return handle


file = made(client.create, b"file", REG, mode=0o640)
folder = made(client.mkdir, b"folder", DIR, mode=0o750)
symlink = made(client.symlink, b"link", LNK, b"t" * 4095)
fifo = made(client.mknod, b"fifo", FIFO, mode=0o644)
made(client.mknod, b"socket", SOCK)
null = made(client.mknod, b"null", CHR, 1, 3, mode=0o666)
disk = made(client.mknod, b"disk", BLK, (1 << 20) - 1, (1 << 12) - 1)
assert client.getattr(null).rdev == (1, 3)
assert client.getattr(disk).rdev == ((1 << 20) - 1, (1 << 12) - 1)
assert client.getattr(top).nlink == 3
assert client.readlink(symlink) == b"t" * 4095 and client.getattr(symlink).size == 4095
refused(NAMETOOLONG, client.symlink, top, b"long", b"t" * 4096)
refused(INVAL, client.symlink, top, b"empty", b"")
client.setattr(top, mode=0o777)
for kind in (CHR, BLK):
    refused((PERM, ACCES), user.mknod, top, b"not for users", kind, 1, 3)
user.mknod(top, b"users", FIFO)
assert client.getattr(client.lookup(top, b"users")).uid == 1000
client.remove(top, b"users")
refused(BADTYPE, client.mknod, top, b"regular", REG)
for special in (fifo, null, symlink, folder):
    refused((INVAL, ISDIR), client.read, special, 0, 10)
    refused((INVAL, ISDIR), client.write, special, 0, b"x")
    refused((INVAL, ISDIR, BADTYPE), client.setattr, special, size=0)
for call, args in ((client.create, ()), (client.mkdir, ()), (client.symlink, (b"x",)),
                   (client.mknod, (FIFO,))):
    refused((EXIST, ISDIR), call, top, b"folder", *args)
    refused(NOTDIR, call, file, b"x", *args)

# ---- SETATTR ----

for what in ({"mode": 0o600}, {"mode": 0o600}, {"uid": 7}, {"gid": 8}, {"size": 5}, {"size": 5},
             {"atime": 1, "mtime": (1 << 32) * 10**9 - 1}, {"mtime": "server"}):
    before = client.getattr(file)
    wcc = client.setattr(file, **what)
    assert wcc[0] == (before.size, before.mtime, before.ctime)
    assert now(file, wcc[1]).ctime > before.ctime
    for name, value in what.items():
        if value != "server":
            assert getattr(wcc[1], name) == value
    if what.get("mtime") == "server":
        assert before.ctime < wcc[1].mtime <= wcc[1].ctime and wcc[1].atime == 1
client.setattr(file, guard=client.getattr(file).ctime, mode=0o644)
refused(NOT_SYNC, client.setattr, file, guard=1, mode=0o600)
assert client.getattr(file).mode == 0o644

# ---- LINK, REMOVE, RENAME, RMDIR ----

before = client.getattr(file)
attr, (_, after) = client.link(file, folder, b"hard")
assert now(file, attr).nlink == 2 and attr.ctime > before.ctime and attr.mtime == before.mtime
now(folder, after)
refused(EXIST, client.link, file, folder, b"hard")
refused((ISDIR, BADTYPE, INVAL, PERM), client.link, folder, top, b"directory")
refused(NOTDIR, client.link, file, file, b"x")
client.link(symlink, folder, b"symlink")
client.remove(folder, b"symlink")

# Between two names of one file a rename does nothing.
before = [client.getattr(h) for h in (top, folder, file)]
client.rename(top, b"file", folder, b"hard")
assert [client.getattr(h) for h in (top, folder, file)] == before
assert client.lookup(top, b"file") == client.lookup(folder, b"hard") == file
client.rename(top, b"file", top, b"file")

before = client.getattr(file)
now(folder, client.remove(folder, b"hard")[1])
attr = client.getattr(file)
assert attr.nlink == 1 and attr.ctime > before.ctime

# Over a target that the server has in its cache: gone, or one link less.
over = client.create(folder, b"over")[0]
client.link(over, top, b"kept")
before = [client.getattr(h) for h in (over, file, top, folder)]
wccs = client.rename(top, b"file", folder, b"over")
now(top, wccs[0][1])
now(folder, wccs[1][1])
attr = client.getattr(over)
assert attr.nlink == 1 and attr.ctime > before[0].ctime
assert client.getattr(file).ctime > before[1].ctime
assert wccs[0][1].ctime > before[2].ctime and wccs[1][1].ctime > before[3].ctime
assert client.lookup(folder, b"over") == file and client.lookup(top, b"kept") == over
refused(NOENT, client.lookup, top, b"file")
client.rename(folder, b"over", top, b"kept")
refused(STALE, client.getattr, over)
assert client.lookup(top, b"kept") == file

empty, full = client.mkdir(top, b"empty")[0], client.mkdir(top, b"full")[0]
inside = client.mkdir(full, b"inside")[0]
assert client.lookup(inside, b"..") == full
refused(NOTEMPTY, client.rename, top, b"empty", top, b"full")
refused((NOTEMPTY, EXIST), client.rmdir, top, b"full")
refused((NOTDIR, EXIST), client.rename, top, b"empty", top, b"kept")
refused((ISDIR, EXIST), client.rename, top, b"kept", top, b"empty")
refused((ISDIR, PERM), client.remove, top, b"empty")
refused(NOTDIR, client.rmdir, top, b"kept")
refused(INVAL, client.rename, top, b"full", inside, b"loop")
refused(INVAL, client.rename, top, b"full", full, b"loop")
links = client.getattr(top).nlink
client.rename(top, b"full", top, b"empty")
refused(STALE, client.getattr, empty)
assert client.lookup(top, b"empty") == full and client.lookup(inside, b"..") == full
assert client.getattr(top).nlink == links - 1
before = client.getattr(full), client.getattr(folder), client.getattr(inside)
client.rename(full, b"inside", folder, b"inside")
assert client.lookup(inside, b"..") == folder
assert client.getattr(full).nlink == 2 and client.getattr(folder).nlink == 3
for handle, attr in zip((full, folder, inside), before):
    assert client.getattr(handle).ctime > attr.ctime
now(folder, client.rmdir(folder, b"inside")[1])
assert client.getattr(folder).nlink == 2
refused(STALE, client.getattr, inside)
refused(STALE, client.create, inside, b"too late")

# ---- WRITE, READ, COMMIT: sizes up to the largest ----

sparse = client.create(top, b"sparse")[0]
verifier = client.commit(sparse)
for offset, stable in ((0, UNSTABLE), (10, FILE_SYNC), (1 << 40, UNSTABLE), (MAX - 4, DATA_SYNC)):
    before = client.getattr(sparse)
    count, how, verf, (_, after) = client.write(sparse, offset, b"data", stable)
    assert count == 4 and how >= stable and verf == verifier
    now(sparse, after)
    assert after.size == offset + 4 and after.mtime == after.ctime > before.ctime
assert client.write(sparse, 7, b"")[0] == 0
assert client.getattr(sparse) == after, "a write of nothing changes nothing"
assert client.commit(sparse) == verifier
assert client.read(sparse, MAX - 4, 10) == (b"data", True)
assert client.read(sparse, (1 << 40) - 4, 12) == (bytes(4) + b"data" + bytes(4), False)
assert client.read(sparse, MAX, 10) == (b"", True)
assert client.read(sparse, (1 << 64) - 1, 10) == (b"", True)
assert client.read(sparse, 0, 0) == (b"", False)
for offset in (MAX, MAX - 1, (1 << 63) - 2, (1 << 63) - 1, 1 << 63, (1 << 64) - 2, (1 << 64) - 1):
    refused((FBIG, INVAL), client.write, sparse, offset, b"xx")
    if offset >= MAX:
        refused((FBIG, INVAL), client.setattr, sparse, size=offset + 1 & (1 << 64) - 1 or offset)
# Nothing has changed but the time of access.
assert client.getattr(sparse)._replace(atime=after.atime) == after
assert after.size == MAX and after.used < 1 << 20
large = bytes(range(256)) * 4096
assert client.write(sparse, 12345, large, FILE_SYNC)[0] == len(large) == 1 << 20
assert client.read(sparse, 12345, 1 << 20)[0] == large
# More than the server says that it takes: it takes as much as that.
assert client.write(sparse, 1 << 50, large + b"more")[0] == 1 << 20
assert client.read(sparse, 1 << 50, 1 << 21)[0] == large

# ---- what clients may know of the limits ----

assert client.fsinfo(top) == (1 << 20, 1 << 20, MAX, 1, 0x1b)
assert client.pathconf(top) == ((1 << 32) - 1, 255, 1, 1, 0, 1)
total, free, available, files, ffree, favailable = client.fsstat(top)
assert 0 < available <= free < total <= 1 << 30 and 0 < favailable <= ffree < files < 1 << 32
# There are no quotas: for nobody, and on no dataset however deep.
for path in ("/tarn", "/tarn/a/b", "/tarn/v3/folder"):
    for uid in (0, 1000, (1 << 32) - 2):
        assert client.getquota(path, uid) == user.getquota(path, uid) == 2, path
