# SPDX-License-Identifier: LGPL-3.0-or-later
"""NFSv4.1 and 4.2 as they are on the wire (RFC 8881, 7862, 8276), for what kernels never send.

A Client has one session with one slot, on one connection. run() sends the operations of one
COMPOUND and gives the result of each; the first one that is refused raises Nfs4Error.
"""
import collections
import os
import struct

import nfs3
from nfs3 import NFS, Reply, opaque, u32, u64

(ACCESS, CLOSE, COMMIT, CREATE, GETATTR, GETFH, LINK, LOOKUP, LOOKUPP, NVERIFY, OPEN, PUTFH,
 PUTROOTFH, READ, READDIR, READLINK, REMOVE, RENAME, RESTOREFH, SAVEFH, SETATTR, VERIFY, WRITE,
 EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION, SEQUENCE, RECLAIM_COMPLETE, ALLOCATE, COPY,
 DEALLOCATE, READ_PLUS, SEEK, CLONE, GETXATTR, SETXATTR, LISTXATTR, REMOVEXATTR) = (
    3, 4, 5, 6, 9, 10, 11, 15, 16, 17, 18, 22,
    24, 25, 26, 27, 28, 29, 31, 32, 34, 37, 38,
    42, 43, 44, 53, 58, 59, 60,
    62, 68, 69, 71, 72, 73, 74, 75)
SAME, SYMLINK_FOUND, NOT_SAME, OP_ILLEGAL, BAD_STATEID = 10009, 10029, 10027, 10044, 10025
SHARE_DENIED, LOCKED = 10015, 10012
GRACE, ATTRNOTSUPP, UNION_NOTSUPP, NOXATTR, XATTR2BIG = 10013, 10032, 10090, 10095, 10096
UNCHECKED, GUARDED, EXCLUSIVE4, EXCLUSIVE4_1 = range(4)
READ_ACCESS, WRITE_ACCESS, BOTH_ACCESS = 1, 2, 3  # and to deny
ANONYMOUS = bytes(16)

Change = collections.namedtuple("Change", "atomic before after")
Opened = collections.namedtuple("Opened", "stateid change attrset")


class Nfs4Error(nfs3.NfsError):
    def __init__(self, status, at):
        super().__init__(status)
        self.at = at  # which operation it was, SEQUENCE not counted


