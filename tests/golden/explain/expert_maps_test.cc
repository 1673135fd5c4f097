// Groups that were multiplied by another expert's weights: the sentence leaves none out, however
// small.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "emu/backends.h"
#include "golden/explain/call.h"
#include "golden/explain/explain.h"
#include "tests/support/random_tensors.h"

namespace mxo {
namespace {

struct ExpertMap {
  const char* name;
  std::vector<Index> taken;  ///< of each group: whose weights
  const char* sentence;
};

const ExpertMap kMaps[] = {
    {"next", {1, 2, 3, 4, 0}, "explained: groups are multiplied by the next expert's weights"},
    {"first_two",
     {1, 0, 2, 3, 4},
     "explained: group 0 is multiplied by the weights of expert 1 and group 1 is multiplied by the "
     "weights of expert 0, in all of groups 0 to 1 of y"},
    {"small_one",
     {0, 2, 1, 3, 4},
     "explained: group 1 is multiplied by the weights of expert 2 and group 2 is multiplied by the "
     "weights of expert 1, in all of groups 1 to 2 of y"},
};

class ExpertMaps : public testing::TestWithParam<ExpertMap> {};

TEST_P(ExpertMaps, NameEveryGroupHoweverSmall) {
  NamedTensors in;
  in.emplace("x", test::random_floats(Dtype::bf16, {128, 128}, 1, 1));
  in.emplace("w", test::random_floats(Dtype::bf16, {5, 64, 128}, 2, 1));
  Tensor ends(Dtype::i32, {5});
  const std::int32_t rows[] = {64, 67, 107, 107, 128};  // three rows, and none
  std::memcpy(ends.data(), rows, sizeof rows);
  in.emplace("group_ends", ends);
  NamedTensors wrong = in;
  const std::size_t expert = in.at("w").bytes() / 5;
  for (std::size_t e = 0; e < 5; ++e) {
    std::memcpy(wrong.at("w").data() + e * expert,
                in.at("w").data() + static_cast<std::size_t>(GetParam().taken[e]) * expert, expert);
  }
  const auto backend = make_backend("cpu", 1);
  const Call call = make_call("grouped_matmul", in, {});
  EXPECT_EQ(explain(*backend, call, run_call(*backend, call),
                    run_call(*backend, make_call("grouped_matmul", wrong, {})))
                .sentence(),
            GetParam().sentence);
}

INSTANTIATE_TEST_SUITE_P(All, ExpertMaps, testing::ValuesIn(kMaps),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace mxo
