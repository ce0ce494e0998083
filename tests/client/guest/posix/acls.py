# SPDX-License-Identifier: LGPL-3.0-or-later
"""NFSv4 ACLs, by the client's raw attribute system.nfs4_acl and by nfs4-acl-tools."""
import os
import struct
import subprocess
from errno import *

from harness import *

V4 = ("4.0", "4.1", "4.2")
ALLOW, DENY = 0, 1
FILE, DIR, ONCE, ONLY, GROUP = 0x1, 0x2, 0x4, 0x8, 0x40  # flags
R, W, A, X = 0x1, 0x2, 0x4, 0x20  # permissions
RW = R | W | A
DELETE_CHILD, DELETE, WRITE_ACL, READ_ACL = 0x40, 0x10000, 0x40000, 0x20000
READ_ATTR, WRITE_ATTR = 0x80, 0x100
OWNER, OWNING, EVERYONE = "OWNER@", "GROUP@", "EVERYONE@"
NAME = "system.nfs4_acl"


def pack(aces):
    out = struct.pack(">I", len(aces))
    for kind, flags, mask, who in aces:
        flags |= 0x40 if who == OWNING else 0
        text = who.encode()
        out += struct.pack(">IIII", kind, flags, mask, len(text))
        out += text + bytes(-len(text) % 4)
    return out


def unpack(raw):
    (count,), at, aces = struct.unpack_from(">I", raw), 4, []
    for _ in range(count):
        kind, flags, mask, length = struct.unpack_from(">IIII", raw, at)
        at += 16
        aces.append((kind, flags, mask, raw[at : at + length].decode()))
        at += length + -length % 4
    return aces


def set_acl(path, *aces):
    os.setxattr(path, NAME, pack(aces))


def get_acl(path):
    return unpack(os.getxattr(path, NAME))


def entries(path, who):
    """(type, flags, what of r, w, a, x) of each entry for who."""
    return [(k, f & ~0x40, m & (RW | X)) for k, f, m, w in get_acl(path) if is_who(w, who)]


def is_who(listed, who):
    return listed == who or listed.split("@")[0] == who


@check("3")
def no_acls():
    make("f")
    fails(EOPNOTSUPP, os.getxattr, "f", NAME)
    fails(EOPNOTSUPP, os.getxattr, "f", "system.posix_acl_access")


@check(*V4)
def acl_of_the_mode():
    """A file without ACL shows one that says what its mode says."""
    for bits in 0o000, 0o640, 0o755, 0o077, 0o123, 0o4711:
        name = f"f{bits:o}"
        make(name, mode=bits)
        os.chmod(name, bits)
        for who, shift in (OWNER, 6), (OWNING, 3), (EVERYONE, 0):
            rights = 0
            for kind, flags, mask, w in get_acl(name):
                if w in (who, EVERYONE) and kind == ALLOW:
                    rights |= mask & ~denied(name, who, mask)
            want = {4: R, 2: W, 1: X}
            for bit, right in want.items():
                same(bool(bits >> shift & bit), bool(rights & right), f"{bits:o} {who} {right}")
    # Written back as it is, it changes nothing.
    make("f", mode=0o640)
    os.chmod("f", 0o2751)
    os.setxattr("f", NAME, os.getxattr("f", NAME))
    same("0o2751", mode("f"))


def denied(path, who, mask):
    """What of mask an entry before an allowing one denies to who."""
    seen, out = 0, 0
    for kind, _, m, w in get_acl(path):
        if w not in (who, EVERYONE):
            continue
        if kind == DENY:
            out |= m & ~seen
        else:
            seen |= m
    return out & mask


