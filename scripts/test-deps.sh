#!/bin/sh
# What some tests need beyond Go: Postgres (the store's contract) and Chromium (the HTML report in a real
# browser). Says what is missing and what it would do about it: as root, with apt-get. At a terminal it asks before it
# installs anything. Elsewhere (CI=true, or standard input is no terminal) nobody can answer, so it installs without
# asking, and says so. SPATE_TEST_DEPS=install never asks, SPATE_TEST_DEPS=skip installs nothing. Tests whose program
# is missing do not run, and this says which. Never fails: the tests that need nothing run anyway.

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

# wanted says what would be done and why, and whether to do it.
wanted() {
	say "Some tests need programs that are not here:"
	has_postgres || say "  postgresql  the store's tests start a Postgres server of their own"
	has_chromium || say "  chromium    the report's tests open the HTML page in a browser"
	say "To install them into the system: apt-get update && apt-get install --no-install-recommends$missing"
	if [ "$choice" = install ]; then
		say "SPATE_TEST_DEPS=install: installing without asking."
		return 0
	fi
	if [ "${CI:-}" = true ] || ! [ -t 0 ]; then
		say "CI=true, or standard input is no terminal: installing without asking. To install nothing: SPATE_TEST_DEPS=skip"
		return 0
	fi
	printf 'Install them now? It takes a minute or two. [y/N] ' >&2
	read -r answer || answer=
	case $answer in
	y | Y | yes | Yes | YES) return 0 ;;
	esac
	say "Nothing is installed. SPATE_TEST_DEPS=skip does not ask again."
	return 1
}

install() {
	# A package must not start its service here: the tests run a server of their own.
	(
		export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
		timeout 300 apt-get update -qq &&
			for package in $missing; do
				say "installing $package"
				timeout 900 apt-get install -y -qq --no-install-recommends "$package" || say "could not install $package"
			done
	) >/dev/null </dev/null
}

missing=
has_postgres || missing="$missing postgresql"
has_chromium || missing="$missing chromium"
[ -z "$missing" ] && exit 0

choice=${SPATE_TEST_DEPS:-}
case $choice in
skip) say "SPATE_TEST_DEPS=skip: nothing is installed; missing:$missing" ;;
'' | install) if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && wanted; then install; fi ;;
*) say "SPATE_TEST_DEPS=$choice: want skip or install; nothing is installed" ;;
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
