# SPDX-License-Identifier: LGPL-3.0-or-later
"""late.py FOLDER: the exports of the pool "late", which comes, goes and comes again; FOLDER is
where it and the test tell each other how far they are."""
import os
import sys
import time

from nfs3 import *

shared = sys.argv[1]
START = 5  # of what is Tarn's in a handle
client = Client()
root, everything, late = client.mount("/tarn"), client.mount("/all"), client.mount("/late")


def ask(question, answer):
    open(os.path.join(shared, question), "w").close()
    end = time.monotonic() + 120
    while not os.path.exists(os.path.join(shared, answer)):
        assert time.monotonic() < end, f"no {answer}"
        time.sleep(0.05)


def eventually(expected, call, *args):
    """Until the call succeeds (expected OK) or is refused like that."""
    end, status = time.monotonic() + 60, None
    while status != expected:
        assert time.monotonic() < end, f"status {status}, not {expected}"
        try:
            call(*args)
            status = OK
        except NfsError as e:
            status = e.status
        time.sleep(0.05)


def moved(handle, export):
    """handle, given to the server as one of export."""
    return export[:START] + handle[START:]


refused(JUKEBOX, client.getattr, late)
refused(JUKEBOX, client.fsstat, late)
refused(JUKEBOX, client.lookup, late, b"b")
refused(STALE, client.getattr, moved(late, root))  # another export's root
ask("wants-late", "has-late")
eventually(OK, client.getattr, late)
late_b = client.lookup(late, b"b")
assert client.lookup(late_b, b"..") == late == client.lookup(late, b"..")
eventually(OK, client.lookup, everything, b"late")
all_late = client.lookup(everything, b"late")
all_late_a = client.lookup(all_late, b"a")
assert client.getattr(all_late_a)[8:10] == client.getattr(late)[8:10], "fsid and fileid"
# The same directory by its own handle; what is above it or in another pool is refused.
client.getattr(moved(all_late_a, late))
refused(STALE, client.getattr, moved(all_late, late))
refused(STALE, client.getattr, moved(root, late))
refused(STALE, client.getattr, moved(late_b, root))

# An export of a directory, which comes when it is made. Directories above or beside are
# refused, because they lead out of it.
sub = client.mount("/dir")
refused(NOENT, client.getattr, sub)
below = client.mkdir(client.mkdir(late_b, b"dir")[0], b"below")[0]
beside = client.mkdir(late_b, b"beside")[0]
eventually(OK, client.getattr, sub)
assert client.lookup(client.lookup(sub, b"below"), b"..") == sub
client.getattr(moved(below, sub))
for outside in (beside, late_b, late):
    refused(STALE, client.getattr, moved(outside, sub))

kept = client.create(late, b"kept")[0]
client.write(kept, 0, b"content", FILE_SYNC)
ask("wants-absence", "absent")
refused(JUKEBOX, client.write, kept, 0, b"later")
refused(JUKEBOX, client.fsstat, late)
refused(JUKEBOX, client.create, late, b"later")
eventually(NOENT, client.lookup, everything, b"late")
ask("wants-return", "returned")
assert client.read(kept, 0, 100) == (b"content", True)
client.write(kept, 0, b"after", FILE_SYNC)
client.create(late, b"after")
assert client.read(kept, 0, 100) == (b"afternt", True)
