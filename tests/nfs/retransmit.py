# SPDX-License-Identifier: LGPL-3.0-or-later
"""The same requests once more: on the same connection, and on a new one from the same port."""
import select
import socket
import struct

import nfs4
from nfs3 import *

OUTSTANDING = 200  # requests of a client that a broken connection leaves without a reply


class Repeating(Client):
    """Sends each request as often as times says, under one transaction id, and checks that the
    replies are equal."""
    times = 1

    def again(self, sock, xid, *request):
        """A repetition that comes while ganesha has not yet done with the first, though it has sent
        the reply, counts as answered: so it is sent until there is one, as clients do."""
        while True:
            self.xids = iter([xid])
            self.send(sock, *request)
            if select.select([sock], [], [], 1)[0]:
                return self.receive(sock)

    def rpc(self, sock, *request):
        xids = self.xids
        xid = next(xids)
        replies = []
        for _ in range(self.times):
            got, reply = self.again(sock, xid, *request)
            assert got == xid & 0xffffffff
            replies.append(reply)
        self.xids = xids
        for reply in replies[1:]:
            assert reply.data[reply.at:] == replies[0].data[replies[0].at:], "another reply"
        return replies[0]


client = Client()
root = client.mount("/tarn")
top = client.mkdir(root, b"retransmit")[0]
twice = Repeating()
twice.times = 3

# Executed a second time, each of these would fail.
twice.mkdir(top, b"folder")
twice.mkdir(top, b"other")
twice.symlink(top, b"link", b"target")
twice.mknod(top, b"fifo", FIFO)
file = twice.create(top, b"file", guarded=True)[0]
twice.link(file, top, b"second")
twice.rename(top, b"second", top, b"third")
twice.remove(top, b"third")
twice.rmdir(top, b"folder")
assert sorted(e.name for e in client.listing(top)) == [b"fifo", b"file", b"link", b"other"]
# Executed a second time, these would undo what came in between.
xids = twice.xids
twice.xids = iter([0x7e000001])
twice.times = 1
twice.write(file, 0, b"first", FILE_SYNC)
client.write(file, 0, b"later", FILE_SYNC)
twice.xids = iter([0x7e000001])
twice.write(file, 0, b"first", FILE_SYNC)
assert client.read(file, 0, 100) == (b"later", True)
twice.xids = xids
# What was refused is refused again, though it would succeed now.
twice.xids = iter([0x7e000002])
refused(NOENT, twice.remove, top, b"not yet")
client.create(top, b"not yet")
twice.xids = iter([0x7e000002])
refused(NOENT, twice.remove, top, b"not yet")
client.lookup(top, b"not yet")
client.remove(top, b"not yet")

# The same of v4.1, where a reply is kept in the session's slot.
newer = nfs4.Client()
newer.keep = True
there = newer.root("/tarn/retransmit")
for operations in ((nfs4.mkdir(b"new"),), (nfs4.remove(b"new"),),
                   (nfs4.plain(nfs4.SAVEFH), nfs4.rename(b"other", b"another"))):
    first = newer.run(nfs4.putfh(there), *operations)
    newer.sequence -= 1
    assert newer.run(nfs4.putfh(there), *operations) == first, "another reply"
client.rename(top, b"another", top, b"other")
newer.sequence -= 1
newer.run(nfs4.putfh(there), *operations)
client.lookup(top, b"other")

# The connection breaks before any reply is read; the client comes back from the same port.
names = [b"name-%d" % i for i in range(OUTSTANDING)]
broken = Repeating()
for name in names:
    broken.create(top, name)
port = broken.socket.getsockname()[1]
calls = [opaque(top) + opaque(name) for name in names]
xids = [broken.send(broken.socket, NFS, 3, 12, call) for call in calls]
first = {xid: reply.data[reply.at:] for xid, reply in (broken.receive(broken.socket) for _ in calls)}
assert set(first) == set(xids)  # all have been executed, or were told to come again
broken.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
broken.socket.close()  # by a reset: the port is free at once
broken.socket = socket.socket()
broken.socket.settimeout(60)
broken.socket.bind(("", port))
broken.socket.connect((broken.server, 2049))
for xid, call in zip(xids, calls):
    broken.xids = iter([xid])
    reply = broken.rpc(broken.socket, NFS, 3, 12, call)
    assert reply.data[reply.at:] == first[xid], "executed again"
