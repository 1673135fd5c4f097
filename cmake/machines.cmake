# Optional machines: object libraries beside mxo::emu, mxo::cuda, mxo::mpi and mxo::nccl.  mxo::emu
# alone says that they are not here (*_absent.cc) and asks for none of what they need; an object on
# the line of a linker comes before a member of a library, so who links one has it.
target_sources(mxo_emu PRIVATE emu/cuda/cuda_absent.cc emu/comm/in_process.cc
               emu/comm/mpi_absent.cc emu/comm/nccl_absent.cc)
add_library(mxo_machines INTERFACE)  # those of this build, for our own executables

function(mxo_machine name)
  add_library(mxo_${name} OBJECT ${ARGN})
  add_library(mxo::${name} ALIAS mxo_${name})
  set_target_properties(mxo_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(mxo_${name} PUBLIC mxo_emu PRIVATE $<BUILD_INTERFACE:mxo_warnings>)
  target_sources(mxo_machines INTERFACE $<TARGET_OBJECTS:mxo_${name}>)
endfunction()

if(MXO_CUDA)
  set(CMAKE_CUDA_ARCHITECTURES OFF)  # named below, as machine code that CMake has no word for
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit 13.0 REQUIRED)
  file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} emu/cuda/*.cu)
  # Machine code for Hopper, and PTX for what comes after it; *_sm90a.cu uses instructions that
  # Hopper alone has.
  foreach(source ${cuda_sources})
    set(targets "-gencode=arch=compute_90a,code=sm_90a")
    if(NOT source MATCHES "_sm90a.cu$")
      list(APPEND targets "-gencode=arch=compute_90,code=compute_90")
    endif()
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${targets}")
  endforeach()
  mxo_machine(cuda ${cuda_sources})
  target_link_libraries(mxo_cuda PRIVATE CUDA::cudart_static)
  target_link_libraries(mxo_machines INTERFACE CUDA::cudart_static)
endif()

if(MXO_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)  # the C interface
  find_package(MPI REQUIRED COMPONENTS CXX)
  mxo_machine(mpi emu/comm/mpi.cc)
  target_link_libraries(mxo_mpi PRIVATE MPI::MPI_CXX)
  target_link_libraries(mxo_machines INTERFACE MPI::MPI_CXX)
endif()

if(MXO_NCCL)
  if(NOT MXO_CUDA)
    message(FATAL_ERROR "MXO_NCCL: NCCL moves what the CUDA backend computes; needs MXO_CUDA=ON")
  endif()
  list(APPEND CMAKE_MODULE_PATH ${PROJECT_SOURCE_DIR}/cmake)
  find_package(NCCL 2.18 REQUIRED)
  set_source_files_properties(emu/comm/nccl.cu PROPERTIES
    COMPILE_OPTIONS "-gencode=arch=compute_90a,code=sm_90a")
  mxo_machine(nccl emu/comm/nccl.cu)
  target_link_libraries(mxo_nccl PUBLIC mxo_cuda PRIVATE NCCL::NCCL)
  target_link_libraries(mxo_machines INTERFACE NCCL::NCCL)
endif()