def bitmap(bits):
    words = [0] * (max(bits, default=-1) // 32 + 1)
    for bit in bits:
        words[bit // 32] |= 1 << bit % 32
    return u32(len(words)) + b"".join(map(u32, words))


def bits_in(reply):
    words = [reply.u32() for _ in range(reply.u32())]
    return {32 * i + bit for i, word in enumerate(words) for bit in range(32) if word >> bit & 1}


def time_in(reply):
    seconds, nanoseconds = struct.unpack(">qI", reply.fixed(12))
    return seconds * 1_000_000_000 + nanoseconds


# Attributes by name: number, code, decode.
ATTRS = {
    "supported": (0, None, bits_in),
    "type": (1, None, Reply.u32),
    "change": (3, u64, Reply.u64),
    "size": (4, u64, Reply.u64),
    "fsid": (8, None, lambda r: (r.u64(), r.u64())),
    "acl": (12, None, lambda r: [(r.u32(), r.u32(), r.u32(), r.opaque())
                                 for _ in range(r.u32())]),
    "filehandle": (19, None, Reply.opaque),
    "fileid": (20, None, Reply.u64),
    "maxfilesize": (27, None, Reply.u64),
    "maxlink": (28, None, Reply.u32),
    "maxname": (29, None, Reply.u32),
    "mode": (33, u32, Reply.u32),
    "nlink": (35, None, Reply.u32),
    "owner": (36, opaque, Reply.opaque),
    "group": (37, opaque, Reply.opaque),
    "rawdev": (41, None, lambda r: (r.u32(), r.u32())),
    "used": (45, None, Reply.u64),
    "atime": (47, None, time_in),
    "create_time": (50, None, time_in),
    "ctime": (52, None, time_in),
    "mtime": (53, None, time_in),
    "mounted_on": (55, None, Reply.u64),
    "exclusive_settable": (75, None, bits_in),
    "xattr_support": (82, None, Reply.u32),
}
BY_NUMBER = {number: (name, decode) for name, (number, _, decode) in ATTRS.items()}


def fattr(**values):
    ordered = sorted(values, key=lambda name: ATTRS[name][0])
    return (bitmap([ATTRS[name][0] for name in ordered]) +
            opaque(b"".join(ATTRS[name][1](values[name]) for name in ordered)))


def fattr_in(reply):
    numbers = sorted(bits_in(reply))
    values, found = Reply(reply.opaque()), {}
    for number in numbers:
        name, decode = BY_NUMBER[number]
        found[name] = decode(values)
    assert values.at == len(values.data), "more attributes than bits"
    return found


def change_in(reply):
    return Change(bool(reply.u32()), reply.u64(), reply.u64())


# ---- operations: (number, arguments, what decodes the result) ----

def plain(number, args=b"", decode=lambda reply: None):
    return number, args, decode


def putfh(handle):
    return plain(PUTFH, opaque(handle))


def getfh():
    return plain(GETFH, decode=Reply.opaque)


def lookup(name):
    return plain(LOOKUP, opaque(name))


def getattr_(*names):
    return plain(GETATTR, bitmap([ATTRS[name][0] for name in names]), fattr_in)


def readdir(*names, cookie=0, maxcount=65536):
    """({name: attributes}, last cookie, whether it is the end)"""
    def entries(reply):
        found, last = {}, cookie
        reply.fixed(8)
        while reply.u32():
            last, name = reply.u64(), reply.opaque()
            found[name] = fattr_in(reply)
        return found, last, bool(reply.u32())
    return plain(READDIR, u64(cookie) + bytes(8) + u32(maxcount) * 2 +
                 bitmap([ATTRS[name][0] for name in names]), entries)


def setattr_(stateid=ANONYMOUS, **values):
    # Its result has the bitmap also when it fails.
    return plain(SETATTR, stateid + fattr(**values), bits_in)


def remove(name):
    return plain(REMOVE, opaque(name), change_in)


def rename(name, to):
    return plain(RENAME, opaque(name) + opaque(to), lambda r: (change_in(r), change_in(r)))


def link(name):
    return plain(LINK, opaque(name), change_in)


def mkdir(name, mode=0o755):
    return plain(CREATE, u32(2) + opaque(name) + fattr(mode=mode),
                 lambda r: (change_in(r), bits_in(r)))


def read(offset, count, stateid=ANONYMOUS):
    return plain(READ, stateid + u64(offset) + u32(count),
                 lambda r: (bool(r.u32()), r.opaque()))


def write(offset, data, stateid=ANONYMOUS, stable=nfs3.UNSTABLE):
    return plain(WRITE, stateid + u64(offset) + u32(stable) + opaque(data),
                 lambda r: (r.u32(), r.u32(), r.fixed(8)))


def commit():
    return plain(COMMIT, u64(0) + u32(0), lambda r: r.fixed(8))


def close(stateid):
    return plain(CLOSE, u32(0) + stateid, lambda r: r.fixed(16))


def allocate(stateid, offset, length):
    return plain(ALLOCATE, stateid + u64(offset) + u64(length))


def deallocate(stateid, offset, length):
    return plain(DEALLOCATE, stateid + u64(offset) + u64(length))


def seek(stateid, offset, hole):
    return plain(SEEK, stateid + u64(offset) + u32(int(hole)),
                 lambda r: (bool(r.u32()), r.u64()))


def getxattr(name):
    return plain(GETXATTR, opaque(name), Reply.opaque)


def setxattr(name, value, how=0):
    return plain(SETXATTR, u32(how) + opaque(name) + opaque(value), change_in)


def removexattr(name):
    return plain(REMOVEXATTR, opaque(name), change_in)


def listxattr(cookie=0, count=65536):
    return plain(LISTXATTR, u64(cookie) + u32(count),
                 lambda r: (r.u64(), [r.opaque() for _ in range(r.u32())], bool(r.u32())))


class Client(nfs3.Client):
    def __init__(self, minor=1, name=None, **who):
        super().__init__(**who)
        self.minor, self.session = minor, None
        self.keep = False  # whether the server is to keep replies
        owner = os.urandom(8) + opaque(name or os.urandom(8))
        self.clientid, sequence = self.compound((
            EXCHANGE_ID, owner + u32(0) + u32(0) + u32(0), lambda r: (r.u64(), r.u32())))[0]
        channel = (u32(0) + u32(1 << 20) + u32(1 << 20) + u32(1 << 16) + u32(16) + u32(1) +
                   u32(0))
        self.session = self.compound((
            CREATE_SESSION, u64(self.clientid) + u32(sequence) + u32(0) + channel + channel +
            u32(0x40000000) + u32(1) + u32(0), lambda r: r.fixed(16)))[0]
        self.sequence = 0
        self.run(plain(RECLAIM_COMPLETE, u32(0)))

    def compound(self, *operations):
        body = (opaque(b"") + u32(self.minor) + u32(len(operations)) +
                b"".join(u32(number) + args for number, args, _ in operations))
        reply = self.rpc(self.socket, NFS, 4, 1, body)
        status = reply.u32()
        reply.opaque()
        found = []
        for at in range(reply.u32()):
            reply.u32()
            if reply.u32() != nfs3.OK:
                raise Nfs4Error(status, at - 1)
            found.append(operations[at][2](reply))
        if status != nfs3.OK:
            raise Nfs4Error(status, -1)
        return found

    def run(self, *operations):
        self.sequence += 1
        return self.compound((SEQUENCE, self.session + u32(self.sequence) + u32(0) + u32(0) +
                              u32(int(self.keep)), lambda r: r.fixed(36)), *operations)[1:]

    def one(self, *operations):
        """The last operation's result."""
        return self.run(*operations)[-1]

    def root(self, path):
        names = [lookup(name.encode()) for name in path.split("/") if name]
        return self.one(plain(PUTROOTFH), *names, getfh())

    def attrs(self, handle, *names):
        return self.one(putfh(handle), getattr_(*names))

    def open(self, directory, name, access=BOTH_ACCESS, create=None, verifier=b"", owner=b"o",
             deny=0, **values):
        """(opened, handle). create: None, or how."""
        how = u32(0)
        if create is not None:
            how = u32(1) + u32(create) + verifier
            if create != EXCLUSIVE4:
                how += fattr(**values)
        args = (u32(0) + u32(access) + u32(deny) + u64(self.clientid) + opaque(owner) + how +
                u32(0) + opaque(name))

        def opened(reply):
            stateid, change = reply.fixed(16), change_in(reply)
            reply.u32()
            attrset = bits_in(reply)
            assert reply.u32() == 0, "a delegation that nobody asked for"
            return Opened(stateid, change, attrset)
        return tuple(self.run(putfh(directory), plain(OPEN, args, opened), getfh())[1:])
