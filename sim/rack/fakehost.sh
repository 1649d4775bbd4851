#!/bin/sh
# The programs of a host that the agent calls, on a machine that is only a
# folder: one script under many names. It changes files below that folder and
# nothing else. Units are run by the rack, which is told through run/units.
set -eu

name=${0##*/}
root=${0%/usr/*bin/*}
root=${root%/usr/lib/*}
units=$root/run/units
wants=$root/etc/systemd/system/multi-user.target.wants

fail() { # status, words
  status=$1; shift
  echo "$name: $*" >&2
  exit "$status"
}

# One change of the accounts at a time, as with the lock of the real programs.
# The lock of a program that is killed ends with it.
lock() {
  exec 9>"$root/etc/.pwd.lock"
  flock -w 10 9 || fail 10 "cannot lock /etc/passwd"
}

known() { grep -q "^$2:" "$root/etc/$1"; } # file, name

# put makes a line the only one of a name, at once, so that a program that is
# killed leaves either the old file or the new one.
put() { # file, name, line or nothing
  { grep -v "^$2:" "$root/etc/$1" || true; [ -z "$3" ] || echo "$3"; } >"$root/etc/$1.new"
  chmod 600 "$root/etc/$1.new"
  [ "$1" = shadow ] || chmod 644 "$root/etc/$1.new"
  mv "$root/etc/$1.new" "$root/etc/$1"
}

drop() { put "$1" "$2" ''; } # file, name

# Options of the account programs, in the long and the short form.
uid='' gid='' home='' shell=/bin/sh comment='' create='' remove='' password='!' expire='' locked='' last=''
options() {
  while [ $# -gt 0 ]; do
    case $1 in
      --uid | -u) uid=$2; shift ;;
      --gid | -g) gid=$2; shift ;;
      --home-dir | -d) home=$2; shift ;;
      --shell | -s) shell=$2; shift ;;
      --comment | -c) comment=$2; shift ;;
      --password | -p) password=$2; shift ;;
      --expiredate | -e) expire=$2; shift ;;
      --create-home | -m) create=yes ;;
      --remove | -r) remove=yes ;;
      --lock | -L) locked='!' ;;
      --force | -f | --no-user-group | -N | --system) ;;
      -*) fail 2 "option $1 is not known on this machine" ;;
      *) last=$1 ;;
    esac
    shift
  done
  [ -n "$last" ] || fail 2 'whom?'
}

add_group() {
  ! known group "$last" || fail 9 "group '$last' already exists"
  ! grep -q "^[^:]*:[^:]*:$gid:" "$root/etc/group" || fail 4 "GID '$gid' already exists"
  echo "$last:x:$gid:" >>"$root/etc/group"
}

add_user() {
  ! known passwd "$last" || fail 9 "user '$last' already exists"
  ! grep -q "^[^:]*:[^:]*:$uid:" "$root/etc/passwd" || fail 4 "UID $uid is not unique"
  home=${home:-/home/$last}
  put shadow "$last" "$last:$password:20000:0:99999:7:::"
  put passwd "$last" "$last:x:$uid:$gid:$comment:$home:$shell"
  [ -z "$create" ] || mkdir -p "$root$home"
}

change_user() {
  line=$(grep "^$last:" "$root/etc/passwd") || fail 6 "user '$last' does not exist"
  secret=$(grep "^$last:" "$root/etc/shadow" | cut -d: -f2)
  put shadow "$last" "$last:$locked${secret:-*}:20000:0:99999:7::$expire:"
  put passwd "$last" "${line%:*}:$shell"
}

delete_user() {
  line=$(grep "^$last:" "$root/etc/passwd") || fail 6 "user '$last' does not exist"
  home=$(echo "$line" | cut -d: -f6)
  drop passwd "$last"
  drop shadow "$last"
  if [ -n "$remove" ]; then
    case $home in
      /home/?*) rm -rf "${root:?}$home" ;;
    esac
  fi
  ! known group "$last" || drop group "$last"
}

delete_group() {
  known group "$last" || fail 6 "group '$last' does not exist"
  drop group "$last"
}

signal_unit() {
  [ ! -f "$units/$1.pid" ] || kill -TERM "$(cat "$units/$1.pid")" 2>/dev/null || true
}

unit() { # verb, unit
  case $1 in
    enable) mkdir -p "$wants"; : >"$wants/$2" ;;
    disable) rm -f "$wants/$2" ;;
    start) rm -f "$units/$2.stopped" ;;
    stop) : >"$units/$2.stopped"; signal_unit "$2" ;;
    restart | try-restart) rm -f "$units/$2.stopped"; signal_unit "$2" ;;
    is-active) [ -f "$units/$2.pid" ] || { echo inactive; exit 3; }; echo active ;;
    is-enabled) [ -f "$wants/$2" ] || { echo disabled; exit 1; }; echo enabled ;;
  esac
}

systemctl() {
  verb='' now='' touched=''
  for word; do
    case $word in
      --now) now=yes ;;
      -*) ;;
      *)
        if [ -z "$verb" ]; then verb=$word; continue; fi
        case $word in *.*) ;; *) word=$word.service ;; esac
        touched=yes
        unit "$verb" "$word"
        case $now$verb in
          yesenable) unit start "$word" ;;
          yesdisable) unit stop "$word" ;;
        esac
        ;;
    esac
  done
  [ "$verb" != is-system-running ] || echo running
  [ -n "$touched" ] || [ -n "$verb" ] || fail 1 'do what?'
}

# Eight GPUs that exist only here. They keep their names when the machine is
# installed anew, and everything about them says that they are simulated.
gpus() { # verb
  board=$(cat "$root/sys/class/dmi/id/product_uuid" 2>/dev/null || cat "$root/etc/hostname")
  bytes=150754820096 all='' pass='' i=0
  for phase in fill verify zero verify_zero; do
    pass="$pass${pass:+,}{\"name\":\"$phase\",\"bytes\":$bytes,\"device_ms\":0,\"bytes_per_second\":0,\"words\":0}"
  done
  while [ $i -lt 8 ]; do
    one="\"uuid\":\"GPU-simulated-$i-$(echo "$board" | cut -c1-36)\",\"name\":\"simulated NVIDIA H200\""
    case $1 in
      inspect)
        one="\"index\":$i,$one,\"architecture\":\"hopper\",\"pci_bus_id\":\"0000:0$i:00.0\",\"memory_total_bytes\":$bytes"
        one="$one,\"memory_used_bytes\":0,\"processes\":[]"
        ;;
      scrub)
        one="$one,\"method\":\"overwrite_verify_zero\",\"bytes_total\":$bytes,\"bytes_covered\":$bytes,\"chunks\":1,\"word_bytes\":8"
        one="$one,\"words_nonzero_before\":0,\"words_mismatched\":0,\"words_nonzero\":0,\"passes\":[$pass],\"duration_ms\":0"
        ;;
    esac
    all="$all${all:+,}{$one}"
    i=$((i + 1))
  done
  case $1 in
    inspect) echo "{\"type\":\"report\",\"vendor\":\"nvidia\",\"driver\":\"simulated\",\"driver_series\":\"simulated\",\"gpus\":[$all],\"unreachable\":[],\"notes\":[\"simulated\"]}" ;;
    scrub) echo "{\"type\":\"result\",\"vendor\":\"nvidia\",\"driver\":\"simulated\",\"outcome\":\"scrubbed\",\"gpus\":[$all],\"notes\":[\"simulated\"],\"duration_ms\":0}" ;;
    *) fail 2 "$1 is not known" ;;
  esac
}

case $name in
  gpuaas-simulated-gpus) gpus "$1" ;;
  groupadd) options "$@"; lock; add_group ;;
  groupdel) options "$@"; lock; delete_group ;;
  useradd) options "$@"; lock; add_user ;;
  userdel) options "$@"; lock; delete_user ;;
  usermod) options "$@"; lock; change_user ;;
  systemctl) systemctl "$@" ;;
  loginctl | ipcrm | visudo) ;; # no sessions, no IPC objects, nothing that sudo reads
  umount) fail 32 'nothing is mounted on this machine' ;;
  *) fail 127 'no such program' ;;
esac
