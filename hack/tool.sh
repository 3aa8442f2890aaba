#!/bin/sh
# Usage: hack/tool.sh NAME
#
# Builds the development tool whose module is tools/NAME, once, into the cache folder outside the checkout, and prints
# the path of its binary. Each tool has a module of its own, so that no tool moves a dependency of another's or of ours.
set -eu

name=$1
module=$(cd "$(dirname "$0")/../tools/$name" && pwd)
package=$(sed -n 's/^tool //p' "$module/go.mod")
# Of the requirements the one whose path the tool's package lies in.
version=$(awk -v pkg="$package" '
	$1 == "require" { $1 = $2; $2 = $3 }
	$2 ~ /^v/ && index(pkg, $1 "/") == 1 { print $2 }' "$module/go.mod")
if [ -z "$version" ]; then
	echo "tools/$name/go.mod names no version of $package: add it with 'go get -tool $package@VERSION'" >&2
	exit 1
fi

cache=${XDG_CACHE_HOME:-$HOME/.cache}/nohuddle/tools/$name/$version-$(go env GOVERSION)
if [ ! -x "$cache/$name" ]; then
	echo "building $name $version into $cache" >&2
	mkdir -p "$cache"
	# Another make may build the same: each builds a file of its own, the last rename wins.
	tmp=$cache/.$name.$$
	trap 'rm -f "$tmp"' EXIT
	(cd "$module" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$tmp" "$package")
	mv "$tmp" "$cache/$name"
fi
echo "$cache/$name"
