# SPDX-License-Identifier: LGPL-3.0-or-later
"""names.py ROUNDS: one client makes a name, another takes it away at once; then all agree."""
import sys
import threading

import nfs4
from nfs3 import *

client, newer = Client(), nfs4.Client()
root = client.mount("/tarn")
top, other = client.mkdir(root, b"names")[0], client.mkdir(root, b"other")[0]
top4 = newer.root("/tarn/names")
file = client.create(root, b"file")[0]
maker, taker = Client(), Client()
NAMES = (b"file", b"folder", b"hard", b"renamed")
failures = []


def make(name):
    if name == b"file":
        maker.create(top, name, guarded=True)
    elif name == b"folder":
        maker.mkdir(top, name)
    elif name == b"hard":
        maker.link(file, top, name)
    else:
        maker.create(other, b"from", guarded=True)
        maker.rename(other, b"from", top, name)


def take(name):
    while not failures:
        try:
            if name == b"hard":
                return taker.remove(top, name)
            return taker.rename(top, name, other, name)
        except NfsError as e:
            assert e.status in (NOENT, JUKEBOX), e


def run(work, name):
    try:
        work(name)
    except BaseException as e:
        failures.append(e)


for i in range(int(sys.argv[1])):
    name = NAMES[i % len(NAMES)]
    threads = [threading.Thread(target=run, args=(work, name)) for work in (make, take)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]
    refused(NOENT, client.lookup, top, name)
    refused(NOENT, newer.open, top4, name)
    refused(NOENT, client.remove, top, name)
    assert client.listing(top) == []
    if name == b"folder":
        client.rmdir(other, name)
    elif name != b"hard":
        client.remove(other, name)
