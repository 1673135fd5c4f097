# Optional machines.  A switch selects a source file, never a branch inside one.
if(MXO_CUDA)
  enable_language(CUDA)
  file(GLOB cuda_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} emu/cuda/*.cu)
  target_sources(mxo_emu PRIVATE ${cuda_sources})
else()
  target_sources(mxo_emu PRIVATE emu/cuda/cuda_absent.cc)
endif()
