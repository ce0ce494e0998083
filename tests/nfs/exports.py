# SPDX-License-Identifier: LGPL-3.0-or-later
"""exports.py make|writable|absent PSEUDO, mount PSEUDO FILE, readonly|stale|live FILE."""
import sys
import time

from nfs3 import *

what, subject = sys.argv[1:3]
client = Client()

if what == "make":
    client.mkdir(client.mount(subject), b"dir")
elif what == "writable":
    name = b"file-%d" % time.time_ns()
    root = client.mount(subject)
    file = client.create(root, name)[0]
    client.write(file, 0, b"content", FILE_SYNC)
    assert client.read(client.lookup(root, name), 0, 100) == (b"content", True)
    client.remove(root, name)
elif what == "absent":
    try:
        client.mount(subject)
    except NfsError:
        sys.exit()
    sys.exit("%s can be mounted" % subject)
elif what == "mount":
    with open(sys.argv[3], "wb") as f:
        f.write(client.mount(subject))
else:
    handle = open(subject, "rb").read()
    if what == "readonly":
        client.getattr(handle)
        refused(ROFS, client.create, handle, b"new")
    elif what == "stale":
        refused(STALE, client.getattr, handle)
    else:
        client.getattr(handle)
        client.listing(handle)
