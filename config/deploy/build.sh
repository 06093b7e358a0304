#!/bin/sh
# Builds the image of the daemon: sh config/deploy/build.sh [BASE [TAG]]
# BASE must have python3 of the version below, as the base that `sandbox-skills image build` makes; PYTHON is a host's
# Python with pip.
set -eu
base=${1:-debian:trixie-slim}
tag=${2:-sandbox-skills-daemon}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT

# The versions that the tests ran with. Hashes would have to be there for our own wheel, too.
sed -n 's/^\([A-Za-z0-9_.-]*==[^ ]*\).*/\1/p' "$root/requirements.lock" > "$context/constraints.txt"
"$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$context" ${WHEEL_OPTIONS:-} "$root"
"$python" -m pip install --quiet --disable-pip-version-check --target "$context/site" --python-version 3.13 \
  --only-binary :all: --no-compile --constraint "$context/constraints.txt" "$(echo "$context"/sandbox_skills-*.whl)[serve]"
cp "$here/Dockerfile" "$context"
docker build --quiet --build-arg "BASE=$base" --tag "$tag" "$context"
