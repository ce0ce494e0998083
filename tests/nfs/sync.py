# SPDX-License-Identifier: LGPL-3.0-or-later
"""sync.py write: files in datasets with sync=standard, always and disabled. sync.py compare: what is
there after a crash."""
import sys

from nfs3 import *

FILES = 50
client = Client()


def root_of(dataset):
    return client.mount(f"/tarn/{dataset}")


def write():
    for dataset, asked, told in (("standard", UNSTABLE, UNSTABLE), ("standard", FILE_SYNC, FILE_SYNC),
                                 ("always", UNSTABLE, FILE_SYNC), ("always", DATA_SYNC, FILE_SYNC),
                                 ("always/below", UNSTABLE, FILE_SYNC),
                                 ("disabled", UNSTABLE, UNSTABLE), ("disabled", FILE_SYNC, FILE_SYNC)):
        handle = client.create(root_of(dataset), f"{asked}".encode(), mode=0o644)[0]
        written, how, _, _ = client.write(handle, 0, b"x" * 5000, asked)
        assert (written, how) == (5000, told), (dataset, asked, how)
    root = root_of("disabled")
    for i in range(FILES):
        handle = client.create(root, f"file{i}".encode(), mode=0o644)[0]
        client.write(handle, 0, b"y" * 100, FILE_SYNC)
        client.commit(handle)


def there(root, name):
    try:
        handle = client.lookup(root, name)
    except NfsError as error:
        assert error.status == NOENT
        return None
    return client.read(handle, 0, 10000)[0]


def compare():
    for dataset, asked in (("standard", FILE_SYNC), ("always", UNSTABLE), ("always", DATA_SYNC),
                           ("always/below", UNSTABLE)):
        assert there(root_of(dataset), f"{asked}".encode()) == b"x" * 5000, (dataset, asked)
    # The last ones may be missing, one after the other.
    root = root_of("disabled")
    names = [there(root, f"file{i}".encode()) is not None for i in range(FILES)]
    assert names == sorted(names, reverse=True), names


write() if sys.argv[1] == "write" else compare()
