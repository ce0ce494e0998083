# SPDX-License-Identifier: LGPL-3.0-or-later
"""Names: making, linking, renaming, removing, and who may."""
import os
import socket
import stat
from errno import *

from harness import *


@check()
def any_bytes():
    all_bytes = bytes(b for b in range(1, 256) if b != ord("/"))
    names = {bytes([b]) for b in all_bytes if b != ord(".")} | {all_bytes, b"\xff" * 255}
    for name in names:
        if name in (all_bytes, b"\xff" * 255):
            os.mkdir(name)
        else:
            os.mknod(name)
    same(names, set(os.listdir(b".")), "names")
    fails(ENAMETOOLONG, os.mkdir, "n" * 256)
    fails(ENAMETOOLONG, os.stat, "n" * 256)
    for name in names:
        os.stat(name)


@check()
def types():
    os.mkfifo("fifo", 0o640)
    os.mknod("char", stat.S_IFCHR | 0o600, os.makedev(4095, 1048575))
    os.mknod("block", stat.S_IFBLK | 0o606, os.makedev(259, 65537))
    os.mknod("file", stat.S_IFREG | 0o604)
    socket.socket(socket.AF_UNIX).bind("socket")
    os.symlink("target", "link")
    for name, kind, bits in [
        ("fifo", stat.S_IFIFO, 0o640),
        ("char", stat.S_IFCHR, 0o600),
        ("block", stat.S_IFBLK, 0o606),
        ("file", stat.S_IFREG, 0o604),
        ("socket", stat.S_IFSOCK, 0o777),
        ("link", stat.S_IFLNK, 0o777),
    ]:
        st = os.lstat(name)
        same((kind, bits, 1), (stat.S_IFMT(st.st_mode), st.st_mode & 0o7777, st.st_nlink), name)
        # What can be done with every type.
        if name != "link":
            os.chmod(name, 0o4711)
        os.chown(name, 1000, 1001, follow_symlinks=False)
        os.utime(name, ns=(5 * 10**9, 7 * 10**9 + 1), follow_symlinks=False)
        os.link(name, name + "2", follow_symlinks=False)
        st = os.lstat(name + "2")
        same((1000, 1001, 2, 7 * 10**9 + 1), (st.st_uid, st.st_gid, st.st_nlink, st.st_mtime_ns))
        # Linux lets suid stay where nobody can execute; only the rest is of interest here.
        same(oct(0o777 if name == "link" else 0o711), oct(st.st_mode & 0o777), name)
        os.rename(name, name + "3")
        os.rename(name + "3", name + "2")  # the same inode: nothing happens
        true(exists(name + "3"), f"{name}3 is there")
        os.unlink(name + "2")
        same(1, os.lstat(name + "3").st_nlink, name)
    same((4095, 1048575), (os.major(os.stat("char3").st_rdev), os.minor(os.stat("char3").st_rdev)))
    same((259, 65537), (os.major(os.stat("block3").st_rdev), os.minor(os.stat("block3").st_rdev)))
    fails(EPERM, as_user, 1000, os.mknod, "x", stat.S_IFCHR, os.makedev(1, 3))
    as_user(1000, os.mkfifo, "mine")
    same(1000, os.stat("mine").st_uid)


@check()
def symlinks():
    for length in 1, 255, 1023, 1024, 4094, 4095:
        target = ("t" * 99 + "/") * 41
        os.symlink(target[:length], f"l{length}")
        same(length, os.lstat(f"l{length}").st_size)
        same(target[:length], os.readlink(f"l{length}"))
    fails(ENAMETOOLONG, os.symlink, "t" * 4096, "long")
    fails(ENOENT, os.symlink, "", "empty")
    os.symlink(b"\xff\x01\n", b"bytes")
    same(b"\xff\x01\n", os.readlink(b"bytes"))
    os.symlink("nothing", "dangling")
    fails(EEXIST, os.open, "dangling", os.O_CREAT | os.O_EXCL)
    fails(ELOOP, os.open, "dangling", os.O_NOFOLLOW)
    fails(EEXIST, os.symlink, "x", "dangling")
    fails(EEXIST, os.mkdir, "dangling")
    fails(EINVAL, os.readlink, ".")
    os.close(os.open("dangling", os.O_CREAT | os.O_WRONLY))
    true(exists("nothing"), "a file is made through a link")
    os.symlink("loop", "loop")
    fails(ELOOP, os.stat, "loop")


