#!/bin/sh
# Usage: hack/fuzz.sh TIME
#
# Runs each fuzz target of the module for TIME; go test -fuzz takes one target of one package at a time.
set -eu

grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -r -n 1 dirname | sort -u | while read -r dir; do
	go test -list '^Fuzz' "$dir" | grep '^Fuzz' | while read -r target; do
		echo "== $dir $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$dir" </dev/null
	done
done
