// Faults that real kernels had, planted in right outputs.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "golden/explain/explain.h"

namespace mxo {

/// A question, its answer, and the answer of a kernel with one fault.
struct Planted {
  Call call;
  NamedTensors expected;
  NamedTensors actual;
};

/// The outputs of a kernel; nothing where a call has none of what its fault spoils.
using Answer = std::optional<NamedTensors>;

/// One row: a public report and a fault as it had.
struct Exhibit {
  int number;                ///< rows of one report share it
  std::string_view reports;  ///< "NVIDIA/cutlass#3596", or "none: ..."
  std::string_view fault;    ///< what went wrong, in words
  /// What explain has to say first: beginnings of ids, separated by '|'.  "unknown" where nothing
  /// in the operands tells what happened, and any name would be false; "same" where what is
  /// wrong is not compared, and the pattern says so.
  std::string_view names;
  /// What the place has to say: part of the sentence; empty: everywhere.
  std::string_view place;
  std::string_view op;  ///< whose kernel has the fault
  /// Operands that it shows in.
  Call (*operands)(Backend& backend, World& world, std::uint64_t seed);
  /// What the faulty kernel makes of any call of `op`, whose right answer is `right`.
  Answer (*answer)(Backend& backend, const Call& call, const NamedTensors& right);
};

std::span<const Exhibit> exhibits();

/// The fault of an exhibit, planted in operands of its own.
Planted plant(Backend& backend, World& world, const Exhibit& exhibit, std::uint64_t seed);

/// An exhibit as explain sees it.
struct Looked {
  Explanation explanation;
  bool named = false;  ///< the first cause is one of the names, in the place
};
Looked look_at(Backend& backend, World& world, const Exhibit& exhibit, std::uint64_t seed = 1);

// The tables, one file each.
std::span<const Exhibit> product_exhibits();
std::span<const Exhibit> scale_exhibits();
std::span<const Exhibit> quantiser_exhibits();
std::span<const Exhibit> quantised_tensor_exhibits();
std::span<const Exhibit> layer_exhibits();
std::span<const Exhibit> rank_exhibits();
std::span<const Exhibit> range_exhibits();
std::span<const Exhibit> huge_exhibits();

}  // namespace mxo
