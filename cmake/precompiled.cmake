# Large headers of others that tests and commands include, compiled once a program: googletest and
# CLI11 are a third to two thirds of what a compiler does there.  Not the libraries: what one of their
# sources forgets to include shows only where it is compiled without.

# Not where a compiler cache stands before the compiler, which can do more and wants the files as
# they are; nor in another project, whose compiler we have not tried.
set(MXO_PRECOMPILED ${PROJECT_IS_TOP_LEVEL})
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(MXO_PRECOMPILED OFF)
endif()

# mxo_precompiled(TARGET headers...)
function(mxo_precompiled target)
  if(MXO_PRECOMPILED)
    target_precompile_headers(${target} PRIVATE ${ARGN}
      <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <functional> <map> <optional>
      <random> <span> <string> <string_view> <vector>)
    # GCC 12 takes std::string's own insides for faults where they were compiled before.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds>)
  endif()
endfunction()
