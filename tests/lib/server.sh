# SPDX-License-Identifier: LGPL-3.0-or-later
# Sourced by tests that need a server: a folder of its own, a pool on files, ganesha with
# Tarn, kernel clients. A test begins with
#
#   . "$(dirname "$0")/../lib/server.sh"
#   in_testnet CLIENTS
#
# and from there on runs inside a testnet. Everything it made goes when it ends.
# TARN_BUILD names the build folder (default: build/).
set -euo pipefail
lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$lib/../.." && pwd)
here=$(cd "$(dirname "$0")" && pwd)
build=${TARN_BUILD:-$root/build}
size=${TARN_TEST_SIZE:-small}
server_pid=

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

# by_size SMALL MEDIUM LARGE: the one that TARN_TEST_SIZE asks for.
by_size() {
	case $size in
	small) echo "$1" ;;
	medium) echo "$2" ;;
	large) echo "$3" ;;
	*) fail "TARN_TEST_SIZE=$size" ;;
	esac
}

in_testnet() {
	[ -n "${SERVER_IP-}" ] || exec "$lib/testnet" --clients "$1" "$(realpath "$0")"
	work=$(mktemp -d "${TMPDIR:-/var/tmp}/tarn-test.XXXXXX")
	trap leave EXIT
	mkdir "$work/disks" "$work/shared"
	write_config
}

leave() {
	local status=$?
	trap - EXIT
	if [ $status -ne 0 ] && [ -e "$work/ganesha.log" ]; then
		echo "--- end of ganesha.log"
		tail -n 40 "$work/ganesha.log"
	fi
	if [ -n "$server_pid" ] && ! kill -9 "$server_pid" 2>/dev/null; then
		wait "$server_pid" || echo "--- ganesha had ended by itself, status $?"
	fi
	rm -rf "$work"
	exit $status
}

# wait_for SECONDS COMMAND...: until COMMAND succeeds.
wait_for() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || fail "waited in vain for: $*"
		sleep 0.1
	done
}

# Disk N is the file $work/disks/N.
make_disks() {
	local i
	for ((i = 0; i < $1; i++)); do truncate -s "$2" "$work/disks/$i"; done
}

# write_config [LINE...]: lines added at the end, in blocks of their own.
write_config() {
	{
		cat <<-CONF
			NFS_CORE_PARAM {
				Plugins_Dir = "$build/fsal";
				mount_path_pseudo = true;
				NFSACL_Program = 400227;
				Getattrs_In_Complete_Read = false;
				DRC_TCP_Hiwat = 256;
			}
			NFSV4 { ${NFSV4_CONFIG:-Graceless = true;} Minor_Versions = 0,1,2; }
			EXPORT {
				Export_Id = 1; Path = /tarn; Pseudo = /tarn;
				Access_Type = RW; Squash = No_Root_Squash; SecType = sys;
				FSAL { Name = TARN; }
			}
		CONF
		printf '%s\n' "$@"
	} > "$work/ganesha.conf"
}

server_up() {
	kill -0 "$server_pid" 2>/dev/null || fail "ganesha did not stay up"
	grep -qs 'NFS SERVER INITIALIZED' "$work/ganesha.log"
}

server_start() {
	rm -f "$work/ganesha.log"
	ganesha.nfsd -F -f "$work/ganesha.conf" -L "$work/ganesha.log" -N EVENT \
		-p "$work/ganesha.pid" &
	server_pid=$!
	wait_for 60 server_up
}

server_stop() {
	local status=0
	kill -TERM "$server_pid"
	wait "$server_pid" || status=$?
	server_pid=
	[ $status = 0 ] || fail "ganesha ended with status $status"
}

server_kill() {
	kill -9 "$server_pid"
	wait "$server_pid" 2>/dev/null || true
	server_pid=
}

tarn() {
	"$build/tools/tarn" "$@"
}

# The end of every test with a pool: an orderly stop, then the offline check.
finish() {
	server_stop
	"$build/tools/tarnck" -u 3 -d "$work/disks"
}

# client N SCRIPT [ARG...]: runs tests/client/guest/SCRIPT on client N; $work/shared is its
# /mnt/shared. client_root: the root of a 32-bit client; client_limit: its seconds.
client() {
	local n=$1 script=$root/tests/client/guest/$2
	shift 2
	"$lib/uml-client" -n "$n" -w "$work/shared" ${client_root:+-r "$client_root"} \
		${client_limit:+-t "$client_limit"} "$script" "$@"
}

# wait_clients N: until N clients in the background have ended well.
wait_clients() {
	local i
	for ((i = 0; i < $1; i++)); do wait -n || fail "a client failed (status $?)"; done
}

# serve_disks COUNT SIZE GROUP...: server up, pool "tarn" made; GROUP as in
# "mirror 0 1" with numbers for disks.
serve_disks() {
	local word words=()
	make_disks "$1" "$2"
	shift 2
	for word; do
		case $word in
		[0-9]*) words+=("$work/disks/$word") ;;
		*) words+=("$word") ;;
		esac
	done
	server_start
	tarn pool create tarn "${words[@]}"
}

# Clients and the host tell each other how far they are.
signal() { : > "$work/shared/$1"; }
await() { wait_for "${2:-300}" test -e "$work/shared/$1"; }

# ganesha's source for the clients: /mnt/shared/tarball, and config.h to compile it with.
share_source() {
	cp "$root"/build/_deps/ganesha/*.orig.tar.* "$work/shared/tarball"
	cp "$root/build/_deps/ganesha/config.h" "$work/shared"
}
