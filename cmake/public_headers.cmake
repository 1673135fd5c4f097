# The headers of users, as <mxoracle/...> in ${PROJECT_BINARY_DIR}/include: what a build shows to the
# projects around it and what is installed.  Our own sources include from the root of the house.
#
# All of formats, all of ops but its insides; of emu and golden the doors, with what they include.
file(GLOB public_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} formats/*.h ops/*.h)
list(FILTER public_headers EXCLUDE REGEX "^ops/(checked|h100_split_layers|h100_split_steps|h200_split_layers|h200_split_steps|library_split_table|linear_factor|moe_steps|slot_checks)\\.h$")
set(doors emu/backends.h emu/communicators.h
    golden/files/manifest.h golden/files/read_tensors.h golden/files/safetensors.h
    golden/files/sha256.h golden/judge/bound.h golden/judge/comparator.h golden/judge/outputs.h
    golden/reports/reports.h golden/suites/case_file.h golden/suites/compare.h
    golden/suites/generate.h golden/suites/suites.h golden/suites/verify.h
    golden/suites/shapes/compare_shapes.h golden/suites/shapes/generate_shapes.h
    golden/explain/explain.h golden/fingerprint/fit.h golden/fingerprint/probes.h golden/oracle.h)
foreach(door ${doors})
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${door})
    message(FATAL_ERROR "cmake/public_headers.cmake names ${door}, which is not there")
  endif()
endforeach()

configure_file(cmake/version.h.in include/mxoracle/version.h @ONLY)
file(CONFIGURE OUTPUT include/mxoracle/inputs.h CONTENT
     "// Operands by seed, name and index, for C++ and CUDA.\n#pragma once\n\n#include <mxoracle/formats/input_choices.h>\n#include <mxoracle/formats/inputs.h>\n")
set(umbrella "// Formats and operators; <mxoracle/emu/...> and <mxoracle/golden/...> come one by one.\n")
string(APPEND umbrella "#pragma once\n\n#include <mxoracle/version.h>\n")
foreach(header ${public_headers})
  string(APPEND umbrella "#include <mxoracle/${header}>\n")
endforeach()
file(CONFIGURE OUTPUT include/mxoracle/mxoracle.h CONTENT "${umbrella}" @ONLY)

file(GLOB_RECURSE all_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     formats/*.h ops/*.h emu/*.h golden/*.h)
set(stamp ${PROJECT_BINARY_DIR}/public_headers.stamp)
list(JOIN public_headers "|" joined)
list(JOIN doors "|" joined_doors)
add_custom_command(OUTPUT ${stamp}
  COMMAND ${CMAKE_COMMAND} -DFROM=${PROJECT_SOURCE_DIR} -DTO=${PROJECT_BINARY_DIR}/include/mxoracle
          "-DHEADERS=${joined}|${joined_doors}"
          -P ${PROJECT_SOURCE_DIR}/cmake/write_public_headers.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
  DEPENDS ${all_headers} cmake/write_public_headers.cmake
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  COMMENT "Headers of users" VERBATIM)
add_custom_target(mxo_headers DEPENDS ${stamp})
