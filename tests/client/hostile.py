# SPDX-License-Identifier: LGPL-3.0-or-later
# A small NFSv3 client that sends what it likes. hostile.test runs it: hostile.py FOLDER,
# in which it and the test tell each other how far they are.
import os
import socket
import struct
import subprocess
import sys
import time

shared = sys.argv[1]
server = os.environ["SERVER_IP"]
STATUS = {0: "OK", 1: "PERM", 2: "NOENT", 5: "IO", 13: "ACCES", 17: "EXIST", 18: "XDEV",
          20: "NOTDIR", 21: "ISDIR", 22: "INVAL", 30: "ROFS", 63: "NAMETOOLONG", 66: "NOTEMPTY",
          70: "STALE", 10001: "BADHANDLE", 10006: "SERVERFAULT", 10008: "JUKEBOX"}
NFS, MOUNT = 100003, 100005


def opaque(data):
    return struct.pack(">I", len(data)) + data + b"\0" * (-len(data) % 4)


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection((server, port), timeout=60)
        self.xid = 1000

    def receive(self, length):
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            assert part, "the server closed the connection"
            data += part
        return data

    # The results after the RPC header; every call here is answered by the program.
    def call(self, program, procedure, args, uid=0):
        self.xid += 1
        cred = struct.pack(">I", 0) + opaque(b"test") + struct.pack(">III", uid, uid, 0)
        message = struct.pack(">IIIIII", self.xid, 0, 2, program, 3, procedure)
        message += struct.pack(">I", 1) + opaque(cred) + struct.pack(">II", 0, 0) + args
        self.socket.sendall(struct.pack(">I", 0x80000000 | len(message)) + message)
        length = struct.unpack(">I", self.receive(4))[0] & 0x7fffffff
        reply = self.receive(length)
        assert struct.unpack(">IIIIII", reply[:24]) == (self.xid, 1, 0, 0, 0, 0), reply[:24]
        return reply[24:]


def mount_port():
    for line in subprocess.check_output(["rpcinfo", "-p", server], text=True).splitlines():
        fields = line.split()
        if fields[:3] == [str(MOUNT), "3", "tcp"]:
            return int(fields[3])
    raise AssertionError("no MOUNT service")


mounts, nfs = Client(mount_port()), Client(2049)


def status(reply):
    number = struct.unpack(">I", reply[:4])[0]
    return STATUS.get(number, str(number))


def handle_in(reply):
    length = struct.unpack(">I", reply[4:8])[0]
    return reply[8:8 + length]


def mount(path):
    reply = mounts.call(MOUNT, 1, opaque(path.encode()))
    assert status(reply) == "OK", (path, status(reply))
    return handle_in(reply)


def getattr_(fh):
    return status(nfs.call(NFS, 1, opaque(fh)))


def attributes(fh):
    reply = nfs.call(NFS, 1, opaque(fh))
    assert status(reply) == "OK", status(reply)
    fields = struct.unpack(">IIIIIQQQQQ", reply[4:64])
    return {"size": fields[5], "fsid": fields[8], "fileid": fields[9]}


def lookup(fh, name):
    reply = nfs.call(NFS, 3, opaque(fh) + opaque(name))
    return handle_in(reply) if status(reply) == "OK" else status(reply)


UNCHECKED, GUARDED = 0, 1
NOTHING = struct.pack(">IIIIII", 0, 0, 0, 0, 0, 0)
TRUNCATE = struct.pack(">IIIIQII", 0, 0, 0, 1, 0, 0, 0)


def create(fh, name, how=UNCHECKED, uid=0, attrs=NOTHING):
    args = opaque(fh) + opaque(name) + struct.pack(">I", how) + attrs
    return status(nfs.call(NFS, 8, args, uid))


def create_exclusive(fh, name, verifier):
    args = opaque(fh) + opaque(name) + struct.pack(">I", 2) + verifier
    return status(nfs.call(NFS, 8, args))


