#!/bin/sh
# From a bare Debian 12 to a verdict: builds mxo, generates a suite of golden vectors, verifies it,
# and holds what a real GPU returned (tests/data/demo) against what mxo computes.
set -eu
cd "$(dirname "$0")/.."

tools/setup.sh
[ -f build/release/CMakeCache.txt ] || export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
echo "== build"
cmake --preset release -Wno-dev >/dev/null
cmake --build --preset release --target mxo -j"$(nproc)"
mxo=build/release/mxo
out=build/demo
rm -rf "$out"
mkdir -p "$out"

echo
echo "== a suite of golden vectors: inputs with their edge cases, expectations, checksums"
"$mxo" generate "$out/suite" --suite quantize --level 0 --seed 1
"$mxo" verify "$out/suite"

echo
echo "== torchao's to_mx on an H200 (captured) against mxo run quantize, every byte"
agreed=0
total=0
for captured in tests/data/demo/mx_blocks.*.*.*.*.safetensors; do
  name=$(basename "$captured" .safetensors) # mx_blocks.<values>.<dtype>.<mode>.<format>
  input=${name%.*.*}
  format=${name##*.}
  mode=${name%.*}
  mode=${mode##*.}
  "$mxo" run quantize --quiet --input "tests/data/demo/$input.x.safetensors" \
    --output "$out/$name.safetensors" --set "format=$format" --set "scale_mode=$mode"
  total=$((total + 1))
  if "$mxo" compare "$captured" "$out/$name.safetensors" >"$out/$name.txt"; then
    verdict=PASS
    agreed=$((agreed + 1))
  else
    verdict=FAIL
  fi
  printf '%-44s %s\n' "$name" "$verdict"
  [ "$verdict" = PASS ] || cat "$out/$name.txt"
done
echo "$agreed of $total captured outputs agree in every byte (NaN as a class)"

echo
echo "== what a wrong quantiser looks like: floor scales where the capture has rceil"
sample=mx_blocks.normal.bf16
if "$mxo" compare "tests/data/demo/$sample.rceil.e4m3.safetensors" \
    "$out/$sample.floor.e4m3.safetensors"; then
  echo "demo: the comparison should have failed" >&2
  exit 1
fi

echo
echo "The wrong one was caught; of the captured outputs $agreed of $total agree."
[ "$agreed" -eq "$total" ]