@check()
def times_of_names():
    """Each change of a directory changes its times, each change of an inode its ctime."""

    def changes(function, *args, inode=None, dirs=(".",)):
        before = [os.lstat(d) for d in dirs]
        then = os.lstat(inode).st_ctime_ns if inode else 0
        function(*args)
        for d, b in zip(dirs, before):
            after = os.lstat(d)
            true(after.st_mtime_ns > b.st_mtime_ns, f"{function.__name__}: mtime of {d} rises")
            true(after.st_ctime_ns > b.st_ctime_ns, f"{function.__name__}: ctime of {d} rises")
        if inode:
            true(os.lstat(inode).st_ctime_ns > then, f"{function.__name__}: ctime of {inode} rises")

    os.mkdir("d")
    changes(make, "f")
    changes(os.mkdir, "e")
    changes(os.symlink, "x", "s")
    changes(os.mkfifo, "p")
    changes(os.link, "f", "g", inode="f")
    changes(os.unlink, "g", inode="f")
    changes(os.rename, "f", "d/f", dirs=(".", "d"))
    changes(os.rename, "d/f", "d/g", dirs=("d",))
    changes(os.rmdir, "e")
    changes(os.chmod, "d/g", 0o600, inode="d/g", dirs=())
    changes(os.chown, "d/g", 1, 1, inode="d/g", dirs=())
    changes(os.truncate, "d/g", 5, inode="d/g", dirs=("d/g",))
    changes(os.utime, "d/g", inode="d/g", dirs=())


@check()
def links():
    make("a", b"a")
    os.link("a", "b")
    os.mkdir("d")
    os.link("b", "d/c")
    same(3, os.stat("a").st_nlink)
    fails(EEXIST, os.link, "a", "b")
    fails(EEXIST, os.link, "a", "d")
    fails(EPERM, os.link, "d", "e")
    fails(ENOENT, os.link, "nothing", "e")
    fails(ENOTDIR, os.link, "a", "b/c")
    os.rename("a", "d/c")  # one inode: both names stay
    same((3, True, True), (os.stat("a").st_nlink, exists("a"), exists("d/c")))
    make("x", b"x")
    os.rename("x", "b")
    same((2, b"x"), (os.stat("a").st_nlink, content("b")))
    os.unlink("a")
    same((1, b"a"), (os.stat("d/c").st_nlink, content("d/c")))


@check()
def renames():
    make("f", b"f")
    make("g", b"g")
    os.makedirs("d/e/f")
    os.makedirs("full/x")
    os.mkdir("empty")
    fails(EISDIR, os.rename, "f", "empty")
    fails(ENOTDIR, os.rename, "empty", "f")
    fails((ENOTEMPTY, EEXIST), os.rename, "empty", "full")
    fails((ENOTEMPTY, EEXIST), os.rename, "d/e/f", "d")
    fails(EINVAL, os.rename, "d", "d/e/f/g")
    fails(EINVAL, os.rename, "d", "d/g")
    fails(ENOENT, os.rename, "nothing", "f")
    fails(ENOENT, os.rename, "f", "nothing/f")
    fails(ENOTDIR, os.rename, "f", "g/f")
    fails((EBUSY, EINVAL), os.rename, "d/.", "h")
    fails(EINVAL, lambda: call(libc.renameat2(-100, b"f", -100, b"h", 1)))  # RENAME_NOREPLACE
    number = os.stat("full").st_ino
    os.rename("full", "empty")  # a directory over an empty one
    same((number, ["x"], False), (os.stat("empty").st_ino, os.listdir("empty"), exists("full")))
    # To another parent: link counts, "..".
    links_here = os.stat(".").st_nlink
    os.rename("d/e", "e")
    same((links_here + 1, 2, 3), tuple(os.stat(p).st_nlink for p in (".", "d", "e")))
    same(os.stat(".").st_ino, os.stat("e/..").st_ino)
    os.rename("e", "empty/x/e")
    same((links_here, 3), tuple(os.stat(p).st_nlink for p in (".", "empty/x")))
    same(os.stat("empty/x").st_ino, os.stat("empty/x/e/..").st_ino)
    # Over a file that is open: the reader keeps the old one.
    old = os.open("g", os.O_RDONLY)
    os.rename("f", "g")
    same((b"g", b"f"), (os.read(old, 10), content("g")))
    os.close(old)
    # A directory that is somebody's working directory.
    os.makedirs("one/two")
    os.chdir("one/two")
    os.rename("../../one", "../../uno")
    make("here")
    os.chdir("../..")
    true(exists("uno/two/here"), "the working directory has moved along")
    same(False, exists("one"))


@check()
def directories():
    os.mkdir("d")
    same(2, os.stat("d").st_nlink)
    for i in range(5):
        os.mkdir(f"d/{i}")
    make("d/f")
    same(7, os.stat("d").st_nlink)
    fails(ENOTEMPTY, os.rmdir, "d")
    fails(ENOTEMPTY, os.rmdir, "d/0/..")
    fails(EINVAL, os.rmdir, "d/0/.")
    fails(ENOTDIR, os.rmdir, "d/f")
    fails(EISDIR, os.unlink, "d/0")
    fails(EEXIST, os.mkdir, "d")
    fails(EEXIST, os.mkdir, "d/f")
    fails(ENOTDIR, os.mkdir, "d/f/x")
    fails(ENOENT, os.mkdir, "e/x")
    fails(EISDIR, os.open, "d", os.O_WRONLY)
    fails(EISDIR, os.open, "d", os.O_CREAT | os.O_RDWR)
    fails(ENOTDIR, os.open, "d/f", os.O_DIRECTORY)
    # A removed one that is still somebody's: nothing can be made in it.
    os.mkdir("gone")
    here = os.open(".", os.O_RDONLY)
    os.chdir("gone")
    os.rmdir("../gone")
    fails((ENOENT, ESTALE), os.mkdir, "x")
    os.chdir(here)
    os.close(here)


