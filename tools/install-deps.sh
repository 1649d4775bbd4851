#!/usr/bin/env bash
# Installs what `make up` needs from the system: PostgreSQL's server programs and
# git; with the word "test" also a C compiler, which the race detector needs, and
# the simulator and the client of IPMI that BMCs are tested with; with the word
# "rack" LXD and what makes the image of its machines, for the virtual rack; with
# the word "chromium" the browser in which the console is tested, which "test"
# includes.
# Several words may be given. Says nothing when nothing is missing.
set -euo pipefail

say() { printf 'install-deps: %s\n' "$*" >&2; }

have_postgres() {
  local bin
  for bin in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin; do
    if [[ -x $bin/initdb && -x $bin/postgres ]]; then return 0; fi
  done
  command -v initdb >/dev/null && command -v postgres >/dev/null
}

missing=()
have_postgres || missing+=(postgresql)
command -v git >/dev/null || missing+=(git)
if [[ " $* " == *" test "* ]]; then
  command -v "${CC:-gcc}" >/dev/null || missing+=(gcc libc6-dev)
  command -v ipmi_sim >/dev/null || missing+=(openipmi)
  command -v ipmitool >/dev/null || missing+=(ipmitool)
fi
if [[ " $* " == *" test "* || " $* " == *" chromium "* ]]; then
  command -v chromium >/dev/null || missing+=(chromium fonts-dejavu-core)
fi
if [[ " $* " == *" rack "* ]]; then
  command -v lxd >/dev/null || missing+=(lxd)
  command -v lxc >/dev/null || missing+=(lxd-client)
  # LXD looks for iptables and runs dnsmasq, which gives machines their addresses.
  command -v iptables >/dev/null || [[ -x /usr/sbin/iptables ]] || missing+=(iptables)
  command -v dnsmasq >/dev/null || [[ -x /usr/sbin/dnsmasq ]] || missing+=(dnsmasq-base)
  command -v debootstrap >/dev/null || [[ -x /usr/sbin/debootstrap ]] || missing+=(debootstrap)
fi
if ((${#missing[@]} == 0)); then
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  say "missing: ${missing[*]}. This system has no apt-get: install the packages by hand"
  say "(PostgreSQL 15 or newer, the server: postgresql-server and postgresql-contrib on Fedora and RHEL, postgresql on Arch and Alpine)"
  exit 1
fi

if ((EUID == 0)); then
  root=()
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
  root=(sudo)
else
  say "missing: ${missing[*]}. Run as root: apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  exit 1
fi

say "installing ${missing[*]}"
run() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" >&2; }
run apt-get update -q
run apt-get install -y -q --no-install-recommends "${missing[@]}"
