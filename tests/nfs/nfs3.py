# SPDX-License-Identifier: LGPL-3.0-or-later
"""NFSv3 calls as they are on the wire (RFC 1813), for what a well-behaved client never sends.

Names and handles are bytes. A call that the server refuses raises NfsError with the status.
A Client is one connection and not for several threads.
"""
import collections
import itertools
import os
import socket
import struct

NFS, MOUNT, PORTMAP, RQUOTA = 100003, 100005, 100000, 100011
OK, PERM, NOENT, IO, NXIO, ACCES, EXIST, XDEV, NODEV = 0, 1, 2, 5, 6, 13, 17, 18, 19
NOTDIR, ISDIR, INVAL, FBIG, NOSPC, ROFS, MLINK = 20, 21, 22, 27, 28, 30, 31
NAMETOOLONG, NOTEMPTY, DQUOT, STALE, REMOTE = 63, 66, 69, 70, 71
BADHANDLE, NOT_SYNC, BAD_COOKIE, NOTSUPP, TOOSMALL = 10001, 10002, 10003, 10004, 10005
SERVERFAULT, BADTYPE, JUKEBOX = 10006, 10007, 10008
REG, DIR, BLK, CHR, LNK, SOCK, FIFO = range(1, 8)
UNSTABLE, DATA_SYNC, FILE_SYNC = range(3)

Attr = collections.namedtuple(
    "Attr", "type mode nlink uid gid size used rdev fsid fileid atime mtime ctime")
Entry = collections.namedtuple("Entry", "fileid name cookie attr handle")


class NfsError(Exception):
    def __init__(self, status):
        super().__init__(f"NFS status {status}")
        self.status = status


class Denied(NfsError):
    """The server refused the call itself, by its credentials or its export."""

    def __init__(self):
        super().__init__(-1)


def u32(n):
    return struct.pack(">I", n)


def u64(n):
    return struct.pack(">Q", n)


def opaque(data):
    return u32(len(data)) + data + bytes(-len(data) % 4)


class Reply:
    def __init__(self, data):
        self.data, self.at = data, 0

    def fixed(self, n):
        part = self.data[self.at:self.at + n]
        assert len(part) == n, "short reply"
        self.at += n + -n % 4
        return part

    def u32(self):
        return struct.unpack(">I", self.fixed(4))[0]

    def u64(self):
        return struct.unpack(">Q", self.fixed(8))[0]

    def opaque(self):
        return self.fixed(self.u32())

    def time(self):
        return self.u32() * 1_000_000_000 + self.u32()

    def attr(self):
        first = [self.u32() for _ in range(5)]
        size, used = self.u64(), self.u64()
        rdev = (self.u32(), self.u32())
        return Attr(*first, size, used, rdev, self.u64(), self.u64(),
                    self.time(), self.time(), self.time())

    def post_attr(self):
        return self.attr() if self.u32() else None

    def wcc(self):
        """(size, mtime, ctime) before or None, attributes after or None"""
        before = (self.u64(), self.time(), self.time()) if self.u32() else None
        return before, self.post_attr()


