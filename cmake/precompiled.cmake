# Large headers of others that tests and commands include, compiled once a program: googletest and
# CLI11 are a third to two thirds of what a compiler does there.  The libraries only where clang compiles
# them by groups, for the sanitizers: what one of their sources forgets to include shows in the builds
# without, and GCC gains nothing.

# Not where something stands before the compiler that may not know such files.  ccache does where it is
# told so, as in .ci/run, but clang writes the name of its folder into them: they and all that is
# compiled with them are known in that folder alone.  Nor in another project, whose compiler we have
# not tried.
set(precompiled ${PROJECT_IS_TOP_LEVEL})
if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT (CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
                                        AND "$ENV{CCACHE_SLOPPINESS}" MATCHES "pch_defines"))
  set(precompiled OFF)
endif()
option(MXO_PRECOMPILED "Compile large headers of others once a program" ${precompiled})

set(MXO_STANDARD_HEADERS <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <functional> <map>
    <optional> <random> <span> <string> <string_view> <vector>)

# mxo_precompiled(TARGET headers...)
function(mxo_precompiled target)
  if(MXO_PRECOMPILED)
    target_precompile_headers(${target} PRIVATE ${ARGN} ${MXO_STANDARD_HEADERS})
    # GCC 12 takes std::string's own insides for faults where they were compiled before.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds>)
  endif()
endfunction()

# Of a library, where its sources are compiled by groups.
function(mxo_precompiled_groups target)
  if(MXO_PRECOMPILED AND CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_precompile_headers(${target} PRIVATE ${MXO_STANDARD_HEADERS} ${ARGN})
  endif()
endfunction()
