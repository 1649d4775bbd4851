# Formats the disks of this machine that hold nothing and mounts them as share1,
# share2, … DESTROYS DATA where --reformat is given.
# usage: disk-init.sh --destroy [--reformat] ext4|xfs FSTAB MOUNT-FOLDER RECORD
#
# Never touched: the disks below the root file system; any disk of which a part is
# mounted, swap, or used by LVM, RAID, encryption or multipath; removable, USB,
# read-only and network disks. A disk with partitions or signatures is touched
# with --reformat alone. Disks that RECORD names were formatted by this
# installation and are kept in any case.
set -eu
LC_ALL=C
export LC_ALL
say() { echo "disk-init: $*"; }
die() {
  echo "disk-init: $*" >&2
  exit 1
}

[ "${1:-}" = --destroy ] || die 'this destroys data: say --destroy'
shift
reformat=no
if [ "${1:-}" = --reformat ]; then
  reformat=yes
  shift
fi
[ $# -eq 4 ] || die 'usage: disk-init.sh --destroy [--reformat] ext4|xfs FSTAB MOUNT-FOLDER RECORD'
type=$1 fstab=$2 below=${3%/} record=$4
case $type in
ext4 | xfs) ;;
*) die "$type is no file system for this" ;;
esac
for program in lsblk findmnt wipefs blkid "mkfs.$type" mount mountpoint; do
  command -v "$program" >/dev/null || die "$program is not installed"
done
touch "$record"

# Without knowing the root disks, every disk may be one.
root=$(findmnt -nvo SOURCE /)
case $root in
/dev/*) ;;
*) die "cannot tell the disk of the root file system: it lies on '$root'" ;;
esac
roots=$(lsblk -snro NAME,TYPE "$root" | while read -r name kind; do
  [ "$kind" != disk ] || printf '%s ' "$name"
done)
[ -n "$roots" ] || die "cannot tell the disk of the root file system: $root has none"

# Values are probed on the disk: what udev remembers may be old.
probe() { blkid -p -o value -s "$1" "/dev/$2" 2>/dev/null || true; }
labelled() { probe LABEL "$1" | sed -n 's/^gpuaas-s\([1-9][0-9]*\)$/\1/p'; }
known() { [ -n "$1" ] && grep -qxF "$1" "$record"; }

# unfit DISK says why a disk is none of those that are meant, or nothing.
unfit() {
  case " $roots" in
  *" $1 "*)
    echo 'it holds the root file system'
    return
    ;;
  esac
  case $1 in
  sd* | vd* | xvd* | nvme*) ;;
  *)
    echo 'it is no disk of the kinds that are used'
    return
    ;;
  esac
  if [ "$(lsblk -dnro RM,RO "/dev/$1")" != '0 0' ]; then
    echo 'it is removable or read-only'
    return
  fi
  transport=$(lsblk -dnro TRAN "/dev/$1")
  case $transport in
  '' | sata | ata | sas | nvme | pcie | virtio) ;;
  *) echo "it is attached by $transport" ;;
  esac
}

# busy DISK says what a disk is used for, or nothing.
busy() {
  if [ -n "$(lsblk -nro MOUNTPOINT "/dev/$1" | tr -d ' \n')" ]; then
    echo 'it is in use'
    return
  fi
  kinds=$(lsblk -nro TYPE "/dev/$1" | sort -u | tr '\n' ' ')
  case $kinds in
  'disk ') ;;
  'disk part ') [ "$reformat" = yes ] || echo 'it has partitions, and --reformat was not given' ;;
  *) echo "it is a part of something else: $kinds" ;;
  esac
  if [ "$reformat" = no ] && [ -n "$(signatures "$1")" ]; then
    echo 'it holds data, and --reformat was not given'
  fi
}

# A disk that cannot be read is not an empty one.
signatures() { wipefs -n "/dev/$1" 2>/dev/null || echo unreadable; }

# enter DISK NUMBER mounts a disk now and at every boot.
enter() {
  uuid=$(probe UUID "$1")
  kind=$(probe TYPE "$1")
  [ -n "$uuid" ] && [ -n "$kind" ] || die "/dev/$1 has no file system after formatting"
  point=$below/share$2
  if grep -qE "^[^#[:space:]]+[[:space:]]+$point[[:space:]]" "$fstab" && ! grep -qE "^UUID=$uuid[[:space:]]+$point[[:space:]]" "$fstab"; then
    die "$fstab has another disk for $point"
  fi
  if ! grep -qE "^UUID=$uuid[[:space:]]" "$fstab"; then
    cp -p "$fstab" "$fstab.gpuaas"
    # A file without an end of line would swallow the entry.
    [ -z "$(tail -c 1 "$fstab")" ] || echo >>"$fstab.gpuaas"
    echo "UUID=$uuid $point $kind defaults,nofail,x-systemd.device-timeout=30s 0 2" >>"$fstab.gpuaas"
    mv -f "$fstab.gpuaas" "$fstab"
  fi
  mkdir -p "$point"
  mountpoint -q "$point" || mount "$point"
  say "/dev/$1 is $point"
}

format() {
  if [ "$reformat" = yes ]; then
    # Partitions first: their signatures would come back with the next table.
    # wipefs refuses whatever the kernel holds open.
    lsblk -nro NAME,TYPE "/dev/$1" | while read -r name kind; do
      [ "$kind" != part ] || wipefs -a "/dev/$name"
    done
    wipefs -a "/dev/$1"
  fi
  case $type in
  ext4) mkfs.ext4 -q -m 0 -L "gpuaas-s$2" "/dev/$1" ;;
  xfs) mkfs.xfs -q -L "gpuaas-s$2" "/dev/$1" ;;
  esac
  probe UUID "$1" >>"$record"
  # mount asks udev which disk has a UUID.
  if command -v udevadm >/dev/null; then udevadm settle; fi
}

disks=$(lsblk -dnro NAME,TYPE | while read -r name kind; do
  [ "$kind" != disk ] || echo "$name"
done | sort -V)

# Numbers that are taken stay with their disks.
taken=' ' fresh=
for disk in $disks; do
  why=$(unfit "$disk")
  if [ -n "$why" ]; then
    say "/dev/$disk is kept: $why"
    continue
  fi
  number=$(labelled "$disk")
  uuid=$(probe UUID "$disk")
  if [ -n "$number" ] && { known "$uuid" || [ "$reformat" = no ]; }; then
    case $taken in
    *" $number "*) die "two disks have the label gpuaas-s$number" ;;
    esac
    taken="$taken$number "
    known "$uuid" || echo "$uuid" >>"$record"
    enter "$disk" "$number"
    continue
  fi
  why=$(busy "$disk")
  if [ -n "$why" ]; then
    say "/dev/$disk is kept: $why"
  else
    fresh="$fresh $disk"
  fi
done

number=1
for disk in $fresh; do
  while :; do
    case $taken in
    *" $number "*) number=$((number + 1)) ;;
    *) break ;;
    esac
  done
  taken="$taken$number "
  format "$disk" "$number"
  enter "$disk" "$number"
done
