# find_package(mxoracle) gives mxo::formats, mxo::ops, mxo::emu and mxo::golden.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mxoracle)
set_target_properties(mxo_numerics PROPERTIES EXPORT_NAME numerics)
install(TARGETS mxo_numerics mxo_formats mxo_ops mxo_emu mxo_golden EXPORT mxoracle)
install(EXPORT mxoracle NAMESPACE mxo:: DESTINATION ${package_dir} FILE mxoracleTargets.cmake)
foreach(floor formats ops emu golden)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${floor}/
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mxoracle/${floor} FILES_MATCHING PATTERN "*.h")
endforeach()
configure_package_config_file(cmake/mxoracleConfig.cmake.in
  ${PROJECT_BINARY_DIR}/mxoracleConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mxoracleConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mxoracleConfig.cmake ${PROJECT_SOURCE_DIR}/cmake/FindNCCL.cmake
  ${PROJECT_BINARY_DIR}/mxoracleConfigVersion.cmake DESTINATION ${package_dir})
