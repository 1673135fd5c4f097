# Vector loops of the CPU by Highway: each source of the folders named lanes becomes an object of
# mxo_emu for each target of this processor.  Which of them runs is chosen at run time
# (emu/cpu/tables_*.cc); users of the library need no Highway.
find_path(MXO_HIGHWAY hwy/highway.h DOC "Highway's headers (libhwy-dev)" REQUIRED)
mark_as_advanced(MXO_HIGHWAY)
file(GLOB lanes CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} emu/cpu/lanes/*.cc)
file(GLOB products CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} emu/cpu/gemm/lanes/*.cc)
set(by_hand ${lanes})
list(FILTER by_hand INCLUDE REGEX "_avx512\\.cc$")
list(REMOVE_ITEM lanes ${by_hand})
# Arrays of vectors, which those of SVE, whose length is not known here, cannot be elements of.
set(arrays ${products} emu/cpu/lanes/layouts.cc)
list(REMOVE_ITEM lanes emu/cpu/lanes/layouts.cc)
# At -O2 GCC 12 leaves those arrays in memory.
set_source_files_properties(emu/cpu/lanes/layouts.cc PROPERTIES COMPILE_OPTIONS -O3
                            SKIP_PRECOMPILE_HEADERS ON)  # theirs are those of -O2

function(mxo_lanes target)
  add_library(mxo_lanes_${target} OBJECT ${ARGN})
  set_target_properties(mxo_lanes_${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
                        UNITY_BUILD OFF)  # each source is the whole of a table
  # No checks of Highway's own, which builds for debugging and sanitizers turn on: they are in its
  # library, and that is not linked.
  target_compile_definitions(mxo_lanes_${target} PRIVATE MXO_LANES_TARGET=HWY_${target}
                             HWY_IS_DEBUG_BUILD=0)
  target_include_directories(mxo_lanes_${target} SYSTEM PRIVATE ${MXO_HIGHWAY})
  target_link_libraries(mxo_lanes_${target} PRIVATE mxo_warnings)
  # Optimised in every build: clang 14 at -O1 needs more than 20 GB for encode.cc with AVX2.
  target_compile_options(mxo_lanes_${target} PRIVATE -O2)
  # GCC 12 takes the deliberately undefined operand inside some AVX-512 intrinsics for a mistake.
  target_compile_options(mxo_lanes_${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-uninitialized -Wno-maybe-uninitialized>)
  target_sources(mxo_emu PRIVATE $<TARGET_OBJECTS:mxo_lanes_${target}>)
  set(mxo_lanes_objects ${mxo_lanes_objects} mxo_lanes_${target} PARENT_SCOPE)
endfunction()

mxo_lanes(EMU128 ${arrays})  # plain C++, for every machine
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  mxo_lanes(AVX2 ${lanes} ${arrays})
  list(REMOVE_ITEM lanes emu/cpu/lanes/mx_words.cc)  # AVX-512 has its own
  mxo_lanes(AVX3 ${lanes} ${arrays} ${by_hand})
  foreach(target AVX2 AVX3)  # not SVE, whose precompiled vectors GCC 12 fails on
    mxo_precompiled(mxo_lanes_${target} PRIVATE ${PROJECT_SOURCE_DIR}/emu/cpu/lanes/lanes.h)
  endforeach()
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  mxo_lanes(NEON ${lanes} ${arrays})
  mxo_lanes(SVE ${lanes})
endif()
