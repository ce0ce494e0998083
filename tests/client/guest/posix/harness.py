# SPDX-License-Identifier: LGPL-3.0-or-later
"""Checks of POSIX behaviour: functions that note what is wrong and go on, so that one boot of a
client shows everything. Each runs in an empty folder of its own that all users may write in."""
import ctypes
import errno
import os
import sys
import traceback

checks = []  # (function, versions)
faults = []
vers = sys.argv[1]  # of NFS
libc = ctypes.CDLL(None, use_errno=True)
NOW, OMIT = (1 << 30) - 1, (1 << 30) - 2  # in the place of nanoseconds


def check(*versions):
    """Marks a check, for these versions of NFS (none: all)."""

    def mark(function):
        checks.append((function, versions))
        return function

    return mark


def where():
    frame = sys._getframe(2)
    while frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def fault(text):
    faults.append(f"{where()}: {text}")


def same(expected, actual, what=""):
    if expected != actual:
        fault(f"{what}: expected {expected!r}, got {actual!r}")


def true(condition, what):
    if not condition:
        fault(f"not so: {what}")


def name_of(number):
    return errno.errorcode.get(number, str(number))


def fails(expected, function, *args, **kwargs):
    """function fails with this error, or one of these."""
    allowed = expected if isinstance(expected, tuple) else (expected,)
    wanted = "/".join(name_of(e) for e in allowed)
    try:
        function(*args, **kwargs)
    except OSError as e:
        if e.errno not in allowed:
            fault(f"expected {wanted}, got {name_of(e.errno)}")
    else:
        fault(f"expected {wanted}, but it succeeded")


def as_user(uid, function, *args, groups=(), gid=None, umask=0, **kwargs):
    """Calls function with a user's rights. (A process of its own would take long to start.)"""
    before = os.umask(umask)
    os.setgroups(list(groups))
    os.setegid(uid if gid is None else gid)
    os.seteuid(uid)  # takes the capabilities away, and the return gives them back
    try:
        return function(*args, **kwargs)
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups([])
        os.umask(before)


def make(path, data=b"", mode=0o666, owner=None):
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    with open(fd, "wb") as stream:
        stream.write(data)
    if owner is not None:
        os.chown(path, *owner)
        os.chmod(path, mode)


def directory(path, mode=0o777, owner=None):
    os.mkdir(path, mode)
    if owner is not None:
        os.chown(path, *owner)
    os.chmod(path, mode)


def content(path):
    with open(path, "rb") as stream:
        return stream.read()


def mode(path):
    return oct(os.lstat(path).st_mode & 0o7777)


def exists(path):
    return os.path.lexists(path)


def call(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def utimensat(path, atime, mtime, follow=True):
    """Times are (seconds, nanoseconds)."""
    values = (ctypes.c_long * 4)(*atime, *mtime)
    call(libc.utimensat(-100, path.encode(), values, 0 if follow else 0x100))


def fallocate(file, how, offset, length):
    """file: a path or a descriptor."""
    fd = file if isinstance(file, int) else os.open(file, os.O_WRONLY)
    try:
        call(libc.fallocate(fd, how, ctypes.c_long(offset), ctypes.c_long(length)))
    finally:
        if fd != file:
            os.close(fd)


def user_names(path):
    """Of its extended attributes."""
    return {n for n in os.listxattr(path, follow_symlinks=False) if n.startswith("user.")}


def refresh():
    """Forgets what the client has cached and nobody holds."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as stream:
        stream.write("3")


def guarded(function, *args):
    """What it raises is one more fault."""
    try:
        function(*args)
    except BaseException:
        faults.append(f"{function.__name__}: {traceback.format_exc()}")


def run_checks(root):
    """Runs them in root."""
    os.umask(0)
    for function, versions in checks:
        if versions and vers not in versions:
            continue
        folder = os.path.join(root, function.__name__)
        directory(folder)
        os.chdir(folder)
        guarded(function)
        os.chdir("/")


def report():
    """Prints the faults; an exit status."""
    for text in faults:
        print(f"FAULT (vers={vers}) {text}")
    return 1 if faults else 0
