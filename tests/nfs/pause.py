# SPDX-License-Identifier: LGPL-3.0-or-later
"""pause.py: stable writes and creates from several connections until the file "stop" is there; each
answered one is a line of the file "answered". pause.py compare: all of them are there."""
import os
import sys
import threading

from nfs3 import *

shared = os.environ["PAUSE_DIR"]
THREADS = 4
client = Client()
root = client.mount("/tarn")


def content(part, n):
    return f"{part} {n} ".encode() * 100


def work(part, log, lock):
    c = Client()
    n = 0
    while not os.path.exists(f"{shared}/stop"):
        handle = c.create(root, f"{part}-{n}".encode(), mode=0o644)[0]
        c.write(handle, 0, content(part, n), FILE_SYNC)
        with lock:
            log.write(f"{part} {n}\n")
        n += 1


def write():
    with open(f"{shared}/answered", "w", buffering=1) as log:
        lock = threading.Lock()
        threads = [threading.Thread(target=work, args=(i, log, lock)) for i in range(THREADS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()


def compare():
    for line in open(f"{shared}/answered"):
        part, n = line.split()
        handle = client.lookup(root, f"{part}-{n}".encode())
        data = content(int(part), int(n))
        assert client.read(handle, 0, len(data) + 1)[0] == data, line


compare() if sys.argv[1:] else write()
