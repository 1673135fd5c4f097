// Marks code that only some processors can run.  Open a region after the last #include, so
// that nothing shared with other files is compiled for it.
#pragma once

#define MXO_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define MXO_TARGET_BEGIN(isa) \
  MXO_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define MXO_TARGET_END MXO_PRAGMA(clang attribute pop)
#else
// GCC 12 warns about the deliberately undefined operand inside some AVX-512 intrinsics.
#define MXO_TARGET_BEGIN(isa)                                \
  MXO_PRAGMA(GCC diagnostic push)                            \
  MXO_PRAGMA(GCC diagnostic ignored "-Wuninitialized")       \
  MXO_PRAGMA(GCC diagnostic ignored "-Wmaybe-uninitialized") \
  MXO_PRAGMA(GCC push_options) MXO_PRAGMA(GCC target(isa))
#define MXO_TARGET_END MXO_PRAGMA(GCC pop_options) MXO_PRAGMA(GCC diagnostic pop)
#endif
