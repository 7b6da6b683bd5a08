#!/bin/bash
# Installs what is missing, builds, trains a small GPT on the licence texts that every Debian system has, under a budget
# of 40 % of what keeping all activations takes, and compares it with other budgets. Three minutes after the build.
#   examples/quickstart.sh [--steps N] [--threads N] [--json FILE]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build

bash "$root/.ci/install.sh" build
generator=()
[ -f "$build/CMakeCache.txt" ] || generator=(-G Ninja)
echo "building in $build"
mkdir -p "$build"
if ! {
  cmake -S "$root" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release &&
    cmake --build "$build" --target quickstart train_gpt plan_graph -j "$(nproc)"
} >"$build/quickstart.log" 2>&1; then
  tail -n 50 "$build/quickstart.log" >&2
  exit 1
fi

data=()
for file in /usr/share/common-licenses/*; do
  if [ -f "$file" ] && [ ! -L "$file" ]; then
    data+=(--data "$file")
  fi
done
[ ${#data[@]} -gt 0 ] || {
  echo "quickstart.sh: no text in /usr/share/common-licenses: give one with --data FILE to $build/examples/quickstart" >&2
  exit 1
}
exec "$build/examples/quickstart" "${data[@]}" "$@"
