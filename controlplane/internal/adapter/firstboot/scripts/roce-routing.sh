# Answers over the interface that was asked: one routing table per interface, and
# a rule that sends what comes from its address there. Can be run at any time.
# usage: roce-routing.sh CONFIGURATION
# A line of it is: INTERFACE ADDRESS NETWORK GATEWAY|- MTU|- TABLE PRIORITY
set -eu
failed=
while read -r interface address network gateway mtu table priority; do
  case $interface in
  '' | '#'*) continue ;;
  esac
  if ! ip link show dev "$interface" >/dev/null 2>&1; then
    echo "roce-routing: there is no interface $interface" >&2
    failed=yes
    continue
  fi
  set_up() {
    if [ "$mtu" != - ]; then ip link set dev "$interface" mtu "$mtu" || return 1; fi
    ip link set dev "$interface" up || return 1
    ip -4 route replace "$network" dev "$interface" scope link src "$address" table "$table" || return 1
    if [ "$gateway" != - ]; then
      ip -4 route replace default via "$gateway" dev "$interface" src "$address" table "$table" onlink || return 1
    fi
    while ip -4 rule del priority "$priority" 2>/dev/null; do :; done
    ip -4 rule add from "$address" lookup "$table" priority "$priority"
  }
  if ! set_up; then
    echo "roce-routing: $interface could not be set up" >&2
    failed=yes
  fi
done <"$1"
[ -z "$failed" ]
