# Layers, and what of them is compiled together.

# Sources that are compiled as one, so that what all include is compiled once: a third of a folder's,
# by initial, so that a new file joins one group and leaves the others alone.  Apart stay numerics and the
# judge, where no call may find an overload of another file.  Not in another project, which says so itself,
# and not where CMAKE_UNITY_BUILD is OFF.  A missing include shows in tests/house/includes_test.py.
set(grouped ${PROJECT_IS_TOP_LEVEL})
if(DEFINED CMAKE_UNITY_BUILD)
  set(grouped ${CMAKE_UNITY_BUILD})
endif()
function(mxo_groups target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${grouped} UNITY_BUILD_MODE GROUP)
  foreach(source ${ARGN})
    if(NOT source MATCHES "^(formats|ops|emu|golden/judge)/")
      cmake_path(GET source PARENT_PATH group)
      foreach(initials a-g h-p q-z)
        if(source MATCHES "/[${initials}][^/]*$")
          string(APPEND group "_${initials}")
        endif()
      endforeach()
      string(MAKE_C_IDENTIFIER ${group} group)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
endfunction()

# A layer: a static library of every source in its folder, or of some, mxo::NAME to those who link it.
# They get C++20, the folder of <mxoracle/...> and the layers below, nothing else.
#
#   mxo_layer(NAME [SOURCES some...] [LINK layers below...] [PRIVATE third parties...] [ALIKE a layer])
#
# ALIKE: a layer compiled with the same options, whose precompiled headers are taken.
# Sources that only some builds have (emu/cuda, emu/comm) are added by machines.cmake.
function(mxo_layer name)
  cmake_parse_arguments(layer "" "ALIKE" "SOURCES;LINK;PRIVATE" ${ARGN})
  set(sources ${layer_SOURCES})
  if(NOT sources)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${name}/*.cc)
  endif()
  list(FILTER sources EXCLUDE REGEX "^emu/(cuda|comm)/")
  # Kernels are named after their instruction set; NAME_x86.cc has a NAME_portable.cc for the rest,
  # or for 64-bit Arm a NAME_aarch64.cc.
  list(FILTER sources EXCLUDE REGEX "^emu/cpu/(gemm/)?lanes/")  # by lanes.cmake
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(FILTER sources EXCLUDE REGEX "_(portable|aarch64)\\.cc$")
  else()
    list(FILTER sources EXCLUDE REGEX "[_/](x86|avx2|avx512|avx512_vnni|vbmi|amx)\\.cc$")
    set(arm ${sources})
    list(FILTER arm INCLUDE REGEX "_aarch64\\.cc$")
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
      list(TRANSFORM arm REPLACE "_aarch64\\.cc$" "_portable.cc")
    endif()
    list(REMOVE_ITEM sources ${arm})
  endif()
  add_library(mxo_${name} STATIC ${sources})
  add_library(mxo::${name} ALIAS mxo_${name})
  mxo_groups(mxo_${name} ${sources})
  set_target_properties(mxo_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_compile_features(mxo_${name} PUBLIC cxx_std_20)
  target_include_directories(mxo_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include> $<INSTALL_INTERFACE:include>)
  target_link_libraries(mxo_${name} PUBLIC ${layer_LINK}
                        PRIVATE $<BUILD_INTERFACE:mxo_warnings> ${layer_PRIVATE})
  add_dependencies(mxo_${name} mxo_headers)
  if(layer_ALIKE)
    mxo_precompiled(mxo_${name} REUSE_FROM ${layer_ALIKE})
  else()
    mxo_precompiled(mxo_${name} PRIVATE ${MXO_STANDARD_HEADERS})
  endif()
endfunction()