@check(*V4)
def acl_decides():
    make("f", b"data", 0o600, (1000, 1000))
    set_acl("f", (ALLOW, 0, RW, OWNER), (ALLOW, 0, R, "1001"), (ALLOW, GROUP, RW, "2000"))
    same(b"data", as_user(1001, content, "f"))
    fails(EACCES, as_user, 1001, os.open, "f", os.O_WRONLY)
    fails(EACCES, as_user, 1002, content, "f")
    same(b"data", as_user(1002, content, "f", groups=[2000]))
    as_user(1002, os.open, "f", os.O_RDWR, groups=[2000])
    same([(ALLOW, 0, R)], entries("f", "1001"))
    same([(ALLOW, 0, RW)], entries("f", "2000"))
    set_acl("f", (DENY, 0, R, "1001"), (ALLOW, 0, RW, EVERYONE))
    fails(EACCES, as_user, 1001, content, "f")
    same(b"data", as_user(1002, content, "f"))
    same("0o666", mode("f"))
    # Who may change it.
    fails((EPERM, EACCES), as_user, 1001, set_acl, "f", (ALLOW, 0, RW, EVERYONE))
    as_user(1000, set_acl, "f", (ALLOW, 0, RW, OWNER), (ALLOW, 0, R | WRITE_ACL, "1001"))
    as_user(1001, set_acl, "f", (ALLOW, 0, R, "1002"))
    same(b"data", as_user(1002, content, "f"))
    as_user(1000, os.chmod, "f", 0o600)  # the owner always can
    # Deletion by the file's own ACL, and by the directory's.
    directory("d", 0o755)
    for name in "a", "b":
        make(f"d/{name}", owner=(1000, 1000))
    fails(EACCES, as_user, 1001, os.unlink, "d/a")
    set_acl("d", (ALLOW, 0, R | X | DELETE_CHILD, "1001"), (ALLOW, 0, R | X, EVERYONE))
    as_user(1001, os.unlink, "d/a")
    set_acl("d", (ALLOW, 0, R | X | A, "1001"), (ALLOW, 0, R | X, EVERYONE))
    fails(EACCES, as_user, 1001, os.unlink, "d/b")
    as_user(1001, os.mkdir, "d/sub")  # A is ADD_SUBDIRECTORY there
    fails(EACCES, as_user, 1001, make, "d/file")


@check(*V4)
def mode_and_acl():
    make("f", mode=0o600, owner=(1000, 1000))
    named = (ALLOW, 0, RW, "1001")
    set_acl("f", (ALLOW, 0, RW | X, OWNER), named, (ALLOW, 0, R | X, OWNING), (ALLOW, 0, R, EVERYONE))
    same("0o754", mode("f"))
    os.chmod("f", 0o664)
    same("0o664", mode("f"))
    same(RW, rights_of("f", "1001"))
    os.chmod("f", 0o640)
    same(("0o640", R), (mode("f"), rights_of("f", "1001")), "a named user has no more than the group")
    os.chmod("f", 0o600)
    same(("0o600", 0), (mode("f"), rights_of("f", "1001")))
    fails(EACCES, as_user, 1001, os.open, "f", os.O_RDONLY)
    # setgid and setuid stay when an ACL is set.
    os.chmod("f", 0o6755)
    set_acl("f", (ALLOW, 0, RW | X, OWNER), (ALLOW, 0, R | X, OWNING), (ALLOW, 0, R, EVERYONE))
    same("0o6754", mode("f"))
    directory("d", 0o2770, (1000, 1234))
    set_acl("d", (ALLOW, FILE | DIR, RW | X, OWNER), (ALLOW, FILE | DIR, RW | X, OWNING))
    same("0o2770", mode("d"))
    as_user(1000, os.mkdir, "d/sub", 0o777)
    as_user(1000, make, "d/f")
    same(1234, os.stat("d/sub").st_gid)
    same(1234, os.stat("d/f").st_gid)
    true(os.stat("d/sub").st_mode & 0o2000, "setgid is inherited")
    # Many times over: it does not grow.
    for bits in [0o755, 0o700] * 10:
        os.chmod("d", bits)
    true(len(get_acl("d")) < 20, f"{len(get_acl('d'))} entries")


def rights_of(path, who):
    rights = 0
    for kind, flags, mask in entries(path, who):
        if not flags & ONLY:
            rights = rights | mask if kind == ALLOW else rights & ~mask
    return rights


