#!/bin/sh
# Usage: host-setup.sh [start|stop|running|python PROGRAM|bubblewrap|gvisor|crun|chromium]
#
# start   Makes sure that a Docker Engine answers, and that mmdebstrap is there where the image's base needs it.
#         One that answers is used as it is. Else, as root on Debian or Ubuntu, installs and starts one.
# stop    Ends the one that `start` started, and no other.
# running Answers whether that one runs.
# python  Makes sure that PROGRAM, a Python, can make environments. As root on Debian or Ubuntu installs what it lacks.
# bubblewrap
#         Makes sure that bubblewrap is there, for the tests of its engine. As root on Debian or Ubuntu installs it.
#
# gvisor  Makes sure that gVisor's runsc is there likewise, for the attacks of tests/security.
#
# chromium
#         Makes sure that Chromium is there likewise, for the tests of the dashboard.
#
# ENGINE_SETUP=no   install and start nothing, only say what to do
# STATE_DIR         where its pid file and log go (.state of the checkout)
# ENGINE_SOCKET     where a daemon of ours listens (/var/run/docker.sock)
# DOCKERD_ARGS      more arguments for it, split at blanks
#
# Which engine is meant is asked of the package itself, in the checkout's .venv.
set -eu

checkout=$(cd "$(dirname "$0")/.." && pwd)
state=${STATE_DIR:-$checkout/.state}
socket=${ENGINE_SOCKET:-/var/run/docker.sock}
python=$checkout/.venv/bin/python
pid_file=$state/dockerd.pid
log=$state/dockerd.log
wait_seconds=60 # a first start makes its storage and firewall rules; a loaded machine took 20 s

say() { printf 'host-setup: %s\n' "$*" >&2; }

# Prints nothing where the engine that settings, DOCKER_* and contexts name answers, else why it does not.
engine_fault() {
  "$python" - 2>&1 <<'PYTHON'
from sandbox_skills.engines.docker_client import connect
from sandbox_skills.errors import SandboxSkillsError
from sandbox_skills.settings.docker_connection import docker_connection
from sandbox_skills.settings.model import DockerSettings

try:
    connect(docker_connection(DockerSettings()))
except SandboxSkillsError as error:
    print(error)
PYTHON
}

# Answers whether the image's base would have to be made from packages.
needs_bootstrap() {
  "$python" - <<'PYTHON'
import sys

from sandbox_skills.engines.docker_client import connect
from sandbox_skills.engines.image.base import BaseRequest, has_base
from sandbox_skills.engines.image.daemon import ImageDaemon
from sandbox_skills.engines.image_source import read_sources
from sandbox_skills.settings.docker_connection import docker_connection
from sandbox_skills.settings.model import DockerSettings

daemon = ImageDaemon(connect(docker_connection(DockerSettings())))
sys.exit(1 if has_base(daemon, BaseRequest(read_sources("slim"))) else 0)
PYTHON
}

# Prints why this host may not be changed; nothing where it may.
may_not_install() {
  if [ "${ENGINE_SETUP:-}" = no ]; then
    echo 'ENGINE_SETUP=no forbids it'
  elif [ "$(id -u)" -ne 0 ]; then
    echo 'that needs root'
  elif ! grep -qE '^(ID|ID_LIKE)=.*(debian|ubuntu)' /etc/os-release 2>/dev/null; then
    echo 'this is neither Debian nor Ubuntu'
  fi
}

install() {
  say "installing with apt-get: $*"
  apt-get update --quiet
  DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "$@"
}

# Prints when a process started, in clock ticks since boot: its pid alone may be another program's by now.
# One that ended but whose parent has not asked yet (Z) is no process.
started_at() { sed 's/^.*) //' "/proc/$1/stat" 2>/dev/null | awk '$1 != "Z" { print $20 }'; }

# Prints the pid of the daemon we started, while it lives.
our_pid() {
  [ -r "$pid_file" ] && read -r pid ticks < "$pid_file" || return 1
  [ -n "$ticks" ] && [ "$(started_at "$pid")" = "$ticks" ] && echo "$pid"
}

launch() { # more arguments
  say "starting dockerd on $socket; its log is $log"
  # shellcheck disable=SC2086  # DOCKERD_ARGS is a list
  setsid nohup dockerd --host "unix://$socket" --pidfile "$state/dockerd-own.pid" ${DOCKERD_ARGS:-} "$@" \
    < /dev/null > "$log" 2>&1 9>&- &
  pid=$!
  echo "$pid $(started_at "$pid")" > "$pid_file"
}

# Waits until the engine answers; gives up early when the daemon we started is gone.
await_engine() {
  left=$wait_seconds
  while [ -n "$(engine_fault)" ]; do
    [ "$left" -gt 0 ] || return 1
    if [ -e "$pid_file" ] && ! our_pid > /dev/null; then return 1; fi
    left=$((left - 1))
    sleep 1
  done
}

# Prints the arguments to try once more with, by what the log complains of; fails where nothing would help.
second_try() {
  if grep -qiE 'overlay|graphdriver|storage.driver' "$log"; then
    echo '--storage-driver=vfs'
  elif grep -qiE 'iptables|nf_tables|bridge' "$log"; then
    # Without a bridge dockerd removes docker0, which may be another daemon's: keep it where it exists.
    [ -e /sys/class/net/docker0 ] && bridge= || bridge=--bridge=none
    echo "--iptables=false --ip6tables=false $bridge"
  else
    return 1
  fi
}

