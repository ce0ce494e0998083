# SPDX-License-Identifier: LGPL-3.0-or-later
"""full.py fill|check STATE: a pool filled by unstable writes of several clients."""
import json
import random
import sys
import threading

from nfs3 import *

PIECE, WRITERS = 50000, 4  # pieces that fit no record
client = Client()
root = client.mount("/tarn")


def piece(seed, at):
    return random.Random(seed * 1000003 + at).randbytes(PIECE)


def check(acknowledged):
    for name, (seed, pieces) in acknowledged.items():
        handle = client.lookup(root, name.encode())
        for at in pieces:
            assert client.read(handle, at * PIECE, PIECE)[0] == piece(seed, at), (name, at)


def fill(part, acknowledged):
    c, seed = Client(), random.getrandbits(32)
    name = b"file-%d" % part
    handle, pieces, refusals = c.create(root, name)[0], [], 0
    order = iter(random.Random(seed).sample(range(20000), 20000))
    while refusals < 20:
        at = next(order)
        try:
            count, how, _, _ = c.write(handle, at * PIECE, piece(seed, at))
        except NfsError as e:
            assert e.status == NOSPC, e
            refusals += 1
            continue
        assert count == PIECE, "cut short"
        pieces.append(at)
    acknowledged[name.decode()] = seed, pieces


if sys.argv[1] == "check":
    check(json.load(open(sys.argv[2])))
    # It can be used again, after things have gone.
    for part in range(WRITERS):
        client.remove(root, b"file-%d" % part)
    sys.exit()

acknowledged, failures = {}, []


def run(part):
    try:
        fill(part, acknowledged)
    except BaseException as e:
        failures.append(e)


threads = [threading.Thread(target=run, args=(part,)) for part in range(WRITERS)]
for t in threads:
    t.start()
for t in threads:
    t.join()
if failures:
    raise failures[0]
print({name: len(pieces) for name, (_, pieces) in acknowledged.items()}, "pieces")
for name in acknowledged:
    client.commit(client.lookup(root, name.encode()))
check(acknowledged)
# Writes over what is there need space for the new version: done or refused, never cut short.
for name, (seed, pieces) in acknowledged.items():
    handle = client.lookup(root, name.encode())
    for at in pieces[:50]:
        try:
            assert client.write(handle, at * PIECE, piece(seed, at))[0] == PIECE
        except NfsError as e:
            assert e.status == NOSPC
    client.commit(handle)
check(acknowledged)
# What frees works, with and without bytes to free; an empty range is truncated at no cost.
names = 0
try:
    while names < 100000:
        client.create(root, b"small-%d" % names)
        client.write(client.lookup(root, b"small-%d" % names), 0, random.randbytes(5000), FILE_SYNC)
        names += 1
except NfsError as e:
    assert e.status == NOSPC
for entry in client.listing(root):
    if entry.name.startswith(b"small"):
        client.setattr(client.lookup(root, entry.name), size=1)
        client.remove(root, entry.name)
check(acknowledged)
json.dump(acknowledged, open(sys.argv[2], "w"))
