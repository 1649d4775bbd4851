#!/bin/sh
# Plays the programs that look at disks and change them. A disk is a folder of
# $STUB_STATE/disk; what changes one is written to $STUB_STATE/log.
set -eu
program=${0##*/}
for last; do :; done
disks=$STUB_STATE/disk
name=${last#/dev/}
fact() { cat "$disks/$1/$2" 2>/dev/null || true; }
tree() { # NAME TYPE of a disk and what is on it
  echo "$1 disk"
  for part in $(fact "$1" part); do echo "$part part"; done
  kind=$(fact "$1" kind)
  [ -z "$kind" ] || echo "$1-holder $kind"
}
log() { echo "$program $*" >>"$STUB_STATE/log"; }

case $program in
findmnt) cat "$STUB_STATE/root" ;;
lsblk)
  case "$1 ${2-}" in
  '-snro NAME,TYPE')
    for disk in $(ls "$disks"); do
      for part in $(fact "$disk" part); do
        if [ "$part" = "$name" ]; then
          echo "$part part"
          echo "$disk disk"
        fi
      done
    done
    ;;
  '-dnro NAME,TYPE')
    echo 'loop0 loop'
    for disk in $(ls "$disks"); do echo "$disk disk"; done
    ;;
  '-nro NAME,TYPE') tree "$name" ;;
  '-nro TYPE') tree "$name" | sed 's/.* //' ;;
  '-nro MOUNTPOINT') echo; fact "$name" mount; if [ -e "$STUB_STATE/mounted/$(fact "$name" uuid)" ]; then echo /share; fi ;;
  '-dnro RM,RO') if [ -e "$disks/$name/flags" ]; then fact "$name" flags; else echo '0 0'; fi ;;
  '-dnro TRAN') if [ -e "$disks/$name/tran" ]; then fact "$name" tran; else echo; fi ;;
  *) echo "lsblk $*: not expected" >&2; exit 1 ;;
  esac
  ;;
blkid)
  case $5 in
  LABEL) fact "$name" label ;;
  UUID) fact "$name" uuid ;;
  TYPE) fact "$name" type ;;
  esac
  [ -e "$disks/$name/type" ] || exit 2
  ;;
wipefs)
  if [ "$1" = -n ]; then
    [ ! -e "$disks/$name/broken" ] || exit 1
    fact "$name" signature
  else
    log "$*"
    [ ! -e "$disks/$name/broken" ] || exit 1
    rm -f "$disks/$name/signature" "$disks/$name/label" "$disks/$name/uuid" "$disks/$name/type"
  fi
  ;;
mkfs.*)
  log "$*"
  [ ! -e "$disks/$name/signature" ] || exit 1
  while [ "$1" != -L ]; do shift; done
  echo "$2" >"$disks/$name/label"
  echo "uuid-of-$name" >"$disks/$name/uuid"
  echo "${program#mkfs.}" >"$disks/$name/type"
  echo "${program#mkfs.}" >"$disks/$name/signature"
  ;;
mountpoint) [ -e "$STUB_STATE/mounted$last" ] ;;
mount)
  log "$*"
  grep -qF " $last " "${STUB_STATE%/*}/fstab"
  mkdir -p "$STUB_STATE/mounted$last"
  ;;
esac
