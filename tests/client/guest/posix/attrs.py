# SPDX-License-Identifier: LGPL-3.0-or-later
"""Attributes: modes, owners, times, groups, extended attributes."""
import os
import stat
import time
from errno import *

from harness import *


@check()
def modes():
    make("f", owner=(1000, 1000))
    for bits in 0, 0o777, 0o4711, 0o2711, 0o1666, 0o7777, 0o640:
        os.chmod("f", bits)
        same(oct(bits), mode("f"))
        as_user(1000, os.chmod, "f", bits)
        same(oct(bits), mode("f"))
    fails(EPERM, as_user, 1001, os.chmod, "f", 0o777)
    fails(EPERM, as_user, 1001, os.chown, "f", 1001, -1)
    fails(EPERM, as_user, 1000, os.chown, "f", 1001, -1)
    fails(EPERM, as_user, 1000, os.chown, "f", -1, 1001)
    as_user(1000, os.chown, "f", -1, 1001, groups=[5, 1001])
    same(1001, os.stat("f").st_gid)
    # setgid of a file whose group the owner is not in.
    as_user(1000, os.chmod, "f", 0o2755)
    same("0o755", mode("f"))
    as_user(1000, os.chmod, "f", 0o2755, groups=[1001])
    same("0o2755", mode("f"))
    # What a umask leaves.
    as_user(1000, make, "masked", umask=0o027)
    as_user(1000, os.mkdir, "maskedd", umask=0o027)
    same(("0o640", "0o750"), (mode("masked"), mode("maskedd")))


@check()
def suid_goes():
    def write():
        with open("f", "ab") as stream:
            stream.write(b"x")

    def after(bits, function, *args, uid=1000, **kwargs):
        os.chown("f", 1000, 1000)
        os.chmod("f", bits)
        same(oct(bits), mode("f"))
        as_user(uid, function, *args, **kwargs)
        return mode("f")

    make("f", owner=(1000, 1000))
    same("0o777", after(0o6777, write, uid=1001))
    same("0o777", after(0o6777, write))
    same("0o2767", after(0o6767, write), "setgid without execution by the group means nothing")
    same("0o777", after(0o6777, os.truncate, "f", 1))
    same("0o777", after(0o6777, os.truncate, "f", 5))
    # (A client keeps a truncation to the same size to itself.)
    same("0o777", after(0o6777, os.truncate, "f", 4, uid=1001))
    same("0o777", after(0o6777, lambda: os.close(os.open("f", os.O_WRONLY | os.O_TRUNC))))
    same("0o777", after(0o6777, os.chown, "f", -1, 1001, groups=[1001]))
    same("0o6777", after(0o6777, lambda: content("f")))
    same("0o6777", after(0o6777, os.utime, "f"))
    os.chmod("f", 0o6777)
    os.chown("f", 1002, 1002)
    same("0o777", mode("f"), "chown by root")
    os.chmod("f", 0o6777)
    write()
    same("0o6777", mode("f"), "root's writes")
    if vers == "4.2":
        same("0o777", after(0o6777, lambda: fallocate("f", 0, 0, 9000), uid=1001))
        same("0o777", after(0o6777, lambda: fallocate("f", 3, 0, 5000), uid=1001))
    directory("d", 0o6777, (1000, 1000))
    os.chown("d", 1001, 1001)
    same("0o6777", mode("d"), "of directories they stay")


