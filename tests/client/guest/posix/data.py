# SPDX-License-Identifier: LGPL-3.0-or-later
"""Data: opens, sizes, holes, mapped and unlinked files."""
import mmap
import os
import signal
import time
from errno import *

from harness import *

KIB, MIB = 1 << 10, 1 << 20
KEEP_SIZE, PUNCH_HOLE = 1, 2


@check()
def opens():
    make("f", b"12345")
    # Within one tick of its clock the client gives both creates of a thread the same verifier,
    # which makes the second a repetition of the first.
    time.sleep(0.05)
    fails(EEXIST, os.open, "f", os.O_CREAT | os.O_EXCL)
    fails(ENOENT, os.open, "g", os.O_RDWR)
    fails(EOPNOTSUPP, os.open, ".", os.O_TMPFILE | os.O_RDWR)
    fd = os.open("f", os.O_WRONLY | os.O_TRUNC)
    same(0, os.fstat(fd).st_size)
    os.close(fd)
    # A file that its maker may not open again.
    for flags in os.O_CREAT | os.O_RDWR, os.O_CREAT | os.O_EXCL | os.O_RDWR:

        def own(name):
            fd = os.open(name, flags, 0)
            os.write(fd, b"data")
            os.fsync(fd)
            os.ftruncate(fd, 2)
            same(b"da", os.pread(fd, 10, 0))
            os.close(fd)
            fails(EACCES, os.open, name, os.O_RDONLY)

        as_user(1000, own, f"locked{flags}")
        same(("0o0", 2), (mode(f"locked{flags}"), os.stat(f"locked{flags}").st_size))

    # Rights are taken at the open.
    def early():
        fd = os.open("mine", os.O_CREAT | os.O_RDWR, 0o600)
        os.write(fd, b"one")
        os.chmod("mine", 0)
        os.write(fd, b"two")
        os.fsync(fd)
        same(b"onetwo", os.pread(fd, 10, 0))
        os.ftruncate(fd, 1)
        os.close(fd)

    as_user(1000, early)
    same(b"o", content("mine"))


@check()
def appends():
    a = os.open("f", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    b = os.open("f", os.O_WRONLY | os.O_APPEND)
    expected = b""
    for i in range(20):
        piece = bytes([65 + i]) * (i * 37 + 1)
        os.write(a if i % 2 else b, piece)
        expected += piece
    os.close(a)
    os.close(b)
    same(expected, content("f"))
    fd = os.open("f", os.O_RDWR | os.O_APPEND)
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, b"end")
    os.close(fd)
    same(expected + b"end", content("f"))


@check()
def sizes():
    make("f", b"x" * 10000)
    os.truncate("f", 5000)
    os.truncate("f", 20000)
    same(b"x" * 5000 + bytes(15000), content("f"))
    os.truncate("f", 0)
    os.truncate("f", 100)
    same(bytes(100), content("f"))
    fails(EINVAL, os.truncate, "f", -1)
    fails(EISDIR, os.truncate, ".", 0)
    # To the largest.
    fd = os.open("big", os.O_CREAT | os.O_RDWR)
    end = 2**62
    for size in 2**31, 2**32 + 1, 2**53 + 1, 2**61 + 5, end:
        os.ftruncate(fd, size)
        same(size, os.fstat(fd).st_size)
        os.pwrite(fd, b"end", size - 3)
        os.fsync(fd)
        refresh()
        same((size, b"\0end"), (os.fstat(fd).st_size, os.pread(fd, 10, size - 4)))
    fails(EFBIG, os.pwrite, fd, b"x", end)
    fails(EFBIG, os.ftruncate, fd, end + 1)
    same(b"\0end\0", os.pread(fd, 5, 2**53 - 3))
    true(os.fstat(fd).st_blocks * 512 < 2 * MIB, f"{os.fstat(fd).st_blocks} blocks")
    os.ftruncate(fd, 2**32)
    os.ftruncate(fd, end)
    same(bytes(5), os.pread(fd, 5, 2**53 - 3))
    same(b"\0end\0", os.pread(fd, 5, 2**31 - 4))
    os.ftruncate(fd, 1)
    os.close(fd)
    same(bytes(1), content("big"))


@check()
def mapped():
    page = mmap.PAGESIZE
    fd = os.open("f", os.O_CREAT | os.O_RDWR)
    os.write(fd, b"x" * 3 * page)
    m = mmap.mmap(fd, 3 * page)
    same(b"xx", m[page : page + 2])
    os.ftruncate(fd, page + 10)
    same(b"x" * 10 + bytes(10), m[page : page + 20])

    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGBUS, signal.SIG_DFL)
        m[2 * page]
        os._exit(0)
    same(signal.SIGBUS, os.WTERMSIG(os.waitpid(pid, 0)[1]), "beyond the end")
    os.ftruncate(fd, 3 * page)
    same(bytes(20), m[2 * page : 2 * page + 20])
    same(b"x" * 10 + bytes(10), m[page : page + 20])
    m[0:5] = b"write"
    m[2 * page : 2 * page + 3] = b"two"
    m.flush()
    refresh()
    data = content("f")
    same((b"writex", b"two\0"), (data[:6], data[2 * page : 2 * page + 4]))
    # A mapping outlives name and descriptor.
    os.unlink("f")
    os.close(fd)
    same(b"write", m[0:5])
    m.close()


