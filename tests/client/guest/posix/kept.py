# SPDX-License-Identifier: LGPL-3.0-or-later
"""What must be the same after a restart of the server."""
import os
import pickle

from acls import ALLOW, DIR, EVERYONE, FILE, OWNER, RW, R, X, get_acl, set_acl
from harness import *
from tools import build, compare, tree

TRUTH = f"/tmp/kept-{vers}"


def acls_of(folder):
    return {} if vers == "3" else {name: get_acl(f"{folder}/{name}") for name in ("d", "d/f")}


def keep(folder):
    xattrs = vers == "4.2"
    build(folder, xattrs)
    if xattrs:
        os.setxattr(f"{folder}/d/f", "user.large", os.urandom(8191))
        for i in range(100):
            os.setxattr(f"{folder}/d", f"user.{i}", str(i).encode())
    if vers != "3":
        set_acl(f"{folder}/d", (ALLOW, FILE | DIR, RW | X, OWNER), (ALLOW, FILE, R, EVERYONE))
        set_acl(f"{folder}/d/f", (ALLOW, 0, RW, OWNER), (ALLOW, 0, R, "1001"))
    with open(TRUTH, "wb") as stream:
        pickle.dump((tree(folder, xattrs), acls_of(folder)), stream)


def verify(folder):
    with open(TRUTH, "rb") as stream:
        want, acls = pickle.load(stream)
    compare(want, tree(folder, vers == "4.2"), "after the restart")
    same(acls, acls_of(folder), "ACLs after the restart")
