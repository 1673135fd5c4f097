# Optional machines.  A switch selects a source file, never a branch inside one.
if(MXO_CUDA)
  enable_language(CUDA)
  file(GLOB cuda_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} emu/cuda/*.cu)
  target_sources(mxo_emu PRIVATE ${cuda_sources})
else()
  target_sources(mxo_emu PRIVATE emu/cuda/cuda_absent.cc)
endif()

target_sources(mxo_emu PRIVATE emu/comm/in_process.cc)
if(MXO_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)  # the C interface
  find_package(MPI REQUIRED COMPONENTS CXX)
  target_sources(mxo_emu PRIVATE emu/comm/mpi.cc)
  target_link_libraries(mxo_emu PRIVATE MPI::MPI_CXX)
else()
  target_sources(mxo_emu PRIVATE emu/comm/mpi_absent.cc)
endif()
