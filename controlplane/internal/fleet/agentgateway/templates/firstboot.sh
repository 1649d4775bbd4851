# Fetches the bootstrap of this node and runs it. Written by cloud-init.
set -eu
umask 077
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The network may come up late; the control plane may be restarting.
curl -fsS --retry 60 --retry-delay 5 --retry-max-time 600 --retry-connrefused --cacert '{{.CA}}' -H '@{{.Credential}}' -o "$work/bootstrap" '{{.ScriptURL}}'
sh "$work/bootstrap"
rm -f '{{.CA}}' '{{.Credential}}'
