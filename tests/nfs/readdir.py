# SPDX-License-Identifier: LGPL-3.0-or-later
"""Listing of directories: every name once, from any cookie, while others change them."""
import random
import sys
import threading

from nfs3 import *

count, seed = int(sys.argv[1]), random.getrandbits(32)
print("files", count, "seed", seed)
rng = random.Random(seed)
client = Client()
top = client.mkdir(client.mount("/tarn"), b"readdir-%08x" % seed)[0]


def in_threads(n, work):
    """work(client, i) in n threads, each with a connection; the first failure is raised."""
    failures = []

    def run(i):
        try:
            work(Client(), i)
        except BaseException as e:
            failures.append(e)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def fill(c, part):
    for i in range(part, count, 16):
        c.create(top, b"stable-%06d" % i + b"x" * (i % 50))


in_threads(16, fill)
truth = {b"stable-%06d" % i + b"x" * (i % 50) for i in range(count)}


def names(entries):
    return [e.name for e in entries]


def once_each(entries, of=truth):
    """Every name of `of` exactly once, cookies unique and rising."""
    seen = names(entries)
    assert len(set(seen)) == len(seen), "a name appears twice"
    assert of <= set(seen), f"missing: {sorted(of - set(seen))[:5]}"
    cookies = [e.cookie for e in entries]
    assert cookies == sorted(set(cookies)), "cookies do not rise"
    assert cookies[0] > 2 and cookies[-1] < 1 << 31
    return entries


# Pages of all sizes agree with the truth.
order = once_each(client.listing(top))
assert set(names(order)) == truth
for dircount, maxcount in ((512, 1024), (512, 65536), (1024, 4096), (4096, 8192), (8192, 32768),
                           (65536, 65536)):
    plus = client.listing(top, client.readdirplus, dircount=dircount, maxcount=maxcount)
    assert [(e.name, e.cookie) for e in plus] == [(e.name, e.cookie) for e in order]
    assert all(e.attr and e.handle and e.attr.fileid == e.fileid for e in plus)

# Handles and attributes are those that LOOKUP and GETATTR tell, of files of all types, over a
# change too.
kinds = client.mkdir(top, b"kinds")[0]
made = {b"file": client.create(kinds, b"file")[0], b"link": client.symlink(kinds, b"link", b"to")[0],
        b"fifo": client.mknod(kinds, b"fifo", FIFO)[0], b"dir": client.mkdir(kinds, b"dir")[0]}
client.link(made[b"file"], kinds, b"again")
made[b"again"] = made[b"file"]
for mode in (0o640, 0o604):
    client.setattr(made[b"file"], mode=mode)
    listed = client.listing(kinds, client.readdirplus)
    assert {e.name: e.handle for e in listed} == made
    for e in listed:
        assert e.attr == client.getattr(e.handle) and e.handle == client.lookup(kinds, e.name), e
for name in made:
    (client.rmdir if name == b"dir" else client.remove)(kinds, name)
client.rmdir(top, b"kinds")

# From every cookie the listing goes on with the next name.
for i, entry in enumerate(order[:-1]):
    page = client.readdir(top, entry.cookie, count=1024)[0]
    assert page and names(page) == names(order[i + 1:i + 1 + len(page)]), f"after {entry}"
assert client.readdir(top, order[-1].cookie)[:2] == ([], True)

# A client that goes back a little, and to places of entries that have gone.
at = 0
while at < len(order) - 1:
    page = client.readdirplus(top, order[at].cookie, dircount=2048, maxcount=16384)[0]
    assert names(page) == names(order[at + 1:at + 1 + len(page)])
    at += max(1, len(page) - rng.randrange(4))
for at in rng.sample(range(1, len(order) - 1), min(200, count // 10)):
    client.remove(top, order[at].name)
    truth.discard(order[at].name)
    page = [e for e in client.readdir(top, order[at].cookie, count=1024)[0]]
    follow = [n for n in names(order[at + 1:]) if n in truth]
    assert names(page) == follow[:len(page)], "resuming behind a removed entry"
assert set(names(client.listing(top))) == truth

# While others create, remove and rename: what stays in place is there once, in every listing.
stop = threading.Event()


def disturb(c, part):
    r = random.Random(seed + part)
    mine = []
    while not stop.is_set():
        if len(mine) < 50 or r.random() < 0.4:
            name = b"passing-%d-%d" % (part, r.getrandbits(40))
            c.create(top, name)
            mine.append(name)
        elif r.random() < 0.5:
            c.remove(top, mine.pop(r.randrange(len(mine))))
        else:
            i = r.randrange(len(mine))
            c.rename(top, mine[i], top, mine[i] + b"'")
            mine[i] += b"'"
    for name in mine:
        c.remove(top, name)


def list_often(c, part):
    if part < 2:
        return disturb(c, part)
    try:
        for i in range(3):
            call = c.readdirplus if (i + part) % 2 else c.readdir
            sizes = {"dircount": 1024, "maxcount": 8192} if (i + part) % 2 else {"count": 4096}
            once_each(c.listing(top, call, **sizes), truth)
    finally:
        done.append(part)
        if len(done) == 2:
            stop.set()


done = []
in_threads(4, list_often)


# Several listings at once of what the server has just forgotten: the name that a rename replaces
# makes it read the directory again. None passes over a name, nor does one that follows.
def list_twice(c, part):
    for _ in range(2):
        once_each(c.listing(top, c.readdirplus, dircount=8192, maxcount=65536), truth)


for i in range(10):
    for name in (b"over", b"with"):
        client.create(top, name)
    client.rename(top, b"with", top, b"over")
    in_threads(4, list_twice)
client.remove(top, b"over")

# Names that come to mean another file, between listings: still there once.
replaced = client.mkdir(top, b"replaced")[0]
for i in range(5):
    client.create(replaced, b"name-%d" % i)
for i in range(60):
    client.create(replaced, b"temporary")
    client.rename(replaced, b"temporary", replaced, b"name-%d" % (i % 5))
    listed = client.listing(replaced, client.readdirplus)
    assert sorted(names(listed)) == [b"name-%d" % n for n in range(5)]
    client.setattr(replaced, mode=0o755 - i % 2)
for i in range(5):
    client.remove(replaced, b"name-%d" % i)
client.rmdir(top, b"replaced")

# Lookups beside listings of the same directory: both get on (and each finds what it should).
def look(c, part):
    if part % 2:
        once_each(c.listing(top, c.readdirplus, dircount=8192, maxcount=65536), truth)
    else:
        for name in random.Random(part).sample(sorted(truth), min(500, len(truth))):
            c.lookup(top, name)


in_threads(6, look)

# Removal in the middle of a listing, as rm -rf does it, until nothing is left.
cookie, verifier, eof = 0, bytes(8), False
while not eof:
    page, eof, verifier = client.readdir(top, cookie, verifier, count=2048)
    for entry in page:
        cookie = entry.cookie
        if entry.name not in (b".", b".."):
            client.remove(top, entry.name)
assert client.listing(top) == [], "names were passed over"
parent = client.mount("/tarn")
client.rmdir(parent, b"readdir-%08x" % seed)
