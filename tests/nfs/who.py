# SPDX-License-Identifier: LGPL-3.0-or-later
"""Groups and squashing, of a user (5000, groups 6001 to 6040) and of root."""
from nfs3 import *

NOBODY = 65534
READ, LOOKUP, MODIFY, EXTEND, DELETE, EXECUTE = 1, 2, 4, 8, 16, 32
root = Client()
plain, managed, squashed, id_squashed, everybody = (
    root.mount(path) for path in ("/tarn", "/managed", "/root", "/rootid", "/everybody"))
top = root.mkdir(plain, b"who")[0]
root.setattr(top, mode=0o755)


def seen_by(export):
    return root.lookup(export, b"who")


for group in (6001, 6016, 6017, 6040):
    folder = root.mkdir(top, b"of-%d" % group, mode=0o2770)[0]
    root.setattr(folder, gid=group)

# Sixteen groups come with the request; those that the server knows count instead with
# Manage_Gids, however many there are, and what the request claims does not.
member = Client(uid=5000, gid=5000, gids=range(6001, 6017))
claiming = Client(uid=5000, gid=5000, gids=(6050,))
for group, may in ((6001, True), (6016, True), (6017, False), (6040, False)):
    folder = root.lookup(top, b"of-%d" % group)
    assert member.access(folder, LOOKUP | EXTEND) == (LOOKUP | EXTEND if may else 0)
    if may:
        member.create(folder, b"plain")
    else:
        refused(ACCES, member.create, folder, b"plain")
    for client in (member, claiming):
        inside = client.lookup(seen_by(managed), b"of-%d" % group)
        assert client.access(inside, LOOKUP | EXTEND) == LOOKUP | EXTEND
        made = client.create(inside, b"managed")[0]
        assert client.getattr(made)[3:5] == (5000, group)
        client.remove(inside, b"managed")
mine = root.create(top, b"mine")[0]
root.setattr(mine, uid=5000, gid=5000)
managed_mine = root.lookup(seen_by(managed), b"mine")
member.setattr(managed_mine, gid=6040)  # chgrp to a group that only the server knows of
assert root.getattr(mine).gid == 6040
refused((PERM, ACCES), member.setattr, mine, gid=6039)
refused((PERM, ACCES), claiming.setattr, managed_mine, gid=6050)
secret = root.mkdir(top, b"of-6050", mode=0o070)[0]
root.setattr(secret, gid=6050)
assert claiming.access(secret, LOOKUP) == LOOKUP
assert claiming.access(root.lookup(seen_by(managed), b"of-6050"), LOOKUP) == 0
# A user that the server does not know is refused where it is to look up groups.
refused(-1, Client(uid=5001, gid=5001).getattr, managed)

# Root of a client is nobody, or is nobody but for its groups.
open_to_all = root.mkdir(top, b"open", mode=0o1777)[0]
root.setattr(open_to_all, mode=0o1777)
root.create(open_to_all, b"roots", mode=0o600)
of_root = root.mkdir(top, b"of-root", mode=0o775)[0]
root.setattr(of_root, mode=0o775)
for export, gid in ((squashed, NOBODY), (id_squashed, NOBODY), (everybody, NOBODY)):
    inside = root.lookup(seen_by(export), b"open")
    made, attr = root.create(inside, b"made", mode=0o600)
    assert (attr.uid, attr.gid) == (NOBODY, gid)
    folder, attr = root.mkdir(inside, b"made-too")
    assert (attr.uid, attr.gid) == (NOBODY, gid)
    refused((PERM, ACCES), root.setattr, root.lookup(inside, b"roots"), mode=0o666)
    refused((PERM, ACCES), root.read, root.lookup(inside, b"roots"), 0, 10)
    refused((PERM, ACCES), root.remove, inside, b"roots")
    # What is given to root is given to nobody, and where all are squashed whatever is given.
    root.setattr(made, uid=0, gid=0)
    if export == everybody:
        root.setattr(made, uid=5000, gid=5000)
    else:
        refused((PERM, ACCES), root.setattr, made, uid=5000)
        refused((PERM, ACCES), root.setattr, made, gid=5000)
    assert root.getattr(made)[3:5] == (NOBODY, gid)
    refused((PERM, ACCES), root.mknod, inside, b"null", CHR, 1, 3)
    root.mknod(inside, b"fifo", FIFO)
    refused(ACCES, root.create, root.lookup(seen_by(export), b"of-root"), b"made")
    for name in (b"made", b"fifo"):
        root.remove(inside, name)
    root.rmdir(inside, b"made-too")
# So is a user's claim to be in root's group.
crafty = Client(uid=5000, gid=5000, gids=(0,))
crafty.create(of_root, b"plain")
for export in (squashed, id_squashed):
    refused(ACCES, crafty.create, root.lookup(seen_by(export), b"of-root"), b"squashed")
