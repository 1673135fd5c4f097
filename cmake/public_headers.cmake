# The headers of users: ${PROJECT_BINARY_DIR}/include/mxoracle holds those that are meant to be read, and in
# detail/ what they need.  A build shows them to the projects around it, and installs them.  Our own sources
# include from the root of the project.
set(public_headers
    formats/dtype.h formats/error.h formats/exp.h formats/input_choices.h formats/inputs.h formats/minifloat.h formats/mx_block.h
    formats/scale_rules.h formats/tensor.h ops/catalogue.h ops/sums.h
    emu/backends.h emu/communicators.h emu/prepared.h
    golden/explain/explain.h golden/files/safetensors.h golden/fingerprint/fit.h golden/fingerprint/probes.h
    golden/judge/bound.h golden/judge/comparator.h golden/judge/gate.h golden/judge/verdict.h golden/oracle.h
    golden/reports/reports.h golden/suites/compare.h golden/suites/generate.h
    golden/suites/shapes/compare_shapes.h golden/suites/verify.h)
set(umbrella "// Formats and operators, without a backend or a judge.\n#pragma once\n\n#include <mxoracle/version.h>\n")
foreach(header ${public_headers})
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${header})
    message(FATAL_ERROR "cmake/public_headers.cmake names ${header}, which is not there")
  endif()
  if(header MATCHES "^(formats|ops)/(.*)")
    string(APPEND umbrella "#include <mxoracle/${CMAKE_MATCH_2}>\n")
  endif()
endforeach()
configure_file(cmake/version.h.in include/mxoracle/version.h @ONLY)
file(CONFIGURE OUTPUT include/mxoracle/mxoracle.h CONTENT "${umbrella}" @ONLY)

file(GLOB_RECURSE all_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     formats/*.h ops/*.h emu/*.h golden/*.h)
set(stamp ${PROJECT_BINARY_DIR}/public_headers.stamp)
list(JOIN public_headers "|" joined)
add_custom_command(OUTPUT ${stamp}
  COMMAND ${CMAKE_COMMAND} -DFROM=${PROJECT_SOURCE_DIR} -DTO=${PROJECT_BINARY_DIR}/include/mxoracle
          "-DHEADERS=${joined}" -P ${PROJECT_SOURCE_DIR}/cmake/write_public_headers.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
  DEPENDS ${all_headers} cmake/write_public_headers.cmake
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  COMMENT "Headers of users" VERBATIM)
add_custom_target(mxo_headers DEPENDS ${stamp})
