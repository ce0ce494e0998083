# SPDX-License-Identifier: LGPL-3.0-or-later
# Sourced by the tests of tarn, after ../lib/server.sh.

# refused STATUS PATTERN COMMAND...: ends with STATUS and a message that the extended regular
# expression matches; nothing on standard output.
refused() {
	local wanted=$1 pattern=$2 status=0 out err
	shift 2
	err=$(mktemp)
	out=$("$@" 2>"$err") || status=$?
	[ $status = "$wanted" ] || fail "status $status, not $wanted: $* ($(cat "$err"))"
	[ "$wanted" = 2 ] || [ -z "$out" ] || fail "'$*' printed: $out"
	grep -qE -- "$pattern" "$err" || fail "'$*' says '$(cat "$err")', not '$pattern'"
	rm "$err"
}

# shows TEXT COMMAND...: prints exactly TEXT.
shows() {
	local wanted=$1 out
	shift
	out=$("$@") || fail "status $?: $*"
	[ "$out" = "$wanted" ] || fail "'$*' shows:
$out
instead of:
$wanted"
}

# json EXPRESSION COMMAND...: the output is JSON of version 1, for which the Python expression
# about the object d is true.
json() {
	local expression=$1
	shift
	"$@" | python3 -c 'import json, sys
d = json.load(sys.stdin)
sys.exit(0 if d["version"] == 1 and eval(sys.argv[1]) else repr(d))' "$expression" ||
		fail "'$*' does not satisfy $expression"
}
