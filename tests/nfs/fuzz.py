# SPDX-License-Identifier: LGPL-3.0-or-later
"""fuzz.py CALLS [SEED]: so many random calls; every one must be answered.

Names, handles, attributes, ACLs, stateids, cookies, offsets and sizes come from lists of values
that are right, on the edge or wrong; one call in ten is garbled as a whole, behind its RPC header.

NFSv3's ACL side protocol is left out: ganesha 4.3 decodes SETACL with one count into memory
allocated by another.
"""
import random
import sys

import nfs4
from nfs3 import *

calls = int(sys.argv[1])
seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.getrandbits(32)
print(f"TARN_TEST_SEED={seed}", flush=True)
rng = random.Random(seed)
pick = rng.choice

# ---- values ----

NAMES = [b"a", b"b", b"c", b"d", b"dir", b"sub", b"link", b"other", b"n" * 255, b"n" * 256, b"",
         b".", b"..", b"/", b"a/b", b"\0", b"a\0b", b"\xff\xfe", b"\n", b"x" * 5000, b".snapshot",
         b"user.a", b"system.nfs4_acl", "é".encode(), b"%s%n"]
U32 = [0, 1, 2, 3, 7, 0o644, 0o7777, 4096, 65536, 1 << 20, 1 << 30, 0x7fffffff, 0x80000000,
       0xfffffffe, 0xffffffff]
U64 = U32 + [1 << 32, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 2, (1 << 64) - 1]
SIZES = [0, 1, 100, 4095, 4096, 4097, 70000, 131072, 1 << 20, 1 << 33]


def name():
    if rng.random() < 0.75:
        return pick(NAMES[:7])
    return pick(NAMES) if rng.random() < 0.8 else rng.randbytes(rng.randrange(300))


def number32():
    return pick(U32) if rng.random() < 0.8 else rng.getrandbits(32)


def number64():
    return pick(U64) if rng.random() < 0.7 else rng.getrandbits(64)


def offset():
    """Mostly where a file of this test may be."""
    return pick(SIZES) if rng.random() < 0.7 else number64()


def data():
    return rng.randbytes(pick((0, 1, 3, 4, 100, 4096, 10000)))


def changed(handle):
    handle = bytearray(handle)
    for _ in range(pick((1, 1, 2, 8))):
        if handle:
            handle[rng.randrange(len(handle))] = pick((0, 1, 255, rng.randrange(256)))
    return bytes(handle[:rng.randrange(len(handle) + 1)] if rng.random() < 0.2 else handle)


# Those that the server has given, by version: ganesha's part of them differs.
handles = {3: [], 4: []}


def handle(version):
    r = rng.random()
    known = pick(handles[version])
    if r < 0.85:
        return known
    return changed(known) if r < 0.97 else rng.randbytes(rng.randrange(80))


def keep(version, found):
    known = handles[version]
    if found not in known:
        known.append(found)
        if len(known) > 60:
            del known[rng.randrange(3, len(known))]


# ---- NFSv3 ----

def sattr3():
    out = b""
    for value in (u32(pick((0o644, 0o755, 0o1777, number32()))), u32(pick((0, 1000, number32()))),
                  u32(pick((0, 1000, number32()))), u64(offset())):
        out += u32(1) + value if rng.random() < 0.4 else u32(0)
    for _ in range(2):
        how = pick((0, 0, 1, 2, 2, 3))
        out += u32(how) + (u32(number32()) + u32(number32()) if how == 2 else b"")
    return out


def where():
    return opaque(handle(3)) + opaque(name())


V3 = [
    (1, lambda: opaque(handle(3))),
    (2, lambda: opaque(handle(3)) + sattr3() + pick((u32(0), u32(1) + u64(number64())))),
    (3, where),
    (4, lambda: opaque(handle(3)) + u32(number32())),
    (5, lambda: opaque(handle(3))),
    (6, lambda: opaque(handle(3)) + u64(offset()) + u32(number32())),
    (7, lambda: opaque(handle(3)) + u64(offset()) + write3()),
    (8, lambda: where() + pick((u32(0) + sattr3(), u32(1) + sattr3(), u32(2) + rng.randbytes(8)))),
    (9, lambda: where() + sattr3()),
    (10, lambda: where() + sattr3() + opaque(pick((b"a", b"../a", b"t" * 4095, b"t" * 4096, data())))),
    (11, lambda: where() + mknod3()),
    (12, where),
    (13, where),
    (14, lambda: where() + where()),
    (15, lambda: opaque(handle(3)) + where()),
    (16, lambda: opaque(handle(3)) + u64(number64()) + pick((bytes(8), rng.randbytes(8))) +
        u32(number32())),
    (17, lambda: opaque(handle(3)) + u64(number64()) + pick((bytes(8), rng.randbytes(8))) +
        u32(number32()) + u32(number32())),
    (18, lambda: opaque(handle(3))),
    (19, lambda: opaque(handle(3))),
    (20, lambda: opaque(handle(3))),
    (21, lambda: opaque(handle(3)) + u64(offset()) + u32(number32())),
]