@check()
def times():
    def read(path="f"):
        st = os.lstat(path)
        return st.st_atime_ns, st.st_mtime_ns

    make("f", mode=0o644, owner=(1000, 1000))
    old = (1_000_000_000_123_456_789, 1_234_567_890_987_654_321)
    os.utime("f", ns=old)
    same(old, read())
    # One of them alone: UTIME_OMIT.
    utimensat("f", (7, 1), (0, OMIT))
    same((7_000_000_001, old[1]), read())
    utimensat("f", (0, OMIT), (9, 999_999_999))
    same((7_000_000_001, 9_999_999_999), read())
    before = os.lstat("f")
    utimensat("f", (0, OMIT), (0, OMIT))
    same(before.st_ctime_ns, os.lstat("f").st_ctime_ns, "both omitted: nothing changes")
    utimensat("f", (0, NOW), (0, OMIT))
    true(read()[0] > 10**18 and read()[1] == 9_999_999_999, "atime alone becomes now")
    # By others: explicit times are the owner's, "now" is for who may write.
    fails(EPERM, as_user, 1001, os.utime, "f", ns=old)
    fails(EACCES, as_user, 1001, os.utime, "f")
    # One time alone the server can't tell from both: it asks for write permission only.
    fails((EPERM, EACCES), as_user, 1001, utimensat, "f", (0, NOW), (0, OMIT))
    os.chmod("f", 0o646)
    fails(EPERM, as_user, 1001, os.utime, "f", ns=old)
    os.utime("f", ns=old)
    as_user(1001, os.utime, "f")
    true(min(read()) > old[1], "both times are now")
    os.chmod("f", 0o444)
    as_user(1000, os.utime, "f")  # the owner, although he may not write
    as_user(1000, os.utime, "f", ns=old)
    same(old, read())
    os.symlink("f", "link")
    utimensat("link", (1, 2), (3, 4), follow=False)
    same((1_000_000_002, 3_000_000_004), read("link"))
    same(old, read())
    for seconds in (1, 2**31 - 1, 2**31, 2**32 - 2):
        utimensat("f", (seconds, 1), (seconds, 999_999_999))
        same((seconds * 10**9 + 1, seconds * 10**9 + 999_999_999), read())
    for seconds in (0, -1, -(2**31), -(2**40), 2**32 - 1, 2**32, 2**33 + 5, 2**40):
        utimensat("f", (seconds, 1), (seconds, 2))
        refresh()
        if vers == "3":  # 32 bits, unsigned: the client takes the nearest
            nearest = min(max(seconds, 0), 2**32 - 1) * 10**9
            same((nearest, nearest), read())
        else:
            same((seconds * 10**9 + 1, seconds * 10**9 + 2), read())


@check()
def access():
    def may(path, want):
        return "".join(c for c, bit in zip("rwx", (4, 2, 1)) if os.access(path, bit, effective_ids=True)) == want

    who = [(1000, ()), (1001, (1000,)), (1002, ())]
    for bits in 0o000, 0o400, 0o020, 0o001, 0o755, 0o640, 0o077, 0o707:
        make(f"f{bits:o}", b"#!/bin/true\n", bits, (1000, 1000))
        for (uid, groups), shift in zip(who, (6, 3, 0)):
            want = "".join(c for c, bit in zip("rwx", (4, 2, 1)) if bits >> shift & bit)
            same(True, as_user(uid, may, f"f{bits:o}", want, groups=groups), f"{bits:o} {uid}")
            for flag, bit in (os.O_RDONLY, 4), (os.O_WRONLY, 2), (os.O_RDWR, 6):
                allowed = bits >> shift & bit == bit
                try:
                    os.close(as_user(uid, os.open, f"f{bits:o}", flag, groups=groups))
                    same(True, allowed, f"{uid} opens {bits:o} with {flag}")
                except PermissionError:
                    same(False, allowed, f"{uid} opens {bits:o} with {flag}")
    make("program", b"#!/bin/sh\nexit 7\n", 0o711)
    os.chmod("program", 0o711)
    fails(EACCES, as_user, 1000, content, "program")


def managed():
    """This folder, through an export with Root_Squash and Manage_Gids."""
    return "/mnt/managed-" + os.getcwd()[len("/mnt/") :]


@check()
def opens_again():
    """An open for reading is no way to one for writing, nor the other way round."""
    make("r", b"data", 0o644)
    make("w", b"data", 0o622)
    make("x", b"data", 0o711)

    def again():
        held = [os.open("r", os.O_RDONLY), os.open("w", os.O_WRONLY)]
        fails(EACCES, os.open, "r", os.O_WRONLY)
        fails(EACCES, os.open, "r", os.O_RDWR)
        fails(EACCES, os.open, "r", os.O_WRONLY | os.O_TRUNC)
        fails(EACCES, os.open, "r", os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o644)
        fails(EACCES, os.truncate, "r", 0)
        fails(EACCES, os.open, "w", os.O_RDONLY)
        fails(EACCES, os.open, "w", os.O_RDWR)
        fails(EACCES, os.open, "x", os.O_RDONLY)
        fails(EACCES, os.open, "x", os.O_WRONLY)
        for fd in held:
            os.close(fd)

    as_user(1002, again)
    same((b"data", b"data", b"data"), (content("r"), content("w"), content("x")))


@check()
def sixteen_groups():
    for i, gid in enumerate([2000, 2007, 2015]):
        make(f"f{i}", b"x", 0o040, (0, gid))
        same(b"x", as_user(1000, content, f"f{i}", groups=range(2000, 2016)), f"group {gid}")
    fails(EACCES, as_user, 1000, content, "f0", groups=range(2001, 2016))
    # AUTH_SYS carries no more than sixteen.
    make("more", b"x", 0o040, (0, 2039))
    fails(EACCES, as_user, 1000, content, "more", groups=range(2000, 2040))
    # The server looks them up itself where Manage_Gids is set.
    more = managed() + "/more"
    same(b"x", as_user(4242, content, more), "Manage_Gids")
    fails(EACCES, as_user, 4243, content, more, groups=range(2030, 2040))


