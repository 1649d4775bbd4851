# Makes an account that may become root. usage: user.sh NAME HASH-FILE KEYS-FILE
# The hash comes in a file, so that it is in no process list.
set -eu
name=$1 hash=$2 keys=$3

if ! getent passwd "$name" >/dev/null; then
  useradd --create-home --user-group --shell /bin/bash "$name"
fi
uid=$(id -u "$name")
if [ "$uid" -lt 1000 ]; then
  echo "$name is an account of the system, with the number $uid" >&2
  exit 1
fi

if [ -s "$hash" ]; then
  { printf '%s:' "$name" && cat "$hash" && echo; } | chpasswd -e
  # Images often refuse passwords over SSH; this account may use its own.
  mkdir -p /etc/ssh/sshd_config.d
  printf 'Match User %s\n  PasswordAuthentication yes\n' "$name" >"/etc/ssh/sshd_config.d/10-gpuaas-$name.conf"
  chmod 0644 "/etc/ssh/sshd_config.d/10-gpuaas-$name.conf"
  # Where sshd does not run, it reads that when it starts.
  systemctl try-reload-or-restart ssh.service sshd.service >/dev/null 2>&1 || true
fi

if [ -s "$keys" ]; then
  home=$(getent passwd "$name" | cut -d: -f6)
  group=$(id -gn "$name")
  if [ -L "$home/.ssh" ] || [ -L "$home/.ssh/authorized_keys" ]; then
    echo "$home/.ssh holds links where files should be" >&2
    exit 1
  fi
  install -d -m 0700 -o "$name" -g "$group" "$home/.ssh"
  known=$home/.ssh/authorized_keys
  touch "$known"
  while IFS= read -r key; do
    grep -qxF -- "$key" "$known" || printf '%s\n' "$key" >>"$known"
  done <"$keys"
  chown "$name:$group" "$known"
  chmod 0600 "$known"
fi

mkdir -p /etc/sudoers.d
umask 0337
rm -f "/etc/sudoers.d/.gpuaas-$name"
printf '%s ALL=(ALL) NOPASSWD:ALL\n' "$name" >"/etc/sudoers.d/.gpuaas-$name"
mv -f "/etc/sudoers.d/.gpuaas-$name" "/etc/sudoers.d/gpuaas-$name"
