# SPDX-License-Identifier: LGPL-3.0-or-later
# Sourced after server.sh by tests on a Debian 12 with nothing in it but the base system. With
#
#   in_fresh_debian
#
# the rest of the test runs in namespaces for network, mounts and processes, where $fresh is such
# a system, with a copy of this repository (but what git ignores) in /root/tarn. This machine's
# network reaches the namespace through slirp4netns; its ports do not. Everything the test made
# goes when it ends.

in_fresh_debian() {
	local self guest
	if [ -z "${TARN_FRESH-}" ]; then
		export TARN_FRESH=1
		self=$(realpath "$0") # not below: it would be a child of guest for a moment
		unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private \
			"$self" &
		guest=$!
		trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
		wait_for 10 pgrep -P $guest
		slirp4netns --configure --mtu=1500 --disable-host-loopback "$(pgrep -P $guest)" tap0 \
			> /dev/null 2>&1 &
		wait $guest
		exit
	fi
	work=$(mktemp -d "${TMPDIR:-/var/tmp}/tarn-fresh.XXXXXX")
	fresh=$work/root
	trap 'umount -l "$fresh"/{proc,dev,run} 2> /dev/null || true; rm -rf --one-file-system "$work"' EXIT
	wait_for 20 grep -q tap0 /proc/net/route
	base_tar
	mkdir "$fresh"
	tar -C "$fresh" -xf "$build/debian-base.tar"
	mount -t proc proc "$fresh/proc"
	mount --rbind /dev "$fresh/dev"
	mount -t tmpfs tmpfs "$fresh/run"
	echo 'nameserver 10.0.2.3' > "$fresh/etc/resolv.conf"
	mkdir "$fresh/root/tarn"
	tar -C "$root" --exclude='./build*' --exclude=./.git -c . | tar -C "$fresh/root/tarn" -x
}

# The base system, made once for all tests: one makes it, others wait.
base_tar() {
	local mirror
	exec {lock}> "$build/debian-base.lock"
	flock $lock
	if [ ! -e "$build/debian-base.tar" ]; then
		mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' \
			'Codename: bookworm')
		# What is installed there need not survive a power cut.
		mkdir -p "$work/base/etc/dpkg/dpkg.cfg.d"
		echo force-unsafe-io > "$work/base/etc/dpkg/dpkg.cfg.d/unsafe-io"
		debootstrap --variant=minbase bookworm "$work/base" "$(head -1 <<< "$mirror")" \
			> "$work/log" || fail "debootstrap: $(tail "$work/log")"
		rm -f "$work"/base/var/cache/apt/archives/*.deb
		tar -C "$work/base" -cf "$work/base.tar" .
		mv "$work/base.tar" "$build/debian-base.tar"
		rm -rf "$work/base"
	fi
	exec {lock}>&-
}

# inside COMMAND...: in the fresh system.
inside() {
	chroot "$fresh" env -i PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@" \
		< /dev/null
}

# booted COMMAND: boots the fresh system (with systemd installed) on a kernel of its own, without a
# network, and runs COMMAND there as root once the services have started; its output and status.
booted() {
	local status
	umount -R "$fresh"/{proc,dev,run} # the kernel there has its own
	cat > "$fresh/etc/systemd/system/booted.service" <<-UNIT
		[Unit]
		After=multi-user.target
		[Service]
		Type=oneshot
		ExecStart=-/bin/sh -c '$1 > /root/booted.out 2>&1; echo \$\$? > /root/booted.status'
		ExecStopPost=systemctl --no-block poweroff
	UNIT
	gcc -D_GNU_SOURCE -O2 -shared -fPIC -o "$work/xstate.so" "$lib/uml-xstate.c"
	LD_PRELOAD=$work/xstate.so linux.uml mem=1G "umid=fresh.$$" root=/dev/root rootfstype=hostfs \
		"rootflags=$fresh" rw con=null con0=null,fd:1 ssl=null quiet systemd.wants=booted.service \
		< /dev/null > "$work/console" 2>&1 || true
	[ -e "$fresh/root/booted.status" ] || fail "it did not boot: $(tail -n 40 "$work/console")"
	cat "$fresh/root/booted.out"
	status=$(cat "$fresh/root/booted.status")
	rm "$fresh"/root/booted.* "$fresh/etc/systemd/system/booted.service"
	return "$status"
}
