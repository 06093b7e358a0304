#!/bin/sh
# Usage: install-packages.sh FILE. Installs the listed Debian packages that the base does not have yet.
# A bootstrapped base has them all, so that this step needs a network only on a base from a registry.
set -eu

missing=
# shellcheck disable=SC2013  # a package name is one word
for package in $(sed 's/#.*//' "$1"); do
  state=$(dpkg-query --show --showformat '${Status}' "$package" 2>/dev/null) || state=
  case $state in
    *' installed') ;;
    *) missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0

export DEBIAN_FRONTEND=noninteractive
apt-get update
# shellcheck disable=SC2086  # a list of names, split on purpose
apt-get install --yes --no-install-recommends $missing
apt-get clean
rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /usr/share/man /usr/share/info
