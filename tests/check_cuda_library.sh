#!/bin/bash
# The CUDA backend's library exports its entry alone and does not need the driver, so that it loads on a machine without.
# Usage: check_cuda_library.sh LIBRARY
set -eu
problems=0
exported=$(nm -D --defined-only --format=posix "$1" | awk '{ print $1 }')
if [ "$exported" != rp_cuda_backend ]; then
  echo "exported:" $exported
  problems=$((problems + 1))
fi
needed=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
for library in $needed; do
  case $library in
  libcuda.so* | libreprise* | libopenblas* | libjansson*)
    echo "needs $library"
    problems=$((problems + 1))
    ;;
  esac
done
echo "cuda library: $(wc -w <<<"$exported") symbol, $(wc -w <<<"$needed") libraries needed, $problems problems"
[ -n "$needed" ] && [ $problems -eq 0 ]
