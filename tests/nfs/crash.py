# SPDX-License-Identifier: LGPL-3.0-or-later
"""crash.py write ROUND FILE: changes from several connections until the server is gone; a line of
FILE for each one, when it has been answered. crash.py compare ROUND FILE: they are there."""
import sys
import threading

from nfs3 import *

THREADS = 4
what, number, path = sys.argv[1:]


def content(name):
    return f"{name} ".encode() * 300


def work(part, log, lock):
    client = Client()
    root = client.mount("/tarn")
    i = 0

    def answered(*line):
        with lock:
            print(*line, file=log, flush=True)

    try:
        while True:
            name = f"{number}-{part}-{i}"
            handle = client.create(root, name.encode(), mode=0o644)[0]
            answered("made", name)
            if i % 2:
                client.write(handle, 0, content(name), FILE_SYNC)
            else:
                client.write(handle, 0, content(name), UNSTABLE)
                client.commit(handle)
            answered("written", name)
            if i % 3 == 0:
                client.rename(root, name.encode(), root, f"{name}-new".encode())
                answered("renamed", name)
            i += 1
    except (OSError, EOFError, AssertionError):
        pass  # the server is gone


def write():
    lock = threading.Lock()
    with open(path, "w") as log:
        threads = [threading.Thread(target=work, args=(i, log, lock)) for i in range(THREADS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()


def compare():
    client = Client()
    root = client.mount("/tarn")
    names = {name: handle for name, handle in
             ((e.name.decode(), e.handle) for e in client.listing(root, client.readdirplus))}
    last = {}
    for line in open(path):
        verb, name = line.split()
        last.setdefault(name, set()).add(verb)
    for name, verbs in last.items():
        # A rename that was not answered may have been done.
        there = [n for n in (name, f"{name}-new") if n in names]
        assert len(there) == 1, (name, verbs, there)
        assert "renamed" not in verbs or there == [f"{name}-new"], name
        if "written" in verbs:
            handle = client.lookup(root, there[0].encode())
            assert client.read(handle, 0, 100000)[0] == content(name), name


{"write": write, "compare": compare}[what]()
