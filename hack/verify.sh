#!/bin/sh
# Usage: hack/verify.sh MODULE...
#
# Fails, naming each place, if files are not formatted, generated files differ from what would be generated now, go vet
# complains or a module's go.mod and go.sum are not tidy. It changes no file.
set -eu

failed=0
fail() {
	echo "verify: $1" >&2
	failed=1
}

# Go files that git knows or would take: not those of caches and builds.
unformatted=$(git ls-files -co --exclude-standard '*.go' | while read -r f; do [ ! -e "$f" ] || echo "$f"; done | xargs gofmt -l)
[ -z "$unformatted" ] || fail "not formatted, run gofmt -w: $unformatted"

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
controller_gen=$(hack/tool.sh controller-gen)
for dir in api/*; do
	"$controller_gen" object paths="./$dir" output:object:dir="$out"
	diff -u "$dir/zz_generated.deepcopy.go" "$out/zz_generated.deepcopy.go" >&2 || fail "$dir is not as generated, run make generate"
done

for module in "$@"; do
	if ! diff=$(cd "$module" && go mod tidy -diff 2>&1); then
		echo "$diff" | head -n 20 >&2
		fail "$module/go.mod is not tidy, run go mod tidy there"
	fi
done
go vet ./... || fail "go vet complains"
exit $failed