# A daemon that was killed leaves its pid files, and the next one takes whoever has that pid now for it.
forget_killed() {
  for file in /var/run/docker.pid /var/run/docker/containerd/containerd.pid; do
    [ -r "$file" ] || continue
    case $(cat "/proc/$(cat "$file")/comm" 2>/dev/null) in
      dockerd | containerd) ;;
      *) rm -f "$file" ;;
    esac
  done
}

start_daemon() {
  mkdir -p "$state"
  exec 9> "$state/engine.lock"
  flock 9
  [ -n "$(engine_fault)" ] || return 0 # whoever held the lock started it
  rm -f "$pid_file" "$state/dockerd-own.pid"
  if [ -d /run/systemd/system ]; then
    say 'starting docker with systemctl'
    systemctl start docker
  elif [ "$socket" != /var/run/docker.sock ] || ! pidof dockerd > /dev/null; then
    forget_killed
    launch
  else
    say 'a dockerd runs that we did not start; waiting for it to answer'
  fi
  await_engine && return 0
  if [ -e "$pid_file" ] && more=$(second_try); then
    say "it did not start: $(tail -n 1 "$log")"
    say "trying once more with $more"
    stop
    # shellcheck disable=SC2086  # a list
    launch $more
    await_engine && return 0
  fi
  if [ -e "$pid_file" ]; then
    say 'the Docker Engine does not answer. The end of its log:'
    tail -n 20 "$log" >&2 || true
    stop
  else
    say "the Docker Engine does not answer: $(engine_fault)"
  fi
  return 1
}

start() {
  if ! fault=$(engine_fault); then
    say "the package in .venv cannot be asked for an engine: $fault"
    return 1
  fi
  if [ -n "$fault" ]; then
    say "$fault"
    if [ -n "${DOCKER_HOST:-}${DOCKER_CONTEXT:-}" ] && [ "${DOCKER_HOST:-}" != "unix://$socket" ]; then
      say 'DOCKER_HOST or DOCKER_CONTEXT names an engine of your own: start it, or unset them'
      return 1
    fi
    case $fault in
      *'permission denied'*)
        say 'an engine is there: run this as root, or as a member of the group that owns its socket'
        return 1
        ;;
    esac
    reason=$(may_not_install)
    if [ -n "$reason" ]; then
      say "no engine is installed or started here: $reason. Do it yourself:"
      say '  as root: apt-get install --no-install-recommends docker.io mmdebstrap && dockerd'
      say '  elsewhere: install Docker Engine as its makers say, and see that you may use its socket'
      return 1
    fi
    if ! command -v dockerd > /dev/null; then install docker.io mmdebstrap; fi
    start_daemon
  fi
  say 'a Docker Engine answers'
  if ! command -v mmdebstrap > /dev/null && [ -z "$(may_not_install)" ] && needs_bootstrap; then
    install mmdebstrap
  fi
}

stop() {
  if ! pid=$(our_pid); then
    say 'no daemon of ours is running'
    rm -f "$pid_file"
    return 0
  fi
  say "ending dockerd, process $pid"
  kill "$pid"
  left=$wait_seconds
  while our_pid > /dev/null; do
    # It waits 15 s for its containers; a daemon that hangs beyond that is not worth waiting for.
    [ "$left" -gt 0 ] || kill -KILL "$pid"
    left=$((left - 1))
    sleep 1
  done
  rm -f "$pid_file"
}

# Debian parts `venv` from its Python: the program is there, but what fills a new environment is not.
python_ready() { # program
  if ! command -v "$1" > /dev/null; then
    say "there is no $1: install Python 3.11 or newer, or name one with PYTHON=…"
    return 1
  fi
  "$1" -c 'import ensurepip, venv' 2> /dev/null && return 0
  package=python3-venv
  [ "$1" = python3 ] || package=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
  say "$1 cannot make environments: the package $package is missing"
  reason=$(may_not_install)
  if [ -n "$reason" ]; then
    say "it is not installed here: $reason. Do it yourself:"
    say "  as root on Debian or Ubuntu: apt-get install $package"
    return 1
  fi
  install "$package"
}

program_ready() { # program, package
  if command -v "$1" > /dev/null; then return 0; fi
  reason=$(may_not_install)
  if [ -n "$reason" ]; then
    say "$2 is not installed here: $reason. Do it yourself:"
    say "  as root on Debian or Ubuntu: apt-get install --no-install-recommends $2"
    return 1
  fi
  install "$2"
}

case ${1:-start} in
  start) start ;;
  stop) stop ;;
  running) our_pid > /dev/null ;;
  python) python_ready "${2:-python3}" ;;
  bubblewrap) program_ready bwrap bubblewrap ;;
  gvisor) program_ready runsc runsc ;;
  crun) program_ready crun crun ;;
  chromium) program_ready chromium chromium ;;
  *)
    say 'usage: host-setup.sh [start|stop|running|python PROGRAM|bubblewrap|gvisor|crun|chromium]'
    exit 2
    ;;
esac
