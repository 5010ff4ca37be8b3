#!/bin/sh
# What some tests need beyond Go: Postgres (the store's contract) and Chromium (the HTML report in a real
# browser). Says what is missing and what it does about it, then installs it where that can be done: as root, with
# apt-get. SPATE_TEST_DEPS=skip installs nothing. Tests whose program is missing do not run, and this says which.
# Never fails: the tests that need nothing run anyway.

has_postgres() {
	command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}

has_chromium() {
	for name in chromium chromium-browser google-chrome google-chrome-stable chrome headless-shell chrome-headless-shell; do
		command -v "$name" >/dev/null 2>&1 && return 0
	done
	return 1
}

say() { printf '%s\n' "$*" >&2; }

install() {
	say "Some tests need programs that are not here:"
	has_postgres || say "  postgresql  the store's tests start a Postgres server of their own"
	has_chromium || say "  chromium    the report's tests open the HTML page in a browser"
	say "Installing them now, into the system: apt-get update && apt-get install --no-install-recommends$missing"
	say "This takes a minute or two. To install nothing: make test SPATE_TEST_DEPS=skip"
	# A package must not start its service here: the tests run a server of their own.
	(
		export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
		timeout 300 apt-get update -qq &&
			for package in $missing; do
				say "installing $package"
				timeout 900 apt-get install -y -qq --no-install-recommends "$package" || say "could not install $package"
			done
	) >/dev/null
}

missing=
has_postgres || missing="$missing postgresql"
has_chromium || missing="$missing chromium"
[ -z "$missing" ] && exit 0

case ${SPATE_TEST_DEPS:-install} in
skip) say "SPATE_TEST_DEPS=skip: nothing is installed; missing:$missing" ;;
install) if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then install; fi ;;
*) say "SPATE_TEST_DEPS=$SPATE_TEST_DEPS: want skip or install; nothing is installed" ;;
esac

if ! has_postgres; then
	say '!!!'
	say "!!! postgres is not installed: the store's tests against Postgres do not run"
	say '!!!'
fi
if ! has_chromium; then
	say '!!!'
	say '!!! chromium is not installed: the tests of the HTML report in a browser do not run'
	say '!!!'
fi
exit 0
