# The headers of users, as <mxoracle/...> in ${PROJECT_BINARY_DIR}/include: what a build shows to the
# projects around it and what is installed.  Our own sources include from the root of the house.
file(GLOB public_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     formats/*.h ops/*.h emu/backends.h emu/communicators.h golden/*/*.h)
# Insides: what no user calls, and no header of theirs includes.
list(FILTER public_headers EXCLUDE REGEX "^ops/(checked|linear_factor|moe_steps)\\.h$")
list(FILTER public_headers EXCLUDE REGEX "^golden/files/(output_file|safetensors_header)\\.h$")
list(FILTER public_headers EXCLUDE REGEX
     "^golden/judge/(elements|group_rows|judge|measures|step_order)\\.h$")
list(FILTER public_headers EXCLUDE REGEX "^golden/(reports/text|explain/(hypotheses|match))\\.h$")
list(FILTER public_headers EXCLUDE REGEX
     "^golden/(suites/(case_list|edge_values|families|product_operands)|fingerprint/grid)\\.h$")

configure_file(cmake/version.h.in include/mxoracle/version.h @ONLY)
set(umbrella "// Formats and operators; <mxoracle/emu/...> and <mxoracle/golden/...> come one by one.\n")
string(APPEND umbrella "#pragma once\n\n#include <mxoracle/version.h>\n")
foreach(header ${public_headers})
  if(header MATCHES "^(formats|ops)/")
    string(APPEND umbrella "#include <mxoracle/${header}>\n")
  endif()
endforeach()
file(CONFIGURE OUTPUT include/mxoracle/mxoracle.h CONTENT "${umbrella}" @ONLY)

set(stamp ${PROJECT_BINARY_DIR}/public_headers.stamp)
list(JOIN public_headers "|" joined)
add_custom_command(OUTPUT ${stamp}
  COMMAND ${CMAKE_COMMAND} -DFROM=${PROJECT_SOURCE_DIR} -DTO=${PROJECT_BINARY_DIR}/include/mxoracle
          "-DHEADERS=${joined}" -P ${PROJECT_SOURCE_DIR}/cmake/write_public_headers.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
  DEPENDS ${public_headers} cmake/write_public_headers.cmake
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  COMMENT "Headers of users" VERBATIM)
add_custom_target(mxo_headers DEPENDS ${stamp})
