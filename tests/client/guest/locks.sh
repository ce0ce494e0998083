# SPDX-License-Identifier: LGPL-3.0-or-later
# locks.sh holder|contender VERS ROUND: two clients and byte-range locks on one file. flock() is
# a lock of the whole file on the server.
. /run/tests/lib/guest.sh
role=$1 round=$3

mount_pool "$2"
export round pool
python3 - "$role" <<'PY'
import errno, fcntl, os, sys, time

role, tag, pool = sys.argv[1], os.environ["round"], os.environ["pool"]
path = pool + "/locks-" + tag

def signal(what):
    open(f"/mnt/shared/{tag}-{what}", "w").close()

def wait(what):
    while not os.path.exists(f"/mnt/shared/{tag}-{what}"):
        time.sleep(0.05)

def refused(lock, *args):
    try:
        lock(*args)
    except OSError as e:
        assert e.errno in (errno.EAGAIN, errno.EACCES), e
        return True
    return False

EX, SH, NB, UN = fcntl.LOCK_EX, fcntl.LOCK_SH, fcntl.LOCK_NB, fcntl.LOCK_UN
if role == "holder":
    ranges = open(path, "w+")
    whole = open(path + "-flock", "w+")
    fcntl.lockf(ranges, EX, 100, 0)
    fcntl.lockf(ranges, SH, 100, 100)
    fcntl.flock(whole, EX)
    signal("locked")
    wait("tried")
    # The other side now waits for both; what it does next, it does with them held.
    fcntl.lockf(ranges, UN, 100, 0)
    wait("granted-range")
    assert refused(fcntl.lockf, ranges, EX | NB, 100, 0)
    whole.close()
    wait("granted-flock")
    # A lock in the way of itself is no conflict; a process that ends lets go of all.
    fcntl.lockf(ranges, EX, 50, 1000)
    if os.fork() == 0:
        assert refused(fcntl.lockf, open(path, "r+"), EX | NB, 1, 1049)
        fcntl.lockf(open(path, "r+"), EX | NB, 10, 1050)
        os._exit(0)
    assert os.wait()[1] == 0
    ranges.close()
    signal("gone")
else:
    wait("locked")
    ranges = open(path, "r+")
    whole = open(path + "-flock", "r+")
    assert refused(fcntl.lockf, ranges, EX | NB, 1, 99)
    assert refused(fcntl.lockf, ranges, EX | NB, 1, 150)
    fcntl.lockf(ranges, SH | NB, 50, 150)
    fcntl.lockf(ranges, EX | NB, 100, 200)
    assert refused(fcntl.flock, whole, EX | NB)
    assert refused(fcntl.flock, whole, SH | NB)
    signal("tried")
    fcntl.lockf(ranges, EX, 100, 0)
    signal("granted-range")
    fcntl.flock(whole, EX)
    signal("granted-flock")
    wait("gone")
    fcntl.lockf(ranges, EX | NB, 200, 1000)
PY
unmount_pool
