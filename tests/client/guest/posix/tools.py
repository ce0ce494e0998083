# SPDX-License-Identifier: LGPL-3.0-or-later
"""What copying programs do: cp, mv, tar, rsync, into the pool, in it and out of it."""
import os
import stat
import subprocess

from harness import *


def tool(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode or done.stderr:
        fault(f"{' '.join(words)}: status {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def tree(path, xattrs):
    """All that a copy should keep."""
    out, numbers = {}, {}
    for folder, dirs, files in os.walk(path):
        for name in dirs + files + ["."]:
            full = os.path.join(folder, name)
            st = os.lstat(full)
            if stat.S_ISREG(st.st_mode):
                data = content(full)
            elif stat.S_ISLNK(st.st_mode):
                data = os.readlink(full)
            else:
                data = None
            named = ()
            if xattrs and not stat.S_ISLNK(st.st_mode):
                named = tuple((n, os.getxattr(full, n)) for n in sorted(user_names(full)))
            links = 0 if stat.S_ISDIR(st.st_mode) else st.st_nlink
            key = os.path.relpath(full, path)
            first = numbers.setdefault(st.st_ino, key) if links > 1 else key
            out[key] = (oct(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns, st.st_rdev, links,
                        data, named, first)
    return out


def build(path, xattrs):
    os.makedirs(f"{path}/d/empty")
    make(f"{path}/d/f", b"data" * 3000, 0o4755, (1000, 1001))
    make(f"{path}/d/none", b"", 0o000, (4_000_000_000, 4_000_000_000))
    os.link(f"{path}/d/f", f"{path}/hard")
    os.symlink("d/f", f"{path}/link")
    os.symlink("nowhere", f"{path}/dangling")
    os.chown(f"{path}/link", 7, 8, follow_symlinks=False)
    os.mkfifo(f"{path}/fifo", 0o620)
    os.mknod(f"{path}/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    with open(f"{path}/sparse", "wb") as stream:
        stream.seek(2 << 20)
        stream.write(b"end")
        stream.truncate(3 << 20)
    if xattrs:
        os.setxattr(f"{path}/d/f", "user.big", b"v" * 5000)
        os.setxattr(f"{path}/d", "user.dir", b"\0\xff")
    for name in "d/f", "link", "fifo", "d/empty", "sparse", "d", "":
        os.utime(f"{path}/{name}", ns=(10**18 + 1, 1_111_111_111_222_333_444), follow_symlinks=False)
    os.chmod(f"{path}/d", 0o2775)
    os.chmod(f"{path}/d/empty", 0o1777)
    os.chmod(f"{path}", 0o750)
    os.utime(path, ns=(10**18, 10**18 + 123))


@check()
def copies():
    away = f"/tmp/copies-{vers}"
    xattrs = vers == "4.2"
    os.mkdir(away)
    build(f"{away}/src", False)
    build("src", xattrs)
    for name, source, named in ("in", f"{away}/src", False), ("within", "src", xattrs):
        want = tree(source, named)
        tool("cp", "-a", source, f"cp-{name}")
        # Times in the same second count as equal to rsync, unless told.
        tool("rsync", "-aHX" if named else "-aHAX", "--sparse", "--modify-window=-1",
             f"{source}/", f"rsync-{name}")
        tool("tar", "--xattrs", "-cpf", f"{away}/tar", "-C", source, ".")
        os.mkdir(f"tar-{name}")
        tool("tar", "--xattrs", "--xattrs-include=user.*", "-xpf", f"{away}/tar", "-C", f"tar-{name}")
        for by in "cp", "rsync", "tar":
            refresh()
            compare(want, tree(f"{by}-{name}", named), f"{by}-{name}")
        for by in "cp", "rsync":
            blocks = os.stat(f"{by}-{name}/sparse").st_blocks
            true(blocks * 512 <= 1 << 20, f"{by}-{name}: sparse takes {blocks} blocks")
    # Out again, and moved over file systems both ways.
    want = tree("src", False)
    tool("mv", "rsync-within", f"{away}/moved")
    compare(want, tree(f"{away}/moved", False), "moved out")
    tool("mv", f"{away}/moved", "back")
    compare(want, tree("back", False), "moved back")
    true(not exists("rsync-within"), "moved")
    for i, path in enumerate(["src/d/f", f"{away}/src/d/f"]):
        tool("cp", "-p", path, f"p{i}")
        a, b = os.stat(path), os.stat(f"p{i}")
        same((a.st_mode, a.st_uid, a.st_mtime_ns), (b.st_mode, b.st_uid, b.st_mtime_ns), path)


def compare(want, have, what):
    for key in sorted(set(want) | set(have)):
        if want.get(key) != have.get(key):
            fault(f"{what}: {key}: {str(want.get(key))[:300]} became {str(have.get(key))[:300]}")