@check()
def sticky():
    directory("all", 0o1777)
    for name in "a", "b", "e":
        make(f"all/{name}", owner=(1000, 1000))
        directory(f"all/{name}d", owner=(1000, 1000))
    directory("other", 0o777)
    for name in "a", "ad":
        remove = os.rmdir if name.endswith("d") else os.unlink
        fails((EPERM, EACCES), as_user, 1001, remove, f"all/{name}")
        fails((EPERM, EACCES), as_user, 1001, os.rename, f"all/{name}", "all/x")
        fails((EPERM, EACCES), as_user, 1001, os.rename, f"all/{name}", "other/x")
    # Over somebody else's name.
    as_user(1001, make, "all/mine")
    fails((EPERM, EACCES), as_user, 1001, os.rename, "all/mine", "all/a")
    as_user(1000, os.rename, "all/a", "all/a2")
    as_user(1000, os.rename, "all/ad", "other/ad")
    as_user(1000, os.unlink, "all/b")
    as_user(1000, os.rmdir, "all/bd")
    # The directory's owner, and root.
    os.chown("all", 1002, 1002)
    as_user(1002, os.unlink, "all/e")
    as_user(1002, os.rmdir, "all/ed")
    os.unlink("all/a2")
    os.unlink("all/mine")
    same([], os.listdir("all"))


@check()
def permission_in_directories():
    directory("d", 0o755, (1000, 1000))
    make("d/f", owner=(1001, 1001))
    directory("d/sub", 0o777, (1001, 1001))
    for refused in [
        lambda: os.unlink("d/f"),
        lambda: os.rename("d/f", "d/g"),
        lambda: os.rename("d/f", "f"),
        lambda: make("d/new"),
        lambda: os.mkdir("d/new"),
        lambda: os.symlink("x", "d/new"),
        lambda: os.mkfifo("d/new"),
        lambda: os.link("d/f", "d/new"),
        lambda: os.rmdir("d/sub"),
    ]:
        fails(EACCES, as_user, 1001, refused)
    as_user(1000, os.rename, "d/f", "d/g")
    # Another user's directory can't get another parent: its ".." would be written.
    os.chmod("d/sub", 0o755)
    as_user(1000, os.mkdir, "d/own")
    fails(EACCES, as_user, 1000, os.rename, "d/sub", "d/own/sub")
    as_user(1000, os.rename, "d/sub", "d/bus")
    as_user(1000, os.unlink, "d/g")
    # Searching and listing are two things.
    directory("x", 0o711)
    make("x/f", b"data")
    same(b"data", as_user(1000, content, "x/f"))
    fails(EACCES, as_user, 1000, os.listdir, "x")
    directory("r", 0o744)
    make("r/f")
    same(["f"], as_user(1000, os.listdir, "r"))
    fails(EACCES, as_user, 1000, os.stat, "r/f")
    fails(EACCES, as_user, 1000, os.open, "r/f", os.O_RDONLY)
    directory("w", 0o722)
    fails(EACCES, as_user, 1000, make, "w/f")


@check()
def setgid_directories():
    directory("d", 0o2777, (0, 1234))
    as_user(1000, make, "d/f")
    as_user(1000, os.mkdir, "d/sub", 0o755)
    as_user(1000, os.mkdir, "d/sub/deep", 0o700)
    as_user(1000, os.symlink, "x", "d/link")
    as_user(1000, os.mkfifo, "d/fifo")
    for name in "f", "sub", "sub/deep", "link", "fifo":
        same((1000, 1234), (os.lstat(f"d/{name}").st_uid, os.lstat(f"d/{name}").st_gid), name)
    same(("0o2755", "0o2700", "0o666"), (mode("d/sub"), mode("d/sub/deep"), mode("d/f")))
    # A program for a group that its maker is not in.
    as_user(1000, make, "d/program", b"", 0o2755)
    same("0o755", mode("d/program"))
    as_user(1000, make, "d/member", b"", 0o2755, groups=[1234])
    same("0o2755", mode("d/member"))
    directory("plain", 0o777, (0, 1234))
    as_user(1000, make, "plain/f", gid=1001)
    same(1001, os.stat("plain/f").st_gid)
    as_user(1000, os.chmod, "d/sub", 0o2775)  # of a group that the owner is not in
    as_user(1000, os.mkdir, "plain/sub", 0o2777)  # Linux leaves setgid out of mkdir()
    same("0o777", mode("plain/sub"))
