// Which kind of a library's product an operator is, and its row of the table.
#include "ops/catalogue/split_table.h"

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "ops/library_splits.h"

namespace mxo {
namespace {

bool is_tensor_scale(const ScaledTensor& t) { return t.scaled() && t.scales.elements() == 1; }

std::optional<LibraryProduct> kind_of(const GroupedMatmul& op) {
  const bool wide = op.y.dtype == Dtype::f32;
  if (op.x.codes.dtype == Dtype::bf16 && op.w.codes.dtype == Dtype::bf16 && !wide) {
    return LibraryProduct::bf16;
  }
  if (op.x.codes.dtype != Dtype::e4m3 || op.w.codes.dtype != Dtype::e4m3) return std::nullopt;
  if (op.x.block == kRowBlock && op.w.block == kSquareBlock) {
    return wide ? LibraryProduct::fp8_blockwise_f32 : LibraryProduct::fp8_blockwise;
  }
  if (!is_tensor_scale(op.x) || !is_tensor_scale(op.w)) return std::nullopt;
  if (op.sum.promote == 0) return wide ? LibraryProduct::fp8_fast_f32 : LibraryProduct::fp8_fast;
  return wide ? LibraryProduct::fp8_promoted_f32 : LibraryProduct::fp8_promoted;
}

LibraryMachine machine_of(const Parameters& set) {
  return library_machine_named(set.text("sum.machine", name_of(LibraryMachine::h200)));
}

}  // namespace

bool wants_split_table(const Parameters& set) {
  const bool wanted = set.text("sum.split", "") == "table";
  if (!wanted && set.has("sum.machine")) {
    throw Error(Fault::argument, "sum.machine: found " + std::string(set.text("sum.machine", "")) +
                                     ", but only sum.split=table reads it");
  }
  return wanted;
}

Parameters without_split_table(const Parameters& set) {
  std::map<std::string, std::string, std::less<>> left = set.all();
  left.erase("sum.split");
  left.erase("sum.machine");
  return Parameters(std::move(left));
}

std::string split_table_note(const Parameters& set) {
  if (set.text("sum.split", "") != "table" || set.has("sum.machine")) return {};
  const LibraryMachine machine = machine_of(set);
  return "K is split by the table of " + library_of(machine) +
         "; sum.machine=h100 or h200 chooses one";
}

int split_by_table(std::string_view name, const GroupedMatmul& op, const Parameters& set) {
  const LibraryMachine machine = machine_of(set);
  const std::string start = std::string(name) + ": sum.split: found table, ";
  const std::optional<LibraryProduct> kind = kind_of(op);
  if (!kind || op.w.codes.rank != 3 || op.w.codes.extent[0] != 1) {
    throw Error(Fault::unsupported,
                start +
                    "which has one matrix of bf16, of e4m3 with a scale a tensor, or of e4m3 with "
                    "1x128 by 128x128 scales (" +
                    library_of(machine) + ")");
  }
  const Index m = op.x.codes.extent[0];
  const Index n = op.w.codes.extent[1];
  const Index k = op.w.codes.extent[2];
  const std::optional<int> parts = library_parts(machine, *kind, m, n, k);
  if (parts) return *parts;
  const std::string shape =
      std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k);
  throw Error(Fault::unsupported,
              start + (library_was_asked(machine, n, k)
                           ? "in which the library has no product of M x N x K " + shape
                           : "which has no N x K of M x N x K " + shape +
                                 "; sum.split=auto finds the parts from an output"));
}

}  // namespace mxo
