# SPDX-License-Identifier: LGPL-3.0-or-later
"""Writes from many connections to one file: what a reply says is true of its own write."""
import threading

import nfs4
from nfs3 import *

client = Client()
root = client.mount("/tarn")
file = client.create(root, b"written", mode=0o644)[0]
lock, acknowledged, failures = threading.Lock(), 0, []
PIECE, THREADS, ROUNDS = 5000, 8, 60


def piece(n):
    return bytes([n % 251]) * PIECE


def in_threads(work):
    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def work(part):
    global acknowledged
    c = Client()
    last = 0
    try:
        for i in range(ROUNDS):
            n = i * THREADS + part
            with lock:
                floor = acknowledged
            stable = (UNSTABLE, FILE_SYNC)[n % 7 == 0]
            written, how, _, (_, after) = c.write(file, n * PIECE, piece(n), stable)
            assert written == PIECE and how >= stable
            if after:
                assert after.size >= max(floor, (n + 1) * PIECE), "an older size in a reply"
                assert after.ctime >= last, "time runs backward"
                last = after.ctime
            with lock:
                acknowledged = max(acknowledged, (n + 1) * PIECE)
    except BaseException as e:
        failures.append(e)


in_threads(work)
client.commit(file)
total = THREADS * ROUNDS * PIECE
assert client.getattr(file).size == total
for n in range(THREADS * ROUNDS):
    data, _ = client.read(file, n * PIECE, PIECE)
    assert data == piece(n), f"piece {n}"


# The same by v4, whose change attribute rises with every write of anybody, beside v3's.
highest, path = 0, "/tarn/written"
newest = nfs4.Client()
handle4 = newest.root(path)
assert newest.attrs(handle4, "size") == {"size": total}


def work4(part):
    global highest
    try:
        c3, c4 = (None, nfs4.Client()) if part % 2 else (Client(), nfs4.Client())
        for i in range(ROUNDS):
            offset = total + i * THREADS + part
            with lock:
                floor = highest
            if c3:
                after = c3.write(file, offset, b"3", UNSTABLE)[3][1]
                assert after is None or after.size > offset
                got = c4.attrs(handle4, "change", "size", "ctime")
            else:
                got = c4.one(nfs4.putfh(handle4), nfs4.write(offset, b"4"),
                             nfs4.getattr_("change", "size", "ctime"))
            assert got["change"] > floor, "an older change attribute after a write"
            assert got["size"] > offset
            with lock:
                highest = max(highest, got["change"])
    except BaseException as e:
        failures.append(e)


in_threads(work4)
assert client.getattr(file).size == total + THREADS * ROUNDS

# Each change moves the change time on, and removal by one name keeps the other.
stamps = []
for i in range(20):
    client.write(file, i, b"x")
    stamps.append(client.getattr(file).ctime)
assert stamps == sorted(set(stamps)), "two writes with one change time"
client.link(file, root, b"second")
client.remove(root, b"written")
assert client.getattr(file).nlink == 1
client.remove(root, b"second")
refused(STALE, client.getattr, file)
