// Faults of weight gradients, whose blocks begin anew at each group.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/golden/planted.h"

namespace mxo {
namespace {

constexpr Index kGroup = 128;  ///< rows of each

/// dy [512, 96] and x [512, 160] in four groups.
Call gradient(Backend& b) {
  Call call = mx_wgrad(b, 7);
  NamedTensors in;
  for (const char* name : {"dy", "x"}) {
    const Index columns = call.input(std::string(name) + ".codes").shape().back();
    for (const char* part : {".codes", ".scales"}) {
      const Tensor& given = call.input(std::string(name) + part);
      const Index rows = part[1] == 'c' ? 4 * kGroup : 4 * kGroup / 32;
      Tensor t(given.dtype(), {rows, columns});
      for (std::size_t at = 0; at < t.bytes(); at += given.bytes()) {
        std::memcpy(t.data() + at, given.data(), std::min(given.bytes(), t.bytes() - at));
      }
      in.emplace(std::string(name) + part, std::move(t));
    }
  }
  in.emplace("group_ends", ends_of({128, 256, 384, 512}));
  return make_call("grouped_matmul_wgrad", std::move(in), {});
}

void rows_from(Tensor& to, const Tensor& from, Index (*source)(Index)) {
  for (Index r = 0; r < to.extent(0); ++r) {
    const std::size_t at = static_cast<std::size_t>(source(r)) * row_bytes(to);
    std::memcpy(row_of(to, r), from.data() + at, row_bytes(to));
  }
}

const PlantedFault kFaults[] = {
    {"the last block of every group is left out", "k.missing", "rows 96 to 127",
     [](Backend& b) {
       return altered(b, gradient(b), {"x.codes"}, [](Tensor& t, const Tensor&) {
         for (Index r = 0; r < t.extent(0); ++r) {
           if (r % kGroup >= 96) std::memset(row_of(t, r), 0, row_bytes(t));
         }
       });
     }},
    {"two blocks of x are exchanged in every group", "dy=blocks|x=blocks", "of x",
     [](Backend& b) {
       return altered(b, gradient(b), {"x.codes", "x.scales"}, [](Tensor& t, const Tensor& f) {
         if (t.extent(0) == 4 * kGroup) {
           rows_from(t, f, [](Index r) { return r % kGroup < 64 ? r ^ 32 : r; });
         } else {
           rows_from(t, f, [](Index r) { return r % 4 < 2 ? r ^ 1 : r; });
         }
       });
     }},
    {"scales of x rolled by a column", "x.scales=source", "1 column before",
     [](Backend& b) {
       return altered(b, gradient(b), {"x.scales"}, [](Tensor& t, const Tensor& f) {
         const Index columns = t.extent(1);
         for (Index i = 0; i < t.elements(); ++i) {
           const Index from = i / columns * columns + (i % columns + columns - 1) % columns;
           t.as<std::uint8_t>()[i] = f.as<std::uint8_t>()[from];
         }
       });
     }},
};

class PlantedInGradients : public testing::TestWithParam<std::size_t> {};

TEST_P(PlantedInGradients, AreNamed) { expect_named(kFaults[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Faults, PlantedInGradients,
                         testing::Range(std::size_t{0}, std::size(kFaults)));

}  // namespace
}  // namespace mxo