def two(procedure, fh, name, fh2, name2):
    return status(nfs.call(NFS, procedure, opaque(fh) + opaque(name) + opaque(fh2) + opaque(name2)))


def mkdir(fh, name):
    reply = nfs.call(NFS, 9, opaque(fh) + opaque(name) + NOTHING)
    assert status(reply) == "OK", status(reply)
    return lookup(fh, name)


def remove(fh, name):
    return status(nfs.call(NFS, 12, opaque(fh) + opaque(name)))


def rmdir(fh, name):
    return status(nfs.call(NFS, 13, opaque(fh) + opaque(name)))


def rename(fh, name, fh2, name2):
    return two(14, fh, name, fh2, name2)


def link(fh, directory, name):
    return status(nfs.call(NFS, 15, opaque(fh) + opaque(directory) + opaque(name)))


def write(fh, data, stable=2):
    return status(nfs.call(NFS, 7, opaque(fh) + struct.pack(">QII", 0, len(data), stable) +
                           opaque(data)))


def read(fh, offset, count):
    reply = nfs.call(NFS, 6, opaque(fh) + struct.pack(">QI", offset, count))
    assert status(reply) == "OK", status(reply)
    at = 8 + (84 if struct.unpack(">I", reply[4:8])[0] else 0)
    count, eof, length = struct.unpack(">III", reply[at:at + 12])
    assert count == length
    return reply[at + 12:at + 12 + length], bool(eof)


def fsstat(fh):
    return status(nfs.call(NFS, 18, opaque(fh)))


def same(expected, *actual):
    for value in actual:
        assert value == expected, f"expected {expected}, got {value}"


def ask(question, answer):
    open(os.path.join(shared, question), "w").close()
    end = time.monotonic() + 120
    while not os.path.exists(os.path.join(shared, answer)):
        assert time.monotonic() < end, f"no {answer}"
        time.sleep(0.05)


def eventually(expected, function, *args):
    end = time.monotonic() + 60
    while (value := function(*args)) != expected:
        assert time.monotonic() < end, f"expected {expected}, got {value}"
        time.sleep(0.1)


# ---- forged handles ----

root, everything = mount("/tarn"), mount("/all")
same("OK", getattr_(root), getattr_(everything))
start = 5  # what is before is ganesha's
ours = root[start:]
same(b"", ours[40:].strip(b"\0"))


def forged(at, data, handle=root):
    return handle[:start + at] + data + handle[start + at + len(data):]


for bad in (forged(0, b"\2"), forged(1, b"\0"), forged(1, b"\x63"), forged(4, b"\1"),
            forged(24, bytes(8)), forged(1, b"\2")):
    same("BADHANDLE", getattr_(bad))
for gone in (forged(24, b"\xff\xff\xff\x7f\0\0\0\0"), forged(32, b"\x7f" * 8),
             forged(16, b"\x7f" * 8), forged(8, b"\x7f" * 8),
             forged(1, b"\2" + bytes(38)), forged(1, b"\3" + bytes(38))):
    same("STALE", getattr_(gone))
for length in range(len(root)):
    assert getattr_(root[:length]) in ("BADHANDLE", "STALE"), length

# ---- datasets ----

a = lookup(root, b"a")
b = lookup(a, b"b")
all_tarn = lookup(everything, b"tarn")
same(ours[:40], all_tarn[start:start + 40])
fsids = [attributes(fh)["fsid"] for fh in (everything, root, a, b)]
same(4, len(set(fsids)))
same(a, lookup(b, b".."))
same(root, lookup(a, b".."))
same(root, lookup(root, b".."))
same(everything, lookup(all_tarn, b".."))
same("NOTEMPTY", rmdir(root, b"a"), rename(root, b"a", root, b"z"))
same("OK", create(root, b"f"))
f = lookup(root, b"f")
same("XDEV", rename(root, b"f", a, b"f"), link(f, a, b"f"))
assert rename(root, b"f", root, b"a") != "OK"
same("ROFS", create(everything, b"f"))
same("NOTEMPTY", rmdir(everything, b"tarn"))
same("OK", fsstat(everything), fsstat(root), fsstat(b))

