# SPDX-License-Identifier: LGPL-3.0-or-later
"""handles.py make|same|exported|absent|gone STATE: handles kept over everything that may happen to a pool."""
import json
import sys

from nfs3 import *

phase, state = sys.argv[1:]
client = Client()

if phase == "make":
    root = client.mount("/tarn")
    a = client.lookup(root, b"a")
    top = client.mkdir(a, b"top")[0]
    file = client.create(top, b"file")[0]
    client.write(file, 0, b"content", FILE_SYNC)
    client.rename(top, b"file", a, b"renamed")
    handles = {"root": root, "a": a, "top": top, "file": file}
    stats = {k: (client.getattr(h).fsid, client.getattr(h).fileid) for k, h in handles.items()}
    with open(state, "w") as f:
        json.dump([{k: h.hex() for k, h in handles.items()}, stats], f)
    sys.exit()

handles, stats = json.load(open(state))
handles = {k: bytes.fromhex(h) for k, h in handles.items()}
if phase == "exported":
    # Attributes may still come from the server's cache; data does not.
    refused(JUKEBOX, client.read, handles["file"], 0, 100)
    refused(JUKEBOX, client.create, handles["top"], b"new")
    sys.exit()
for name, handle in handles.items():
    if phase == "absent":
        # The pool may come: "try later", never STALE.
        refused(JUKEBOX, client.getattr, handle)
    elif phase == "gone" and name != "root":
        refused(STALE, client.getattr, handle)
    else:
        attr = client.getattr(handle)
        assert [attr.fsid, attr.fileid] == stats[name], name
if phase == "same":
    assert client.read(handles["file"], 0, 100) == (b"content", True)