@check(*V4)
def inheritance():
    directory("d", 0o777)
    set_acl(
        "d",
        (ALLOW, FILE | DIR, RW | X, OWNER),
        (ALLOW, 0, RW | X, EVERYONE),
        (ALLOW, FILE, RW, "1001"),
        (ALLOW, DIR, R | X, "1002"),
        (ALLOW, FILE | DIR | ONLY, R | X, "1003"),
        (ALLOW, FILE | DIR | ONCE, R, "1004"),
    )
    make("d/f", b"x", 0o666)
    same([], [e for e in get_acl("d/f") if e[1] & 0xF], "a file hands nothing down")
    same((RW, 0, R, R), tuple(rights_of("d/f", u) for u in ("1001", "1002", "1003", "1004")))
    os.mkdir("d/sub", 0o777)
    same((0, R | X, R | X, R), tuple(rights_of("d/sub", u) for u in ("1001", "1002", "1003", "1004")))
    make("d/sub/f", b"x", 0o666)
    same((RW, 0, R, 0), tuple(rights_of("d/sub/f", u) for u in ("1001", "1002", "1003", "1004")))
    # Other types, and links, which have none.
    os.mkfifo("d/fifo", 0o666)
    same(RW, rights_of("d/fifo", "1001"))
    os.symlink("f", "d/link")
    same("0o777", mode("d/link"))
    # The mode that was asked for is a limit.
    for name, flags in ("private", os.O_CREAT), ("exclusive", os.O_CREAT | os.O_EXCL):
        os.close(os.open(f"d/{name}", flags | os.O_WRONLY, 0o600))
        same(("0o600", 0), (mode(f"d/{name}"), rights_of(f"d/{name}", "1001")), name)
        fails(EACCES, as_user, 1001, os.open, f"d/{name}", os.O_RDONLY)
    os.mkdir("d/closed", 0o700)
    same("0o700", mode("d/closed"))
    fails(EACCES, as_user, 1002, os.listdir, "d/closed")
    as_user(1000, make, "d/masked", umask=0o077)
    same("0o600", mode("d/masked"))
    fails(EACCES, as_user, 1001, os.open, "d/masked", os.O_RDONLY)
    # An exclusive create hands down as much as another one.
    for name, flags in ("plain", os.O_CREAT), ("excl", os.O_CREAT | os.O_EXCL):
        os.close(os.open(f"d/{name}", flags | os.O_WRONLY, 0o664))
        same(("0o664", RW), (mode(f"d/{name}"), rights_of(f"d/{name}", "1001")), name)
    # Over v3, which sees no ACL.
    over3 = "/mnt/3" + os.getcwd()[len("/mnt/") + len(vers) :]
    for name, flags in ("plain3", os.O_CREAT), ("excl3", os.O_CREAT | os.O_EXCL):
        os.close(os.open(f"{over3}/d/{name}", flags | os.O_WRONLY, 0o664))
        same(("0o664", RW), (mode(f"d/{name}"), rights_of(f"d/{name}", "1001")), name)
        same(b"", as_user(1001, content, f"{over3}/d/{name}"))


@check(*V4)
def hostile_acls():
    make("f", mode=0o640)
    before = get_acl("f")
    broken = b"", b"\0", struct.pack(">I", 5), struct.pack(">I", 1 << 30)
    for raw in broken + (pack([(7, 0, R, EVERYONE)]),):
        fails((EINVAL, EIO, ERANGE, EOPNOTSUPP, EREMOTEIO), os.setxattr, "f", NAME, raw)
    # An audit: ATTRNOTSUPP, for which Linux has no better word.
    fails((EIO, EOPNOTSUPP), set_acl, "f", (2, 0x10, R, EVERYONE))
    same(before, get_acl("f"))
    many = [(ALLOW, 0, R, str(3000 + i)) for i in range(200)]
    set_acl("f", *many, (ALLOW, 0, RW, OWNER))
    same(201, len(get_acl("f")))
    set_acl("f")  # no entry at all
    true(len(get_acl("f")) >= 0, "an empty ACL can be read")


@check(*V4)
def acl_tools():
    def tool(*words):
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    directory("d", 0o755)
    tool("nfs4_setfacl", "-a", "A:fd:1001:rwax", "d")
    listed = tool("nfs4_getfacl", "d")
    true(any(is_who(l.split(":")[2], "1001") for l in listed.splitlines() if l.count(":") == 3), listed)
    make("d/f", b"x", 0o664)
    same(RW, rights_of("d/f", "1001"))
    make("g", mode=0o600)
    with open("/tmp/acl-" + vers, "w") as stream:
        stream.write(listed)
    tool("nfs4_setfacl", "-S", "/tmp/acl-" + vers, "d/f")
    tool("nfs4_setfacl", "-s", "A::OWNER@:rwatTnNcCy,A::1001:rtncy", "g")
    same(("0o600", R), (mode("g"), rights_of("g", "1001")))
