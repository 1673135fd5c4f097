# Headers of others that most sources include, compiled once a program, or once for layers that are
# compiled alike: a quarter of what a compiler does there.  A missing include shows in
# tests/house/includes_test.py.
#
# Not where a launcher stands before the compiler that may not know such files; ccache does where
# CCACHE_SLOPPINESS says so, as in .ci/run.  Not in another project, whose compiler we have not tried.
set(precompiled ${PROJECT_IS_TOP_LEVEL})
if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT "$ENV{CCACHE_SLOPPINESS}" MATCHES "pch_defines")
  set(precompiled OFF)
endif()
set(MXO_STANDARD_HEADERS <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <functional> <map>
    <optional> <random> <set> <span> <string> <string_view> <vector>)

# mxo_precompiled(TARGET PRIVATE headers... | REUSE_FROM a target compiled with the same options)
function(mxo_precompiled target)
  if(precompiled)
    target_precompile_headers(${target} ${ARGN})
    # A cache knows what clang compiled before by its bytes, in which no time may stand.
    target_compile_options(${target} PRIVATE
                           "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
    # GCC 12 takes std::string's own insides for faults where they were compiled before.
    target_compile_options(${target} PRIVATE
                           "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-stringop-overflow>")
  endif()
endfunction()
