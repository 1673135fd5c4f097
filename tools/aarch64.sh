#!/bin/sh
# Builds the numeric floors for 64-bit Arm by Debian's cross compiler and runs their quick tests
# under qemu-user: the captures and digests are those of every other machine.
set -eu
cd "$(dirname "$0")/.."

packages="g++-aarch64-linux-gnu qemu-user libgomp1:arm64 libstdc++6:arm64 libgtest-dev:arm64
libmpfr-dev:arm64 liblzma-dev:arm64 libssl-dev:arm64"
missing=""
for package in $packages; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing="$missing $package"
done
if [ -n "$missing" ]; then
  as_root=""
  [ "$(id -u)" -eq 0 ] || as_root="sudo"
  echo "aarch64: installing$missing"
  export DEBIAN_FRONTEND=noninteractive
  $as_root dpkg --add-architecture arm64
  $as_root apt-get update -qq
  # shellcheck disable=SC2086  # the list is words
  $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

[ -f build/aarch64/CMakeCache.txt ] || export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
cmake --preset aarch64 -Wno-dev >/dev/null
cmake --build --preset aarch64 -j"$(nproc)" --target formats_test house_test emu_test

# Sweeps over shapes and strides take minutes under an emulator and no other path than these.
emu="*Captures*:*Captured*:*StackRule*:*StackGates*:ElementRoundings*.*:TensorScales*.*:PackedScales.*"
emu="$emu:Convert.*:Quantize.Odd*:F32Scales.*:Swiglu.*:ScalingAwareTranspose.*:Layouts*.*"
emu="$emu:*SumsFolds*:*SumsLibraries*:*F16Accumulators*:Gates.*:Route.*:RowSums.*"
emu="$emu:*GemmEngines*:*GemmStages*:SliceEncoding.*:LibraryProducts.*:Sums*.*:ExactSum*.*"
# As many processes as keep two cores busy to the end; threads that wait leave the cores to them.
export OMP_WAIT_POLICY=passive
pids=""
run() {  # PROGRAM SHARD SHARDS [FILTER]
  GTEST_SHARD_INDEX=$2 GTEST_TOTAL_SHARDS=$3 \
    qemu-aarch64 "build/aarch64/tests/$1" --gtest_brief=1 "${4:-}" & pids="$pids $!"
}
for shard in 0 1 2 3; do run emu_test $shard 4 "--gtest_filter=$emu"; done
run formats_test 0 1
run house/house_test 0 1
failed=0
for pid in $pids; do wait "$pid" || failed=1; done
exit $failed