def sattr(mode=None, uid=None, gid=None, size=None, atime=None, mtime=None):
    """Times: nanoseconds, or "server" for the server's clock."""
    def maybe(value, code):
        return u32(0) if value is None else u32(1) + code(value)

    def when(value):
        if value is None:
            return u32(0)
        if value == "server":
            return u32(1)
        return u32(2) + u32(value // 1_000_000_000) + u32(value % 1_000_000_000)
    return (maybe(mode, u32) + maybe(uid, u32) + maybe(gid, u32) + maybe(size, u64) +
            when(atime) + when(mtime))


class Client:
    def __init__(self, server=None, uid=0, gid=0, gids=()):
        self.server = server or os.environ["SERVER_IP"]
        self.cred = opaque(u32(0) + opaque(b"test") + u32(uid) + u32(gid) +
                           u32(len(gids)) + b"".join(map(u32, gids)))
        self.xids = itertools.count(int.from_bytes(os.urandom(3), "big") << 8)
        self.socket = self.connect(2049)

    def connect(self, port):
        s = socket.socket()
        s.settimeout(60)
        # A port that only root can have, which servers may insist on.
        for own in itertools.count(1023, -1):
            try:
                s.bind(("", own))
                s.connect((self.server, port))
                return s
            except OSError as e:
                if own < 600:
                    raise e
                s.close()
                s = socket.socket()
                s.settimeout(60)

    def close(self):
        self.socket.close()

    def send(self, sock, program, version, procedure, body):
        xid = next(self.xids) & 0xffffffff
        call = (u32(xid) + u32(0) + u32(2) + u32(program) + u32(version) + u32(procedure) +
                u32(1) + self.cred + u32(0) + opaque(b"") + body)
        sock.sendall(u32(0x80000000 | len(call)) + call)
        return xid

    def record(self, sock):
        """The next whole message."""
        def exactly(n):
            data = b""
            while len(data) < n:
                more = sock.recv(n - len(data))
                if not more:
                    raise ConnectionError("the server closed the connection")
                data += more
            return data
        data, last = b"", False
        while not last:
            mark = struct.unpack(">I", exactly(4))[0]
            last = mark & 0x80000000
            data += exactly(mark & 0x7fffffff)
        return Reply(data)

    def receive(self, sock):
        """The next reply: its xid, and what follows the RPC header."""
        reply = self.record(sock)
        xid = reply.u32()
        assert reply.u32() == 1, "not an RPC reply"
        if reply.u32() != 0:
            raise Denied
        reply.u32()
        reply.opaque()
        state = reply.u32()
        assert state == 0, f"RPC accept state {state}"
        return xid, reply

    def rpc(self, sock, program, version, procedure, body):
        xid = self.send(sock, program, version, procedure, body)
        got, reply = self.receive(sock)
        assert got == xid
        return reply

    def nfs(self, procedure, body):
        """The reply behind its status; the failed status is raised."""
        reply = self.rpc(self.socket, NFS, 3, procedure, body)
        status = reply.u32()
        if status != OK:
            raise NfsError(status)
        return reply

    def port(self, program, version):
        portmap = self.connect(111)
        port = self.rpc(portmap, PORTMAP, 2, 3,
                        u32(program) + u32(version) + u32(6) + u32(0)).u32()
        portmap.close()
        return port

    def mount(self, path):
        mountd = self.connect(self.port(MOUNT, 3))
        reply = self.rpc(mountd, MOUNT, 3, 1, opaque(path.encode()))
        mountd.close()
        status = reply.u32()
        if status != OK:
            raise NfsError(status)
        return reply.opaque()

    def getattr(self, handle):
        return self.nfs(1, opaque(handle)).attr()

    def setattr(self, handle, guard=None, **what):
        """guard: the change time that the file must have"""
        guarded = u32(0) if guard is None else u32(1) + u32(guard // 10**9) + u32(guard % 10**9)
        return self.nfs(2, opaque(handle) + sattr(**what) + guarded).wcc()

    def lookup(self, directory, name):
        reply = self.nfs(3, opaque(directory) + opaque(name))
        return reply.opaque()

    def access(self, handle, wanted):
        reply = self.nfs(4, opaque(handle) + u32(wanted))
        reply.post_attr()
        return reply.u32()

    def readlink(self, handle):
        reply = self.nfs(5, opaque(handle))
        reply.post_attr()
        return reply.opaque()

    def read(self, handle, offset, count):
        """(data, eof)"""
        reply = self.nfs(6, opaque(handle) + u64(offset) + u32(count))
        reply.post_attr()
        reply.u32()
        eof = reply.u32()
        return reply.opaque(), bool(eof)

    def write(self, handle, offset, data, stable=UNSTABLE):
        """(bytes written, stability, verifier, wcc)"""
        reply = self.nfs(7, opaque(handle) + u64(offset) + u32(len(data)) + u32(stable) +
                         opaque(data))
        wcc = reply.wcc()
        return reply.u32(), reply.u32(), reply.fixed(8), wcc

    def made(self, reply):
        handle = reply.opaque() if reply.u32() else None
        attr = reply.post_attr()
        self.directory = reply.wcc()[1]  # after the last entry was made
        return handle, attr

    def create(self, directory, name, guarded=False, verifier=None, **what):
        """(handle, attributes)"""
        how = u32(2) + verifier if verifier else u32(int(guarded)) + sattr(**what)
        return self.made(self.nfs(8, opaque(directory) + opaque(name) + how))

    def mkdir(self, directory, name, **what):
        return self.made(self.nfs(9, opaque(directory) + opaque(name) + sattr(**what)))

    def symlink(self, directory, name, target):
        return self.made(self.nfs(10, opaque(directory) + opaque(name) + sattr() +
                                  opaque(target)))

    def mknod(self, directory, name, kind, major=0, minor=0, **what):
        device = u32(major) + u32(minor) if kind in (CHR, BLK) else b""
        return self.made(self.nfs(11, opaque(directory) + opaque(name) + u32(kind) +
                                  sattr(**what) + device))

    def remove(self, directory, name):
        return self.nfs(12, opaque(directory) + opaque(name)).wcc()

    def rmdir(self, directory, name):
        return self.nfs(13, opaque(directory) + opaque(name)).wcc()

    def rename(self, directory, name, to_directory, to_name):
        """wcc of both directories"""
        reply = self.nfs(14, opaque(directory) + opaque(name) + opaque(to_directory) +
                         opaque(to_name))
        return reply.wcc(), reply.wcc()

    def link(self, handle, directory, name):
        """(attributes, wcc of the directory)"""
        reply = self.nfs(15, opaque(handle) + opaque(directory) + opaque(name))
        return reply.post_attr(), reply.wcc()

    def readdir(self, directory, cookie=0, verifier=bytes(8), count=8192):
        """(entries, eof, verifier)"""
        reply = self.nfs(16, opaque(directory) + u64(cookie) + verifier + u32(count))
        reply.post_attr()
        verifier, entries = reply.fixed(8), []
        while reply.u32():
            entries.append(Entry(reply.u64(), reply.opaque(), reply.u64(), None, None))
        return entries, bool(reply.u32()), verifier

    def readdirplus(self, directory, cookie=0, verifier=bytes(8), dircount=4096, maxcount=32768):
        reply = self.nfs(17, opaque(directory) + u64(cookie) + verifier + u32(dircount) +
                         u32(maxcount))
        reply.post_attr()
        verifier, entries = reply.fixed(8), []
        while reply.u32():
            fileid, name, cookie = reply.u64(), reply.opaque(), reply.u64()
            attr = reply.post_attr()
            handle = reply.opaque() if reply.u32() else None
            entries.append(Entry(fileid, name, cookie, attr, handle))
        return entries, bool(reply.u32()), verifier

    def fsstat(self, handle):
        """(total, free, available bytes, total, free, available files)"""
        reply = self.nfs(18, opaque(handle))
        reply.post_attr()
        return tuple(reply.u64() for _ in range(6))

    def fsinfo(self, handle):
        """(rtmax, wtmax, largest file, time granularity, properties)"""
        reply = self.nfs(19, opaque(handle))
        reply.post_attr()
        sizes = [reply.u32() for _ in range(7)]
        return sizes[0], sizes[3], reply.u64(), reply.time(), reply.u32()

    def pathconf(self, handle):
        """(linkmax, name_max, no_trunc, chown_restricted, case_insensitive, case_preserving)"""
        reply = self.nfs(20, opaque(handle))
        reply.post_attr()
        return tuple(reply.u32() for _ in range(6))

    def getquota(self, path, uid):
        """RQUOTA's status: 1 ok, 2 there is no quota, 3 not permitted"""
        rquotad = self.connect(self.port(RQUOTA, 1))
        reply = self.rpc(rquotad, RQUOTA, 1, 1, opaque(path.encode()) + u32(uid))
        rquotad.close()
        return reply.u32()

    def commit(self, handle, offset=0, count=0):
        reply = self.nfs(21, opaque(handle) + u64(offset) + u32(count))
        reply.wcc()
        return reply.fixed(8)

    def listing(self, directory, call=None, **sizes):
        """All entries but . and .., page by page."""
        cookie, verifier, eof, found = 0, bytes(8), False, []
        while not eof:
            entries, eof, verifier = (call or self.readdir)(directory, cookie, verifier, **sizes)
            assert entries or eof, "a page without entries that is not the last"
            found += entries
            if entries:
                cookie = entries[-1].cookie
        return [e for e in found if e.name not in (b".", b"..")]


def refused(statuses, call, *args, **kw):
    """Asserts that the call fails with one of the statuses."""
    try:
        result = call(*args, **kw)
    except NfsError as e:
        wanted = statuses if isinstance(statuses, tuple) else (statuses,)
        assert e.status in wanted, f"status {e.status}, not {wanted}, for {args[1:]!r}"
        return
    raise AssertionError(f"succeeded: {call.__name__}{args[1:]!r} -> {result!r}")
