#!/bin/sh
# What some tests need beyond Go: Postgres (the store's contract) and Chromium (the HTML report in a real
# browser). Installs what is missing where that can be done; else says loudly which tests will not run.
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

missing=
has_postgres || missing="$missing postgresql"
has_chromium || missing="$missing chromium"
[ -z "$missing" ] && exit 0

if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
	echo "installing for the tests:$missing" >&2
	# A package must not start its service here: the tests run a server of their own.
	(
		export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
		timeout 300 apt-get update -qq &&
			for package in $missing; do
				timeout 900 apt-get install -y -qq --no-install-recommends "$package" || echo "could not install $package" >&2
			done
	) >/dev/null
fi

if ! has_postgres; then
	echo '!!!' >&2
	echo "!!! postgres is not installed: the store's tests against Postgres do not run" >&2
	echo '!!!' >&2
fi
if ! has_chromium; then
	echo '!!!' >&2
	echo '!!! chromium is not installed: the tests of the HTML report in a browser do not run' >&2
	echo '!!!' >&2
fi
exit 0
