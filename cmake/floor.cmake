# A floor of the house: a static library of every source in its folder.
#
#   mxo_floor(NAME [LINK floors below...] [PRIVATE third parties...])
#
# Sources that only some builds have (emu/cuda, emu/comm) are added by machines.cmake.
function(mxo_floor name)
  cmake_parse_arguments(floor "" "" "LINK;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "^emu/(cuda|comm)/")
  if(NOT sources)  # a floor may be empty while the house is being built
    file(WRITE ${PROJECT_BINARY_DIR}/empty_${name}.cc "")
    set(sources ${PROJECT_BINARY_DIR}/empty_${name}.cc)
  endif()
  add_library(mxo_${name} STATIC ${sources})
  add_library(mxo::${name} ALIAS mxo_${name})
  set_target_properties(mxo_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(mxo_${name} PUBLIC mxo_numerics ${floor_LINK}
                        PRIVATE $<BUILD_INTERFACE:mxo_warnings> ${floor_PRIVATE})
endfunction()
