# SPDX-License-Identifier: LGPL-3.0-or-later
"""forget.py FILE...: takes back the writes to FILE that its server, run with forget.c, had not made
durable when it was killed. The last record of FILE.undo may be cut off: its write has not begun, or,
if it was a durable one, was not answered."""
import os
import struct
import sys

HEAD = struct.Struct("<QQQ")

for path in sys.argv[1:]:
    try:
        undo = open(path + ".undo", "rb").read()
    except FileNotFoundError:
        continue
    records, at = [], 0
    while at + HEAD.size <= len(undo):
        durable, offset, length = HEAD.unpack_from(undo, at)
        data = undo[at + HEAD.size:at + HEAD.size + length]
        at += HEAD.size + length
        if len(data) == length:
            records.append((durable, offset, data))
    with open(path, "r+b") as f:
        for durable, offset, data in reversed(records):
            if not durable:
                f.seek(offset)
                f.write(data)
        for durable, offset, data in records:
            if durable:
                f.seek(offset)
                f.write(data)
    os.truncate(path + ".undo", 0)
    print(f"{path}: {len(records)} writes forgotten or kept alone")
