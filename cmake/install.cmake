# find_package(mxoracle COMPONENTS formats ops emu golden, and cuda mpi nccl where built): a
# component is a target mxo::NAME, and asks only for what it needs itself.  Judge and suites come with golden.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mxoracle)
foreach(component formats ops emu golden cuda mpi nccl)
  if(TARGET mxo_${component})
    set(targets mxo_${component})
    if(component STREQUAL golden)
      list(APPEND targets mxo_suites mxo_judge)
    endif()
    install(TARGETS ${targets} EXPORT mxoracle_${component}
            OBJECTS DESTINATION ${CMAKE_INSTALL_LIBDIR}/mxoracle)
    install(EXPORT mxoracle_${component} NAMESPACE mxo:: DESTINATION ${package_dir}
            FILE mxoracle_${component}.cmake)
  endif()
endforeach()
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/mxoracle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
configure_package_config_file(cmake/mxoracleConfig.cmake.in
  ${PROJECT_BINARY_DIR}/mxoracleConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mxoracleConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mxoracleConfig.cmake ${PROJECT_SOURCE_DIR}/cmake/FindNCCL.cmake
  ${PROJECT_BINARY_DIR}/mxoracleConfigVersion.cmake DESTINATION ${package_dir})
