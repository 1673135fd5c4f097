// A recorded product of a running model against the exact one.
// Thread safety: any threads at once; a call uses its backend from one thread.
#pragma once

#include <filesystem>
#include <string>

#include "golden/files/trace.h"
#include "ops/backend.h"

namespace mxo {

/// How far a product is from the library's.
/// unbounded: some bits differ where a sum in f32 may overflow, and no bound exists.
enum class Distance : std::uint8_t { bits, bound, unbounded, beyond };

struct JudgedRecord {
  Distance distance = Distance::bits;
  Index elements = 0;
  Index differing = 0;
  std::string cause;  ///< where it is beyond the bound
};

/// Every kept part of the record.  Throws Error(file) for what the trace says wrongly, and what the
/// operator throws.
JudgedRecord judge_record(Backend& backend, const std::filesystem::path& directory,
                          const TraceRecord& record);

}  // namespace mxo
