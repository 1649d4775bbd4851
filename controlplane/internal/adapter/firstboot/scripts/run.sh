# Carries out the layers of the first boot in their order and stops at the first
# that fails; only those that let people in to see why are carried out still.
# Beside this script, NN-NAME.json says for each layer that was begun
# how far it came and why it failed; NN-NAME.log is what it printed. Running this
# again goes on where it stopped: a layer that succeeded is not repeated.
set -eu
umask 022
cd /
case $0 in
/*) home=${0%/*} ;;
*)
  echo 'gpuaas first boot: start this script by its full path' >&2
  exit 2
  ;;
esac
chmod 0700 "$home"
exec 9>"$home/lock"
if ! flock -n 9; then
  echo 'gpuaas first boot: it is running already' >&2
  exit 2
fi

now() { date -u +%Y-%m-%dT%H:%M:%SZ; }

# plain makes one line of anything that can stand in a string of JSON.
plain() { tr '\n\t' '  ' | LC_ALL=C tr -cd '\040-\176' | cut -c1-500 | sed 's/ *$//; s/\\/\\\\/g; s/"/\\"/g'; }

# record STATE EXIT-CODE STEP REASON
record() {
  ended=null
  [ "$1" = started ] || ended="\"$(now)\""
  printf '{"layer":"%s","version":"%s","digest":"%s","state":"%s","started_at":"%s","ended_at":%s,"exit_code":%s,"step":"%s","reason":"%s"}\n' \
    "$name" "$version" "$digest" "$1" "$began" "$ended" "$2" "$3" "$4" >"$home/$place.json.new"
  mv -f "$home/$place.json.new" "$home/$place.json"
}

succeeded() {
  [ -f "$home/$place.json" ] && grep -qF "\"digest\":\"$digest\",\"state\":\"succeeded\"" "$home/$place.json"
}

failed=
while read -r place name version digest <&3; do
  layer=$home/layers/$place
  if succeeded; then
    rm -rf "$layer" # it holds secrets
    continue
  fi
  if [ -n "$failed" ] && [ ! -e "$layer/rescue" ]; then
    continue
  fi
  began=$(now)
  record started null '' ''
  code=0
  sh -eu "$layer/steps" "$layer" </dev/null >"$home/$place.log" 2>&1 3<&- 9>&- || code=$?
  if [ "$code" -ne 0 ]; then
    step=$(cat "$layer/at" 2>/dev/null || true)
    step=$(printf '%s' "$step" | plain)
    record failed "$code" "$step" "$(tail -n 3 "$home/$place.log" | plain)"
    echo "gpuaas first boot: layer $name, version $version, failed with $code at: $step; see $home/$place.log" >&2
    failed=yes
    continue
  fi
  record succeeded 0 '' ''
  rm -rf "$layer"
  echo "gpuaas first boot: layer $name, version $version, succeeded"
done 3<"$home/layers.list"
[ -z "$failed" ]
