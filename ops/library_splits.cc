// The tables of splits, searched.
#include "ops/library_splits.h"

#include <algorithm>
#include <span>

#include "formats/error.h"
#include "formats/nearest_name.h"
#include "ops/h100_split_layers.h"
#include "ops/h100_split_steps.h"
#include "ops/h200_split_layers.h"
#include "ops/h200_split_steps.h"

namespace mxo {
namespace {

using library_splits::Layer;
using library_splits::Shape;

constexpr Index kMostRows = 131072;

struct Table {
  LibraryMachine machine;
  std::string_view name;
  std::string_view card;
  std::span<const Shape> asked;
  std::span<const Layer> layers;
  const std::uint32_t* steps;
};
const Table kTables[] = {
    {LibraryMachine::h100, "h100", "H100", library_splits::h100::kAsked,
     library_splits::h100::kLayers, library_splits::h100::kSteps},
    {LibraryMachine::h200, "h200", "H200", library_splits::h200::kAsked,
     library_splits::h200::kLayers, library_splits::h200::kSteps},
};

const Table& table_of(LibraryMachine machine) {
  return *std::find_if(std::begin(kTables), std::end(kTables),
                       [&](const Table& table) { return table.machine == machine; });
}

bool is_blockwise(LibraryProduct kind) {
  return kind == LibraryProduct::fp8_blockwise || kind == LibraryProduct::fp8_blockwise_f32;
}

}  // namespace

std::string_view name_of(LibraryMachine machine) { return table_of(machine).name; }

LibraryMachine library_machine_named(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Table& table : kTables) {
    if (table.name == name) return table.machine;
    known.push_back(table.name);
  }
  throw Error(Fault::argument, with_nearest("sum.machine: found '" + std::string(name) + "'", name,
                                            known, "needs one of"));
}

std::string library_of(LibraryMachine machine) {
  return "cuBLASLt 13.1.0 on an " + std::string(table_of(machine).card);
}

std::optional<int> library_parts(LibraryMachine machine, LibraryProduct kind, Index m, Index n,
                                 Index k) {
  if (!library_was_asked(machine, n, k) || m < 1 || m > kMostRows) return std::nullopt;
  if (is_blockwise(kind) && m % 4 != 0) return std::nullopt;
  const Table& table = table_of(machine);
  const auto layer = std::find_if(table.layers.begin(), table.layers.end(), [&](const Layer& l) {
    return l.kind == kind && l.n == n && l.k == k;
  });
  if (layer == table.layers.end()) return 1;
  const std::uint32_t* first = table.steps + layer->first;
  const std::uint32_t* past =
      std::upper_bound(first, first + layer->count, m,
                       [](Index rows, std::uint32_t step) { return rows < step / 16; });
  const auto parts = static_cast<int>(past[-1] % 16);
  if (parts == 0) return std::nullopt;
  return parts;
}

bool library_was_asked(LibraryMachine machine, Index n, Index k) {
  const std::span<const Shape> asked = table_of(machine).asked;
  return std::any_of(asked.begin(), asked.end(),
                     [&](const Shape& shape) { return shape.n == n && shape.k == k; });
}

}  // namespace mxo