def write3():
    content = data()
    return (u32(pick((len(content), number32()))) + u32(pick((0, 1, 2, number32()))) +
            opaque(content))


def mknod3():
    kind = pick((CHR, BLK, SOCK, FIFO, REG, DIR, number32()))
    return (u32(kind) + sattr3() +
            (u32(number32()) + u32(number32()) if kind in (CHR, BLK) else b""))


def call3():
    procedure, args = pick(V3)
    return 3, procedure, args()


# ---- NFSv4 ----

def acl4():
    n = pick((1, 3, 3, 10, 1024, 1025))
    who = (b"OWNER@", b"GROUP@", b"EVERYONE@", b"1000", b"0", b"nobody@nowhere", b"x" * 200, b"")
    return u32(n) + b"".join(
        u32(pick((0, 0, 1, 2, 3, number32()))) + u32(pick((0, 0x43, 0x0b, number32()))) +
        u32(pick((0x1f01ff, 1, 2, 0x20, number32()))) + opaque(pick(who)) for _ in range(n))


# Attributes that may be set: number and value.
SETTABLE = [
    (4, lambda: u64(offset())), (12, acl4), (33, lambda: u32(pick((0o644, 0o7777, number32())))),
    (36, lambda: opaque(pick((b"0", b"1000", b"root", b"", b"a@b", data())))),
    (37, lambda: opaque(pick((b"0", b"1000", b"root", b"", b"a@b", data())))),
    (48, lambda: pick((u32(0), u32(1) + u64(number64()) + u32(number32())))),
    (54, lambda: pick((u32(0), u32(1) + u64(number64()) + u32(number32())))),
]


def fattr4():
    some = sorted(rng.sample(range(len(SETTABLE)), pick((0, 1, 1, 2, 4))))
    values = b"".join(SETTABLE[i][1]() for i in some)
    bits = [SETTABLE[i][0] for i in some]
    if rng.random() < 0.1:
        bits = sorted(set(bits + [rng.randrange(90)]))
    if rng.random() < 0.05:
        values += rng.randbytes(4)
    return nfs4.bitmap(bits) + opaque(values)


def bits4():
    return nfs4.bitmap(rng.sample(range(90), pick((0, 1, 5, 40, 90))))


stateids = [bytes(16), b"\xff" * 16]


def stateid():
    return pick(stateids) if rng.random() < 0.9 else changed(pick(stateids))


def open4(clientid, minor):
    how = pick((None, 0, 1, 2, 3 if minor else 2))
    body = u32(0) + u32(pick((1, 2, 3, 3, number32()))) + u32(pick((0, 0, 0, 1, 2, 3, number32())))
    body += u64(clientid if rng.random() < 0.95 else number64()) + opaque(rng.randbytes(4))
    if how is None:
        body += u32(0)
    else:
        body += u32(1) + u32(how) + (rng.randbytes(8) if how >= 2 else b"")
        body += fattr4() if how != 2 else b""
    claim = pick((0, 0, 0, 0, 0, 4 if minor else 0, 1, 2))
    tail = {0: lambda: opaque(name()), 4: lambda: b"", 1: lambda: u32(pick((0, 1, 2))),
            2: lambda: stateid() + opaque(name())}
    return nfs4.OPEN, body + u32(claim) + tail[claim]()


def create4():
    kind = pick((2, 2, 5, 6, 7, 3, 4, 1, number32()))
    extra = {5: lambda: opaque(pick((b"a", b"t" * 4096, data()))),
             3: lambda: u32(number32()) + u32(number32()),
             4: lambda: u32(number32()) + u32(number32())}.get(kind, lambda: b"")
    return nfs4.CREATE, u32(kind) + extra() + opaque(name()) + fattr4()


def verify4():
    return pick((nfs4.VERIFY, nfs4.NVERIFY)), fattr4()


def lock4(clientid):
    """LOCK, LOCKT, LOCKU"""
    op = pick((12, 13, 14))
    span = u64(offset()) + u64(number64())
    kind = u32(pick((1, 2, 3, 4, number32())))
    owner = u64(clientid) + opaque(pick((b"l", b"m", b"")))
    if op == 13:
        return op, kind + span + owner
    if op == 14:
        return op, kind + u32(number32()) + stateid() + span
    if rng.random() < 0.5:
        locker = u32(1) + u32(number32()) + stateid() + u32(number32()) + owner
    else:
        locker = u32(0) + stateid() + u32(number32())
    return op, kind + u32(0) + span + locker


