# Sourced by .ci/run and tools/nightly.sh: what a compiler returned for the same command and sources in an
# earlier run, whatever its folder was called, comes from ~/.cache/ccache.  CCACHE_RECACHE=1 compiles all.
export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_STATSLOG="$PWD/build/ccache.log"