@check()
def squashed_root():
    here = managed()
    make("private", b"x", 0o600, (1000, 1000))
    make("open", b"x", 0o666, (1000, 1000))
    fails(EACCES, content, f"{here}/private")
    same(b"x", content(f"{here}/open"))
    fails(EPERM, os.chown, f"{here}/open", 0, 0)
    fails(EPERM, os.chmod, f"{here}/open", 0o777)
    make(f"{here}/made")
    refresh()
    true(os.stat("made").st_uid not in (0, 1000), "root's files are nobody's")
    os.chmod(".", 0o755)
    fails(EACCES, make, f"{here}/new")
    fails(EACCES, os.unlink, f"{here}/open")
    same(b"x", as_user(1000, content, f"{here}/private"))


# ---- extended attributes: v4.2 has them ----


@check("3", "4.0", "4.1")
def no_xattrs():
    make("f")
    fails(EOPNOTSUPP, os.setxattr, "f", "user.a", b"x")
    fails(EOPNOTSUPP, os.getxattr, "f", "user.a")


@check("4.2")
def xattrs():
    make("f")
    os.mkdir("d")
    for path in "f", "d":
        for length in 0, 1, 100, 1023, 1024, 1025, 4096, 8190, 8191:
            value = os.urandom(length)
            os.setxattr(path, "user.a", value)
            same(length, len(os.getxattr(path, "user.a")), f"{path}: length")
            refresh()
            true(os.getxattr(path, "user.a") == value, f"{path}: value of {length} bytes")
        # ganesha decodes no longer values; test_api_attr.c goes up to 64 KiB.
        fails((E2BIG, EIO), os.setxattr, path, "user.a", b"x" * 8192)
        same(8191, len(os.getxattr(path, "user.a")))
        fails(EEXIST, os.setxattr, path, "user.a", b"y", os.XATTR_CREATE)
        os.setxattr(path, "user.a", b"y", os.XATTR_REPLACE)
        os.setxattr(path, "user.b", b"z", os.XATTR_CREATE)
        fails(ENODATA, os.setxattr, path, "user.c", b"y", os.XATTR_REPLACE)
        fails(ENODATA, os.getxattr, path, "user.c")
        fails(ENODATA, os.removexattr, path, "user.c")
        same({"user.a", "user.b"}, user_names(path))
        then = os.stat(path).st_ctime_ns
        os.removexattr(path, "user.a")
        true(os.stat(path).st_ctime_ns > then, "ctime")
        fails(ENODATA, os.getxattr, path, "user.a")
        same({"user.b"}, user_names(path))
    long = "user." + "n" * 250  # Linux counts the prefix
    os.setxattr("f", long, b"1")
    same(b"1", os.getxattr("f", long))
    fails(ERANGE, os.setxattr, "f", long + "n", b"1")
    os.setxattr("f", b"user.\xff\x01/.", b"2")
    same(b"2", os.getxattr("f", b"user.\xff\x01/."))
    os.rename("f", "g")
    os.link("g", "h")
    same(b"1", os.getxattr("h", long))
    fails((EOPNOTSUPP, EPERM), os.setxattr, "g", "trusted.a", b"x")


@check("4.2")
def xattr_permission():
    make("f", mode=0o640, owner=(1000, 1001))
    os.setxattr("f", "user.a", b"x")
    as_user(1000, os.setxattr, "f", "user.a", b"y")
    same(b"y", as_user(1001, os.getxattr, "f", "user.a"))
    fails(EACCES, as_user, 1001, os.setxattr, "f", "user.a", b"z")
    fails(EACCES, as_user, 1001, os.removexattr, "f", "user.a")
    fails(EACCES, as_user, 1002, os.getxattr, "f", "user.a")


@check("4.2")
def many_xattrs():
    """As many as one list on Linux can name (64 KiB), and more than a reply can (1,024)."""
    make("f")
    names, room = set(), 65536 - 200
    while True:
        i = len(names)
        name = f"user.{i}-" + "n" * (30 + i % 23)
        room -= len(name) + 1
        if room < 0:
            break
        names.add(name)
    for name in names:
        os.setxattr("f", name, name.encode())
    same(names, user_names("f"))
    refresh()
    listed = user_names("f")
    same((0, 0), (len(names - listed), len(listed - names)), f"{len(names)} names")
    for name in sorted(names)[::50]:
        same(name.encode(), os.getxattr("f", name))
        os.removexattr("f", name)
        names.remove(name)
    same(names, user_names("f"))