SECINFO = 33
BOTH = [
    lambda: (nfs4.ACCESS, u32(number32())),
    lambda: (nfs4.CLOSE, u32(number32()) + stateid()),
    lambda: (nfs4.COMMIT, u64(offset()) + u32(number32())),
    create4, create4,
    lambda: (nfs4.GETATTR, bits4()), lambda: (nfs4.GETATTR, bits4()),
    lambda: (nfs4.GETFH, b""), lambda: (nfs4.GETFH, b""),
    lambda: (nfs4.LINK, opaque(name())),
    lambda: (nfs4.LOOKUP, opaque(name())), lambda: (nfs4.LOOKUP, opaque(name())),
    lambda: (nfs4.LOOKUPP, b""),
    verify4,
    lambda: (21, stateid() + u32(number32()) + u32(pick((1, 2, 3))) + u32(pick((0, 1)))),
    lambda: (nfs4.PUTFH, opaque(handle(4))), lambda: (nfs4.PUTROOTFH, b""),
    lambda: (nfs4.READ, stateid() + u64(offset()) + u32(number32())),
    lambda: (26, u64(number64()) + pick((bytes(8), rng.randbytes(8))) + u32(number32()) +
             u32(number32()) + bits4()),  # READDIR
    lambda: (nfs4.READLINK, b""),
    lambda: (nfs4.REMOVE, opaque(name())),
    lambda: (nfs4.RENAME, opaque(name()) + opaque(name())),
    lambda: (nfs4.RESTOREFH, b""), lambda: (nfs4.SAVEFH, b""),
    lambda: (SECINFO, opaque(name())),
    lambda: (nfs4.SETATTR, stateid() + fattr4()), lambda: (nfs4.SETATTR, stateid() + fattr4()),
    lambda: (nfs4.WRITE, stateid() + u64(offset()) + u32(pick((0, 1, 2, number32()))) +
             opaque(data())),
]
FOR_42 = [
    lambda: (nfs4.ALLOCATE, stateid() + u64(offset()) + u64(offset())),
    lambda: (nfs4.DEALLOCATE, stateid() + u64(offset()) + u64(offset())),
    lambda: (nfs4.SEEK, stateid() + u64(offset()) + u32(pick((0, 1, number32())))),
    lambda: (nfs4.GETXATTR, opaque(name())),
    lambda: (nfs4.SETXATTR, u32(pick((0, 1, 2, number32()))) + opaque(name()) +
             opaque(pick((data(), bytes(65536), bytes(65537))))),
    lambda: (nfs4.LISTXATTR, u64(number64()) + u32(number32())),
    lambda: (nfs4.REMOVEXATTR, opaque(name())),
]


class Session:
    """v4.0: a client id; its OPENs are confirmed by the next call. v4.2: a session."""

    def __init__(self, minor):
        self.minor, self.confirm = minor, None
        if minor:
            self.client = nfs4.Client(minor)
            self.clientid = self.client.clientid
            return
        self.client = Client()
        reply = self.compound0((35, rng.randbytes(8) + opaque(b"fuzz") + u32(0) + opaque(b"tcp") +
                                opaque(b"127.0.0.1.0.0") + u32(0)))
        reply.u32(), reply.opaque(), reply.u32(), reply.u32()
        assert reply.u32() == OK
        self.clientid = reply.u64()
        self.compound0((36, u64(self.clientid) + reply.fixed(8)))

    def compound0(self, *ops):
        return self.client.rpc(self.client.socket, NFS, 4, 1, self.body(ops))

    def body(self, ops):
        return (opaque(b"") + u32(self.minor) + u32(len(ops)) +
                b"".join(u32(op) + args for op, args in ops))

    def operations(self):
        if self.confirm:
            found, self.confirm = self.confirm, None
            return [(nfs4.PUTFH, opaque(pick(handles[4][-3:]))), (20, found + u32(1))]
        menu = BOTH + (FOR_42 if self.minor else [])
        ops = [(nfs4.PUTFH, opaque(handle(4)))]
        if rng.random() < 0.5:
            ops += [(nfs4.SAVEFH, b""), (nfs4.PUTFH, opaque(handle(4)))]
        for _ in range(pick((1, 1, 2, 4, 12))):
            r = rng.random()
            if r < 0.15:
                ops += [open4(self.clientid, self.minor), (nfs4.GETFH, b"")]
            elif r < 0.2:
                ops.append(lock4(self.clientid))
            else:
                ops.append(pick(menu)())
            if ops[-1][0] == SECINFO:
                break  # it takes the file handle away: see crashes_ganesha()
        return ops

    def call(self):
        ops = self.operations()
        if self.minor:
            ops.insert(0, (nfs4.SEQUENCE, self.client.session + u32(self.client.sequence + 1) +
                           u32(0) + u32(0) + u32(0)))
        return 4, 1, self.body(ops)

    def answered(self, answer):
        """Learns stateids; the slot's number goes up with each SEQUENCE that was executed."""
        at = answer.find(u32(nfs4.OPEN) + u32(OK))
        if at >= 0 and at % 4 == 0 and len(answer) >= at + 48:
            stateids.append(answer[at + 8:at + 24])
            if not self.minor and answer[at + 47] & 2:
                self.confirm = stateids[-1]
        at = answer.find(u32(12) + u32(OK))
        if at >= 0 and at % 4 == 0 and len(answer) >= at + 24:
            stateids.append(answer[at + 8:at + 24])
        del stateids[2:-12]
        if not self.minor or len(answer) < 36:
            return
        first, status = struct.unpack(">II", answer[28:36])
        if first == nfs4.SEQUENCE and status in (OK, 10068, 10076):  # or executed before
            self.client.sequence += 1
        elif first == nfs4.SEQUENCE and status in (10052, 10063):
            self.client = nfs4.Client(self.minor)
            self.clientid = self.client.clientid


