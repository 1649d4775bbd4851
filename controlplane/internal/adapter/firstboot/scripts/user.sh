# Makes an account that may become root. usage: user.sh NAME KEYS-FILE
# It has no password, and only these keys let in.
set -eu
name=$1 keys=$2

if ! getent passwd "$name" >/dev/null; then
  useradd --create-home --user-group --shell /bin/bash "$name"
fi
uid=$(id -u "$name")
if [ "$uid" -lt 1000 ]; then
  echo "$name is an account of the system, with the number $uid" >&2
  exit 1
fi
# No password fits a star, and unlike a locked account it may use keys.
usermod --password '*' "$name"

home=$(getent passwd "$name" | cut -d: -f6)
group=$(id -gn "$name")
if [ -L "$home/.ssh" ] || [ -L "$home/.ssh/authorized_keys" ]; then
  echo "$home/.ssh holds links where files should be" >&2
  exit 1
fi
install -d -m 0700 -o "$name" -g "$group" "$home/.ssh"
install -m 0600 -o "$name" -g "$group" "$keys" "$home/.ssh/authorized_keys"

mkdir -p /etc/sudoers.d
umask 0337
rm -f "/etc/sudoers.d/.gpuaas-$name"
printf '%s ALL=(ALL) NOPASSWD:ALL\n' "$name" >"/etc/sudoers.d/.gpuaas-$name"
mv -f "/etc/sudoers.d/.gpuaas-$name" "/etc/sudoers.d/gpuaas-$name"