@check()
def unlinked():
    make("f", b"old")
    a = os.open("f", os.O_RDWR)
    b = os.open("f", os.O_RDONLY)
    os.unlink("f")
    fails(ENOENT, os.stat, "f")
    os.write(a, b"new and longer")
    os.fsync(a)
    same(b"new and longer", os.pread(b, 100, 0))
    os.ftruncate(a, 3)
    os.fchmod(a, 0o600)
    same(1, os.fstat(a).st_nlink, "the client keeps a name")
    same((3, 0o600), (os.fstat(b).st_size, os.fstat(b).st_mode & 0o777))
    make("f", b"another")
    os.close(a)
    same(b"new", os.pread(b, 100, 0))
    os.close(b)
    settles(["f"])
    # Replaced by a rename while open.
    fd = os.open("f", os.O_RDONLY)
    make("g", b"third")
    os.rename("g", "f")
    same((b"another", b"third"), (os.read(fd, 100), content("f")))
    os.close(fd)
    settles(["f"])


def settles(names):
    """The client removes its .nfs files at the last close, but does not wait for it."""
    end = time.monotonic() + 60
    while os.listdir(".") != names and time.monotonic() < end:
        time.sleep(0.05)
    same(names, os.listdir("."))


@check()
def sparse():
    """SEEK_DATA and SEEK_HOLE never say "hole" where data is, written out or not."""
    at = [5 * KIB, 300 * KIB, 300 * KIB + 10, 3 * MIB, 7 * MIB + 1]
    fd = os.open("f", os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, 9 * MIB)
    for i, offset in enumerate(at):
        os.pwrite(fd, b"data" * (i + 1), offset)
        covers(fd, at[: i + 1])
    os.fsync(fd)
    covers(fd, at)
    fails(ENXIO, os.lseek, fd, 9 * MIB, os.SEEK_DATA)
    fails(ENXIO, os.lseek, fd, 9 * MIB, os.SEEK_HOLE)
    if vers == "4.2":
        hole = os.lseek(fd, 4 * MIB, os.SEEK_HOLE)
        same(4 * MIB, hole)
        same(True, 6 * MIB < os.lseek(fd, hole, os.SEEK_DATA) <= 7 * MIB + 1)
        fails(ENXIO, os.lseek, fd, 8 * MIB, os.SEEK_DATA)
    os.close(fd)


def covers(fd, offsets):
    """All these offsets lie in what SEEK_DATA and SEEK_HOLE call data."""
    size, end, left = os.fstat(fd).st_size, 0, list(offsets)
    while True:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
        except OSError as e:
            same(ENXIO, e.errno)
            break
        end = os.lseek(fd, start, os.SEEK_HOLE)
        true(end > start, "data has a length")
        left = [o for o in left if not start <= o < end]
        if end == size:
            break
    same([], left, "data that was called a hole")


@check("4.2")
def allocation():
    data = os.urandom(4 * MIB)
    make("f", data)
    fd = os.open("f", os.O_RDWR)
    same(4 * MIB, os.fstat(fd).st_size)
    # Punched at odd places, while the data may still be the client's alone.
    for start, length in (0, 10), (100 * KIB + 1, 777), (MIB, MIB), (3 * MIB - 5, 200 * KIB + 10):
        before = os.fstat(fd)
        fallocate(fd, PUNCH_HOLE | KEEP_SIZE, start, length)
        data = data[:start] + bytes(length) + data[start + length :]
        true(os.fstat(fd).st_mtime_ns > before.st_mtime_ns, "mtime")
    true(content("f") == data, "holes read as zeros, all else is as it was")
    refresh()
    true(content("f") == data, "also from the server")
    os.fsync(fd)
    same(True, os.lseek(fd, MIB, os.SEEK_DATA) >= 2 * MIB, "a hole where one was punched")
    true(os.fstat(fd).st_blocks * 512 < 3.3 * MIB, f"{os.fstat(fd).st_blocks} blocks")
    # Beyond the end: nothing, and the size stays.
    fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 4 * MIB - 4096, MIB)
    fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 8 * MIB, MIB)
    same(4 * MIB, os.fstat(fd).st_size)
    data = data[:-4096] + bytes(4096)
    true(content("f") == data, "over the end")
    # Allocated: the size grows, the content stays.
    fallocate(fd, 0, 0, 2 * MIB)
    same(4 * MIB, os.fstat(fd).st_size)
    fallocate(fd, 0, 3 * MIB, 2 * MIB + 1)
    same(5 * MIB + 1, os.fstat(fd).st_size)
    refresh()
    true(content("f") == data + bytes(MIB + 1), "zeros are added")
    fails(EOPNOTSUPP, fallocate, fd, KEEP_SIZE, 0, 8 * MIB)
    fails(EINVAL, fallocate, fd, 0, 0, 0)
    fails((EFBIG, EINVAL), fallocate, fd, 0, 2**62, 2**62)
    fails(ENOSPC, fallocate, fd, 0, 0, 2**50)
    same(5 * MIB + 1, os.fstat(fd).st_size)
    ro = os.open("f", os.O_RDONLY)
    fails(EBADF, fallocate, ro, 0, 0, 1)
    os.close(ro)
    os.close(fd)


@check("3", "4.0", "4.1")
def no_allocation():
    make("f")
    fd = os.open("f", os.O_RDWR)
    fails(EOPNOTSUPP, fallocate, fd, 0, 0, 10)
    fails(EOPNOTSUPP, fallocate, fd, PUNCH_HOLE | KEEP_SIZE, 0, 10)
    os.posix_fallocate(fd, 0, 5000)  # the C library writes zeros instead
    os.close(fd)
    same(bytes(5000), content("f"))


@check()
def copies_in_the_kernel():
    data = os.urandom(300 * KIB)
    make("f", data)
    src, dst = os.open("f", os.O_RDONLY), os.open("g", os.O_CREAT | os.O_RDWR)
    done = 0
    while done < len(data):
        done += os.copy_file_range(src, dst, len(data) - done)
    os.close(src)
    os.close(dst)
    true(content("g") == data, "copy_file_range")
