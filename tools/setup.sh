#!/bin/sh
# Installs what a build needs and this machine lacks (Debian 12 packages).
# With --browser also the one that looks at the pages of reports, with --cache the one that keeps
# what compilers returned, with --docs the one that reads the headers, with --rivals the libraries
# that benches and `mxo bench` measure beside ours.
# Asks dpkg first: where nothing is missing, nothing is downloaded.
set -eu

packages="cmake ninja-build g++ clang python3 python3-dev python3-venv libeigen3-dev libomp-dev
libgtest-dev libbenchmark-dev libfmt-dev nlohmann-json3-dev libcli11-dev libssl-dev libmpfr-dev
liblzma-dev libhwy-dev libopenmpi-dev openmpi-bin"

case "${1:-}" in
  --browser) packages="$packages chromium fonts-dejavu-core" ;;
  --cache) packages="$packages ccache" ;;
  --docs) packages="$packages doxygen" ;;
  --rivals) packages="$packages libopenblas-dev libdnnl-dev" ;;
esac

missing=""
for package in $packages; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  # One word an architecture: a machine may have the libraries of another one beside its own.
  case $state in installed*) ;; *) missing="$missing $package" ;; esac
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: as root, run: apt-get install$missing" >&2; exit 1; }
  as_root="sudo"
fi
echo "setup: installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086  # the lists are words
if ! { $as_root apt-get update && $as_root apt-get install -y --no-install-recommends $missing; } \
    >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
