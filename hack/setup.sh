#!/bin/sh
# Usage: hack/setup.sh [--update]
#
# Installs the Debian packages that building and testing need, those that are missing, and a Go that can fetch the
# version that go.mod asks for. With --update it fetches apt's package lists even if nothing is missing.
set -eu

export DEBIAN_FRONTEND=noninteractive

die() {
	echo "setup: $1" >&2
	exit 1
}

# Mirrors are now and then in the middle of a change, and then apt-get update fails for a minute.
update() {
	for pause in 2 10 30; do
		if apt-get update -qq "$@" </dev/null >&2; then
			return
		fi
		echo "setup: apt-get update failed, next try in $pause s" >&2
		sleep $pause
	done
	apt-get update -qq "$@" </dev/null >&2
}

install() {
	apt-get install -qq -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" </dev/null >&2
}

# Whether the go command is there and knows how to fetch the toolchain that go.mod names (1.21 and later do).
go_is_able() {
	minor=$(go env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
	[ "${minor:-0}" -ge 21 ]
}

# Debian 12 itself has Go 1.19, its backports have 1.23. They are added for these two commands only.
install_go() {
	# shellcheck disable=SC2016 # apt's own format
	site=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
		sed -n 's/ bookworm$//p' | head -n 1)
	[ -n "$site" ] || die "Go 1.26 or later is needed: install it from https://go.dev/dl and put it on the PATH"
	parts=$(mktemp -d)
	trap 'rm -rf "$parts"' EXIT
	cp /etc/apt/sources.list.d/* "$parts/" 2>/dev/null || true
	echo "deb $site bookworm-backports main" >"$parts/backports.list"
	update -o "Dir::Etc::sourceparts=$parts"
	install -o "Dir::Etc::sourceparts=$parts" -t bookworm-backports golang-go
}

missing=
need() { # COMMAND PACKAGE...
	command -v "$1" >/dev/null || { shift; missing="$missing $*"; }
}
need runc runc
need crun crun # tests use both
need git git
need busybox busybox-static # the images of tests
need gcc gcc libc6-dev # go test -race links C
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing="$missing ca-certificates"
go_is_able || missing="$missing golang-go"

lists=$(find /var/lib/apt/lists -name '*_Packages*' 2>/dev/null | head -n 1)
if [ -z "$missing" ] && [ -n "$lists" ] && [ "${1-}" != --update ]; then
	exit
fi
command -v apt-get >/dev/null || die "this machine has no apt-get; install by hand:$missing"
[ "$(id -u)" = 0 ] || die "run this as root, or as root: apt-get update && apt-get install -y$missing"
update
for package in $missing; do
	if [ "$package" = golang-go ]; then
		install_go
	else
		install "$package"
	fi
done