def learn(version, answer):
    """Handles in an answer, found by what they look like."""
    like = handles[version][0]
    for at in range(16, len(answer) - len(like) - 3, 4):
        if answer[at:at + 9] == u32(len(like)) + like[:5]:
            keep(version, answer[at + 4:at + 4 + len(like)])


def crashes_ganesha(body):
    """Ganesha 4.3 does not survive ALLOCATE or DEALLOCATE without a file handle: garbled calls
    that may hold one are not sent."""
    return any(body[at:at + 4] in (u32(nfs4.ALLOCATE), u32(nfs4.DEALLOCATE))
               for at in range(0, len(body), 4))


def garbled(body):
    body = bytearray(body)
    what = pick(("flip", "flip", "cut", "more", "length"))
    if what == "cut":
        return bytes(body[:rng.randrange(len(body) + 1) // 4 * 4])
    if what == "more":
        return bytes(body) + rng.randbytes(4 * rng.randrange(1, 20))
    for _ in range(pick((1, 1, 3, 10)) if body else 0):
        at = rng.randrange(len(body))
        if what == "flip":
            body[at] = rng.randrange(256)
        else:
            body[at // 4 * 4:at // 4 * 4 + 4] = u32(number32())
    return bytes(body)


def answer_of(client, version, procedure, body):
    """What the server says, which must be a reply to this very call."""
    xid = client.send(client.socket, NFS, version, procedure, body)
    reply = client.record(client.socket)
    assert reply.u32() == xid and reply.u32() == 1
    return reply.data[reply.at:]


root3 = Client()
user3 = Client(uid=1000, gid=1000, gids=(1000, 4))
root = root3.mount("/tarn")
top = root3.mkdir(root, b"fuzz", mode=0o777)[0]
handles[3] += [top, root3.mkdir(top, b"dir", mode=0o1777)[0],
               root3.create(top, b"a", mode=0o666)[0], root3.symlink(top, b"link", b"a")[0], root,
               root3.lookup(root, b"other")]
sessions = [Session(0), Session(2)]
found = sessions[1].client.root("/tarn/fuzz")
handles[4] += [found] + [sessions[1].client.root("/tarn/" + path)
                         for path in ("fuzz/dir", "fuzz/a", "other")]
seen = set()

for number in range(calls):
    if rng.random() < 0.45:
        client, session, call = pick((root3, user3)), None, call3()
    else:
        session = pick(sessions)
        client, call = session.client, session.call()
    version, procedure, body = call
    if rng.random() < 0.1:
        wrong = garbled(body)
        if version == 3 or not crashes_ganesha(wrong):
            body = wrong
    try:
        answer = answer_of(client, version, procedure, body)
    except Exception:
        print(f"not answered: call {number}: v{version} procedure {procedure}: {body.hex()[:4000]}",
              flush=True)
        raise
    seen.add((version, procedure, answer[16:20], answer[20:28] if version == 4 else b""))
    learn(version, answer)
    if session:
        session.answered(answer)

# It is still the server that it was.
fresh = Client()
assert fresh.getattr(fresh.mount("/tarn")).type == DIR
assert nfs4.Client(2).root("/tarn")
print(f"{calls} calls answered, {len(seen)} kinds of answers, "
      f"{len(handles[3])} + {len(handles[4])} handles")