# ---- names ----

for name, expected in ((b"x/y", "INVAL"), (b"", "INVAL"), (b"x" * 256, "NAMETOOLONG"),
                       (b"\xff\xfe", "NOENT"), (b"none", "NOENT")):
    same(expected, lookup(root, name))
for name, expected in ((b"x/y", "INVAL"), (b"", "INVAL"), (b"x" * 256, "NAMETOOLONG"),
                       (b"y" * 255, "OK"), (b"\xff\xfe", "OK")):
    same(expected, create(root, name))
for name in (b".", b".."):
    assert create(root, name) != "OK"
    assert remove(root, name) != "OK"
    assert rename(root, b"f", root, name) != "OK"
same("INVAL", remove(root, b"x/y"), rename(root, b"f", root, b"x/y"), link(f, root, b"x/y"))
same("OK", remove(root, b"\xff\xfe"))

# ---- create ----

same("ACCES", create(root, b"not-mine", UNCHECKED, 1000))
same("EXIST", create(root, b"f", GUARDED))
same("OK", create_exclusive(root, b"x", b"12345678"))
same("OK", create_exclusive(root, b"x", b"12345678"))
same("EXIST", create_exclusive(root, b"x", b"12345679"))
x = lookup(root, b"x")
same("OK", write(x, b"hello"))
# Emptying a file by CREATE needs permission to write, and happens before the core checks it.
assert create(root, b"x", UNCHECKED, 1000, TRUNCATE) != "OK"
same((b"hello", True), read(x, 0, 100))
same((b"hell", False), read(x, 0, 4))
same((b"", True), read(x, 5, 100), read(x, 1 << 60, 100))
same("OK", create(root, b"x", UNCHECKED, 0, TRUNCATE))
same(0, attributes(x)["size"])

# ---- a pool that comes, goes and comes again ----

late = mount("/late")
same("JUKEBOX", getattr_(late), fsstat(late), lookup(late, b"b"))
same("STALE", getattr_(forged(0, late[start:])))  # another export's root
ask("wants-late", "has-late")
eventually("OK", getattr_, late)
late_b = lookup(late, b"b")
same(late, lookup(late_b, b".."))
same(late, lookup(late, b".."))
eventually(True, lambda: not isinstance(lookup(everything, b"late"), str))
all_late = lookup(everything, b"late")
all_late_a = lookup(all_late, b"a")
for attribute in ("fsid", "fileid"):
    same(attributes(all_late_a)[attribute], attributes(late)[attribute])
# The same directory by its own handle; what is above it or in another pool is refused.
same("OK", getattr_(forged(0, all_late_a[start:], late)))
same("STALE", getattr_(forged(0, all_late[start:], late)), getattr_(forged(0, root[start:], late)))
same("STALE", getattr_(forged(0, late_b[start:])))
# An export of a directory, which comes when it is made. Directories above or beside are
# refused, because they lead out of it.
sub = mount("/dir")
same("NOENT", getattr_(sub))
below = mkdir(mkdir(late_b, b"dir"), b"below")
beside = mkdir(late_b, b"beside")
eventually("OK", getattr_, sub)
same(sub, lookup(lookup(sub, b"below"), b".."))
same("OK", getattr_(forged(0, below[start:], sub)))
same("STALE", getattr_(forged(0, beside[start:], sub)), getattr_(forged(0, late_b[start:], sub)),
     getattr_(forged(0, late[start:], sub)))
same("OK", create(late, b"kept"))
kept = lookup(late, b"kept")
same("OK", write(kept, b"content"))
ask("wants-absence", "absent")
same("JUKEBOX", write(kept, b"later"), fsstat(late), create(late, b"later"))
eventually("NOENT", lookup, everything, b"late")
ask("wants-return", "returned")
same((b"content", True), read(kept, 0, 100))
same("OK", write(kept, b"after"), create(late, b"after"))
same((b"afternt", True), read(kept, 0, 100))
print("hostile.py: all as it should be")
