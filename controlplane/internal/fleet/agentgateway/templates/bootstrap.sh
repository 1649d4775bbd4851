#!/bin/sh
# Makes this machine a gpuaas node: installs the agent and enrols it. It may be
# run again, with a fresh token. Everything is inside a function, so that half a
# script does nothing.
set -eu
umask 077

etc=/etc/gpuaas
state=/var/lib/gpuaas
programs=/opt/gpuaas/agent
units=/etc/systemd/system
unit=gpuaas-node-agent.service
version='{{.Version}}'
digest='{{.Digest}}'

say() { printf 'gpuaas: %s\n' "$*"; }

fail() {
	printf 'gpuaas: %s\n' "$*" >&2
	exit 1
}

# put FILE MODE TARGET: replaces TARGET at once or not at all.
put() {
	cp "$1" "$3.new"
	chmod "$2" "$3.new"
	mv -f "$3.new" "$3"
}

# keep FILE: remembers FILE as it is, so that restore can put it back.
keep() {
	[ ! -e "$1" ] || cp -p "$1" "$work/before/${1##*/}"
}

# restore FILE: makes FILE what it was, or nothing if it was not there.
restore() {
	if [ -e "$work/before/${1##*/}" ]; then
		cp -p "$work/before/${1##*/}" "$1.new" && mv -f "$1.new" "$1"
	else
		rm -f "$1"
	fi
}

# relink LINK VERSION: makes LINK what it was, or nothing if it was not there.
relink() {
	if [ -n "$2" ]; then
		point "$1" "$2"
	else
		rm -f "$programs/$1"
	fi
}

# leave runs at the end, whatever it is. What did not become an enrolled node
# is undone: an agent that was here before runs on as it did.
leave() {
	set +e
	if [ "$undo" = yes ]; then
		relink current "$old"
		relink previous "$older"
		restore "$etc/agent.env"
		restore "$etc/control-plane-ca.pem"
		restore "$units/$unit"
		restore "$state/update.json"
		[ "$running" = no ] || systemctl start "$unit" || say "the agent that was here before could not be started"
	fi
	rm -rf "$work"
}

# point LINK VERSION: makes LINK lead to a version, at once.
point() {
	ln -sfn "$2" "$programs/$1.new"
	mv -fT "$programs/$1.new" "$programs/$1"
}

check_machine() {
	[ "$(id -u)" = 0 ] || fail 'run this as root'
	for program in curl tar sha256sum sed mktemp systemctl; do
		command -v "$program" >/dev/null 2>&1 || fail "the program $program is missing: install it and run this again"
	done
	[ -e "$etc/agent.env" ] || return 0
	other=$(sed -n "s/^GPUAAS_NODE_ID=[\"']*\([^\"']*\).*/\1/p" "$etc/agent.env")
	case "$other" in
	'' | '{{.NodeID}}') ;;
	*)
		printf 'gpuaas: %s\n' "this machine is node $other already; nothing was changed" \
			"to make it node {{.NodeID}}, remove that one first: drain it and let its agent be uninstalled," \
			"or, if the control plane no longer knows it: systemctl disable --now $unit; rm -rf $etc $state $programs" >&2
		exit 1
		;;
	esac
}

write_credentials() {
	cat >"$work/ca.pem" <<'GPUAAS_END'
{{.CA}}
GPUAAS_END
	cat >"$work/token" <<'GPUAAS_END'
{{.Token}}
GPUAAS_END
	{
		printf 'Authorization: Bearer '
		cat "$work/token"
	} >"$work/authorization"
}

fetch_package() {
	say "fetching agent $version"
	curl -fsS --retry 5 --retry-delay 2 --retry-connrefused --cacert "$work/ca.pem" -H "@$work/authorization" \
		-o "$work/package.tar.gz" '{{.PackageURL}}' || fail 'the agent package could not be fetched'
	printf '%s  %s\n' "$digest" "$work/package.tar.gz" | sha256sum -c - >/dev/null 2>&1 ||
		fail 'the agent package is not the one that was announced: nothing was installed'
	mkdir "$work/package"
	tar -xzf "$work/package.tar.gz" -C "$work/package" --no-same-owner
}

install_package() {
	say "installing agent $version"
	mkdir -p "$etc" "$state" "$programs/$version" "$units"
	chmod 0755 "$etc" "${programs%/*}" "$programs" "$programs/$version"
	chmod 0700 "$state"
	put "$work/package/gpuaas-agent" 0755 "$programs/$version/gpuaas-agent"
	put "$work/package/gpuaas-gpu" 0755 "$programs/$version/gpuaas-gpu"
	"$programs/$version/gpuaas-agent" version >/dev/null || fail "the agent does not run on this machine ($(uname -m))"
	old=$(readlink "$programs/current" 2>/dev/null || true)
	older=$(readlink "$programs/previous" 2>/dev/null || true)
	mkdir "$work/before"
	keep "$etc/agent.env"
	keep "$etc/control-plane-ca.pem"
	keep "$units/$unit"
	keep "$state/update.json"
	undo=yes
	# What was said of an earlier update does not hold for what is installed now.
	rm -f "$state/update.json" "$programs/$version/package.sha256"
	if [ -n "$old" ] && [ "$old" != "$version" ] && [ -x "$programs/$old/gpuaas-agent" ]; then
		point previous "$old"
	fi
	point current "$version"
	put "$work/ca.pem" 0644 "$etc/control-plane-ca.pem"
	sed -e 's|@API_URL@|{{.URL}}|' -e 's|@NODE_ID@|{{.NodeID}}|' -e 's|@ALLOW_IP_URL@|{{.AllowIPURL}}|' \
		"$work/package/agent.env" >"$work/agent.env"
	put "$work/agent.env" 0644 "$etc/agent.env"
	# A node that has run before may know newer verifiers than the package.
	[ -e "$state/verifiers.json" ] || put "$work/package/verifiers.json" 0600 "$state/verifiers.json"
	put "$work/package/$unit" 0644 "$units/$unit"
}

enrol() {
	say 'enrolling node {{.NodeID}}'
	# One agent at a time has the identity; what tenants run goes on without it.
	if systemctl is-active --quiet "$unit"; then
		running=yes
		systemctl stop "$unit"
	fi
	"$programs/current/gpuaas-agent" enroll --token-file "$work/token" ||
		fail 'the node could not be enrolled; the lines above say why'
	undo=no
	systemctl daemon-reload
	systemctl enable "$unit"
	systemctl restart "$unit"
	say 'the agent runs; the node is active after its first poll'
}

main() {
	check_machine
	undo=no
	running=no
	work=$(mktemp -d)
	trap leave EXIT
	trap 'exit 1' HUP INT TERM
	write_credentials
	fetch_package
	install_package
	enrol
}

# The script itself may be what is on standard input: nobody else may read it.
main </dev/null
