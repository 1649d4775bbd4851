#!/usr/bin/env bash
# Makes the disk of a virtual machine of the rack: a Debian with systemd,
# cloud-init and sshd, as one archive that LXD imports.
# usage: image.sh ARCHIVE   (as root; the archive's folder also holds the work)
# RACK_MIRROR names a Debian mirror; else it is the one that this system uses.
set -euo pipefail

archive=$1
suite=bookworm
packages=(
  systemd systemd-sysv dbus libpam-systemd kmod procps
  cloud-init python3-cffi-backend # debootstrap does not see that cloud-init's cryptography needs it
  openssh-server sudo passwd
  ifupdown isc-dhcp-client iproute2
  ca-certificates curl locales
)

say() { printf 'rack image: %s\n' "$*" >&2; }

if ((EUID != 0)); then
  say "making the image needs root"
  exit 1
fi
if ! command -v debootstrap >/dev/null; then
  say "debootstrap is missing; run: tools/install-deps.sh rack"
  exit 1
fi

mirror=${RACK_MIRROR:-}
if [[ -z $mirror ]] && command -v apt-get >/dev/null; then
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' "Codename: $suite" 2>/dev/null | sed -n 1p)
fi

work=$(mktemp -d "$archive.XXXXXX")
root=$work/rootfs
clear_away() {
  umount "$root/proc" "$root/sys" 2>/dev/null || true # debootstrap was interrupted
  rm -rf --one-file-system "$work" "$archive.part"
}
trap clear_away EXIT
trap 'exit 1' HUP INT TERM

include=$(IFS=,; echo "${packages[*]}")
if ! debootstrap --variant=minbase --include="$include" "$suite" "$root" ${mirror:+"$mirror"} >"$work/log" 2>&1; then
  tail -n 20 "$work/log" >&2
  say "debootstrap failed"
  exit 1
fi

cat >"$root/etc/cloud/cloud.cfg.d/90-rack.cfg" <<'CFG'
# A machine of the rack gets its user data from LXD.
datasource_list: [LXD, None]
locale: C.UTF-8
manage_etc_hosts: localhost
ssh_genkeytypes: [ed25519]
CFG

# None of these can work in a container, or may: the rack has no way outside.
for unit in systemd-binfmt.service e2scrub_reap.service apt-daily.timer apt-daily-upgrade.timer; do
  ln -sf /dev/null "$root/etc/systemd/system/$unit"
done

# What is unique to a machine is made when it first boots.
rm -f "$root"/etc/ssh/ssh_host_* "$root/var/lib/dbus/machine-id" "$root/etc/resolv.conf"
: >"$root/etc/machine-id"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* \
  "$root"/usr/share/{doc,man,info,locale}/* "$root/debootstrap"

mkdir "$work/templates"
echo '{{ container.name }}' >"$work/templates/hostname.tpl"
printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n' >"$root/etc/hosts"
cat >"$work/metadata.yaml" <<META
architecture: $(uname -m)
creation_date: $(date +%s)
properties:
  description: machine of the gpuaas rack
  os: debian
  release: $suite
templates:
  /etc/hostname: {when: [create], template: hostname.tpl}
META

# Not compressed: LXD unpacks it anew for every machine.
tar -C "$work" --create --numeric-owner --xattrs --file "$archive.part" metadata.yaml templates rootfs
mv "$archive.part" "$archive"
