# SPDX-License-Identifier: LGPL-3.0-or-later
"""Names and handles that no honest client sends."""
import random

from nfs3 import *

seed = random.getrandbits(32)
print("seed", seed)
rng = random.Random(seed)
client = Client()
root, everything = client.mount("/tarn"), client.mount("/all")
top = client.mkdir(root, b"hostile")[0]
kept = client.create(top, b"kept", mode=0o600)[0]
client.write(kept, 0, b"secret", FILE_SYNC)
other = client.lookup(root, b"a")  # a dataset of its own
below = client.lookup(other, b"b")  # and one below it

bad = (INVAL, ACCES, EXIST, NOENT, ISDIR, NOTEMPTY)
for name in (b"a/b", b"/", b"", b".", b"..", b"kept/"):
    for call, args in ((client.create, ()), (client.mkdir, ()), (client.symlink, (b"t",)),
                       (client.mknod, (FIFO,)), (client.remove, ()), (client.rmdir, ())):
        refused(bad, call, top, name, *args)
    refused(bad, client.rename, top, b"kept", top, name)
    refused(bad, client.rename, top, name, top, b"new")
    refused(bad, client.link, kept, top, name)
    if name not in (b".", b".."):
        refused(bad, client.lookup, top, name)
for name in (b"n" * 256, b"n" * 1024):
    refused(NAMETOOLONG, client.create, top, name)
    refused(NAMETOOLONG, client.mkdir, top, name)
    refused((NAMETOOLONG, NOENT), client.lookup, top, name)
    refused(NAMETOOLONG, client.rename, top, b"kept", top, name)
assert [e.name for e in client.listing(top)] == [b"kept"]

# Any bytes but / and NUL are a name.
for name in (b"n" * 255, b"\xff\xfe\x80", b"new\nline", b" ", b"-rf", b"..."):
    refused(NOENT, client.lookup, top, name)
    assert client.create(top, name)[0] == client.lookup(top, name)
    client.remove(top, name)

# Datasets: each with an fsid of its own, crossed downwards and upwards, and not to be removed,
# replaced or linked across. The directory of all pools is nobody's to change.
all_tarn = client.lookup(everything, b"tarn")
START, LENGTH = 5, 40  # of what is Tarn's in a handle
assert root[START:START + LENGTH] == all_tarn[START:START + LENGTH]
assert root[START + LENGTH:].strip(b"\0") == b""
assert len({client.getattr(fh).fsid for fh in (everything, root, other, below)}) == 4
for directory, parent in ((below, other), (other, root), (root, root), (all_tarn, everything)):
    assert client.lookup(directory, b"..") == parent
refused(XDEV, client.link, kept, other, b"hard")
refused(XDEV, client.rename, top, b"kept", other, b"kept")
refused((NOTEMPTY, XDEV, INVAL, PERM, ACCES), client.rename, root, b"a", top, b"a")
refused(NOTEMPTY, client.rename, root, b"a", root, b"z")
refused(NOTEMPTY, client.rmdir, root, b"a")
refused((EXIST, NOTEMPTY, ISDIR), client.rename, top, b"kept", root, b"a")
refused(ROFS, client.create, everything, b"f")
refused(ROFS, client.mkdir, everything, b"f")
refused(NOTEMPTY, client.rmdir, everything, b"tarn")
for directory in (everything, root, below):
    client.fsstat(directory)

# Handles: a changed one is refused or is the same file (no check sum protects what ganesha
# adds in front); it never leads to anything else.
truth = client.getattr(kept)
for length in list(range(0, len(kept))) + [len(kept) + 1, 64]:
    refused((BADHANDLE, STALE, SERVERFAULT, INVAL), client.getattr, (kept + bytes(64))[:length])


def forged(at, data):
    return root[:START + at] + data + root[START + at + len(data):]


for bad in (forged(0, b"\2"), forged(1, b"\0"), forged(1, b"\x63"), forged(4, b"\1"),
            forged(24, bytes(8)), forged(1, b"\2")):
    refused(BADHANDLE, client.getattr, bad)
for gone in (forged(24, b"\xff\xff\xff\x7f\0\0\0\0"), forged(32, b"\x7f" * 8),
             forged(16, b"\x7f" * 8), forged(8, b"\x7f" * 8),
             forged(1, b"\2" + bytes(38)), forged(1, b"\3" + bytes(38))):
    refused(STALE, client.getattr, gone)
for i in range(2000):
    changed = bytearray(kept)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    try:
        attr = client.getattr(bytes(changed))
    except Denied:
        continue  # it names an export that is not for v3
    except NfsError as e:
        assert e.status in (BADHANDLE, STALE, SERVERFAULT, INVAL, JUKEBOX), e.status
        continue
    # A handle that guesses another inode and generation right is one of another file: rare,
    # but it must then be a file of this pool.
    assert attr.fsid in (truth.fsid, client.getattr(other).fsid)
refused((NOTDIR, INVAL), client.lookup, kept, b"x")
refused((NOTDIR, INVAL), client.readdir, kept)
refused((ISDIR, INVAL), client.read, top, 0, 10)
refused((ISDIR, INVAL), client.write, top, 0, b"x")
refused(INVAL, client.readlink, kept)

# Offsets at the end of what is possible.
refused((FBIG, INVAL), client.write, kept, (1 << 64) - 4, b"12345678")
refused((FBIG, INVAL), client.setattr, kept, size=(1 << 64) - 1)
assert client.read(kept, 1 << 62, 10) == (b"", True)

# Permission: what the server trusts no client with.
user = Client(uid=1000, gid=1000)
refused(ACCES, user.read, kept, 0, 10)
refused(ACCES, user.write, kept, 0, b"x")
refused(ACCES, user.create, top, b"mine")
refused(ACCES, user.remove, top, b"kept")
refused(ACCES, user.rename, top, b"kept", top, b"mine")
refused((PERM, ACCES), user.setattr, kept, mode=0o777)
refused((PERM, ACCES), user.setattr, kept, uid=1000)
# Emptying a file by CREATE needs permission to write, and happens before the core checks it.
refused(ACCES, user.create, top, b"kept", size=0)
assert client.read(kept, 0, 10) == (b"secret", True)
assert client.read(kept, 0, 4) == (b"secr", False)
assert client.read(kept, 6, 10) == (b"", True)
client.create(top, b"kept", size=0)
assert client.getattr(kept).size == 0
