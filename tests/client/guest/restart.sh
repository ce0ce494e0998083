# SPDX-License-Identifier: LGPL-3.0-or-later
# Works on mounts of every NFS version while the server goes away and comes back, until the host
# says stop. Afterwards everything must be as the answered operations left it.
. /run/tests/lib/guest.sh

for vers in $versions; do
	mkdir -p "$pool-$vers"
	mount -t nfs -o "vers=$vers,proto=tcp,hard,timeo=20" "$SERVER_IP:/tarn" "$pool-$vers"
	mkdir "$pool-$vers/work-$vers"
done

cat > /tmp/worker.py <<'PY'
import fcntl, os, random, sys, time

base, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(seed)
print("seed", seed, base)
os.chdir(base)
files = {}          # what must be there: name -> content
serial = 0

# Held through all restarts: an open, locked, unlinked file, and a working directory.
locked = open("locked", "w+b")
fcntl.lockf(locked, fcntl.LOCK_EX, 10)
gone = open("gone", "w+b")
gone.write(b"still here")
gone.flush()
os.fsync(gone.fileno())
os.unlink("gone")
open("/tmp/ready-" + os.path.basename(base), "w").close()

def content():
    return rng.randbytes(rng.choice((0, 1, 100, 5000, 200000)))

def create():
    global serial
    serial += 1
    name, data = f"f{serial}", content()
    with open(name, "wb") as f:
        f.write(data)
        f.flush()
        if rng.random() < 0.5:
            os.fsync(f.fileno())
    files[name] = data

def rewrite():
    name = rng.choice(list(files))
    data = bytearray(files[name])
    at = rng.randrange(len(data) + 1)
    patch = rng.randbytes(3000)
    with open(name, "r+b") as f:
        f.seek(at)
        f.write(patch)
    data[at:at + len(patch)] = patch
    files[name] = bytes(data)

def once(call, *args, done):
    """A killed server may have done what it did not answer: what is sent again then fails so.
    Whether it was done right is seen in the end."""
    try:
        call(*args)
    except done:
        pass

def rename():
    a, b = rng.choice(list(files)), rng.choice(list(files))
    once(os.rename, a, b, done=FileNotFoundError)
    files[b] = files.pop(a)

def unlink():
    name = rng.choice(list(files))
    once(os.unlink, name, done=FileNotFoundError)
    del files[name]

def link():
    global serial
    serial += 1
    name = rng.choice(list(files))
    once(os.link, name, f"l{serial}", done=FileExistsError)
    once(os.unlink, name, done=FileNotFoundError)
    files[f"l{serial}"] = files.pop(name)

while not os.path.exists("/mnt/shared/stop"):
    step = rng.choice((create, create, rewrite, rename, unlink, link))
    if step is create or len(files) > 1:
        step()
        open("/mnt/shared/goes-on-" + os.path.basename(base), "w").close()

locked.write(b"x")
locked.flush()
gone.seek(0)
assert gone.read() == b"still here"
locked.close()
gone.close()

def check(when):
    os.chdir(base)
    # What was open when it was removed goes some time after the close.
    while any(name.startswith(".nfs") for name in os.listdir(".")):
        time.sleep(0.1)
    wrong = set(os.listdir(".")) ^ (set(files) | {"locked"})
    assert not wrong, (when, wrong)
    for name, data in files.items():
        with open(name, "rb") as f:
            assert f.read() == data, (when, name)
    os.chdir("/")

check("by the client that wrote")
open("/tmp/synced-" + os.path.basename(base), "w").close()
while not os.path.exists("/tmp/remounted"):
    time.sleep(0.1)
check("from the server alone")
print(serial, "files made in", base)
PY

workers=()
for vers in $versions; do
	python3 /tmp/worker.py "$pool-$vers/work-$vers" $RANDOM &
	workers+=($!)
done
for vers in $versions; do
	until [ -e "/tmp/ready-work-$vers" ]; do sleep 0.1; done
done
signal working
for vers in $versions; do
	until [ -e "/tmp/synced-work-$vers" ]; do sleep 0.1; done
done
for vers in $versions; do
	umount "$pool-$vers"
	mount -t nfs -o "vers=$vers,proto=tcp,hard" "$SERVER_IP:/tarn" "$pool-$vers"
done
: > /tmp/remounted
for worker in "${workers[@]}"; do wait "$worker"; done
