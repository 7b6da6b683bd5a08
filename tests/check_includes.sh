#!/bin/bash
# Who may include whom: planner -> include; ops -> include; autograd -> include, planner, ops; examples -> include;
# each also its own folder. tests may include anything. Usage: check_includes.sh [ROOT]
set -eu
cd "${1:-$(dirname "$0")/..}"

declare -A allowed=(
  [include]="include"
  [planner]="include planner"
  [ops]="include ops"
  [autograd]="include planner ops autograd"
  [examples]="include examples")
# Where a quoted include is looked up besides the folder of the file itself: the private paths of CMakeLists.txt.
declare -A paths=(
  [include]="include"
  [planner]="planner"
  [ops]="ops ops/cpu ops/cuda"
  [autograd]=". autograd ops"
  [examples]="examples")
# What comes from outside is named in few places, so that it can be replaced: header -> who may include it.
declare -A outside=(
  [uthash.h]="one" [utarray.h]="one" [cblas.h]="ops" [jansson.h]="planner autograd examples"
  [cuda_runtime.h]="ops" [cuda_runtime_api.h]="ops" [cublasLt.h]="ops" [cudnn.h]="ops" [nvtx3/nvToolsExt.h]="ops")

problems=0 files=0
declare -A users
complain() {
  echo "$1"
  problems=$((problems + 1))
}

check_quoted() { # file folder name
  local place target=
  for place in "$(dirname "$1")" ${paths[$2]}; do
    if [ -f "$place/$3" ]; then
      target=$(realpath --relative-to=. "$place/$3")
      break
    fi
  done
  if [ -z "$target" ]; then
    complain "$1: includes \"$3\", which is in no folder that $2 may see"
  elif [[ " ${allowed[$2]} " != *" ${target%%/*} "* ]]; then
    complain "$1: includes $target; $2 may only include ${allowed[$2]}"
  elif [ "$2" != include ] && [[ $target == include/* ]]; then
    complain "$1: includes \"$3\"; public headers are included as <reprise/...>"
  fi
}

check_angled() { # file folder name
  if [[ $3 == reprise/* ]]; then
    [ -f "include/$3" ] || complain "$1: includes <$3>, which does not exist"
    return
  fi
  local owner=${outside[$3]:-}
  if [ "$owner" = one ]; then
    users[$3]+="$1 "
  elif [ -n "$owner" ] && [[ " $owner " != *" $2 "* ]]; then
    complain "$1: includes <$3>; only $owner may"
  fi
}

for folder in include planner ops autograd examples; do
  while IFS= read -r file; do
    files=$((files + 1))
    while IFS= read -r line; do
      if [[ $line =~ ^[[:space:]]*#[[:space:]]*include[[:space:]]*\"([^\"]+)\" ]]; then
        check_quoted "$file" $folder "${BASH_REMATCH[1]}"
      elif [[ $line =~ ^[[:space:]]*#[[:space:]]*include[[:space:]]*\<([^\>]+)\> ]]; then
        check_angled "$file" $folder "${BASH_REMATCH[1]}"
      fi
    done < <(grep -E '^[[:space:]]*#[[:space:]]*include' "$file" || true)
  done < <(find $folder -name '*.[ch]' -o -name '*.cu' | LC_ALL=C sort)
done
for header in "${!users[@]}"; do
  read -ra names <<<"${users[$header]}"
  [ ${#names[@]} -eq 1 ] || complain "<$header> is included by ${names[*]}; it belongs in one wrapper"
done

echo "includes: $files files, $problems problems"
[ $files -gt 0 ] && [ $problems -eq 0 ]
