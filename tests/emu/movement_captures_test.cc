// Padding and permuting against what torchao returned.
#include <gtest/gtest.h>

#include <cstring>

#include "emu/backends.h"
#include "ops/catalogue.h"
#include "tests/support/captures.h"

namespace mxo {
namespace {

class MovementCaptures : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Backend> backend_ = make_backend(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Backends, MovementCaptures, testing::Values("reference", "cpu"),
                         [](const auto& row) { return std::string(row.param); });

void expect_same(const Tensor& expected, const Tensor& found, const std::string& what) {
  ASSERT_EQ(expected.shape(), found.shape()) << what;
  EXPECT_EQ(std::memcmp(expected.data(), found.data(), expected.bytes()), 0) << what;
}

TEST_P(MovementCaptures, PadsAndUnpadsAsTorchaoDid) {
  const TensorFile& file = test::capture("layouts");
  for (int n = 0; n < 5; ++n) {
    for (const char* alignment : {"16", "32", "128"}) {
      const std::string pad = "pad." + std::to_string(n) + ".";
      const std::string key = pad + alignment + ".";
      NamedTensors in;
      in["x"] = test::tensor_of(file, pad + "x");
      in["group_ends"] = test::tensor_of(file, "groups." + std::to_string(n) + ".offs");
      Parameters set;
      set.set("alignment", alignment);
      const NamedTensors out = call_operator(*backend_, "pad_groups", in, set);
      expect_same(test::tensor_of(file, key + "out"), out.at("y"), key);
      expect_same(test::tensor_of(file, key + "start"), out.at("padded_starts"), key);
      expect_same(test::tensor_of(file, key + "end"), out.at("padded_ends"), key);

      const Tensor& unpadded = test::tensor_of(file, key + "unpadded");
      NamedTensors back;
      back["y"] = out.at("y");
      back["group_ends"] = in.at("group_ends");
      back["padded_starts"] = out.at("padded_starts");
      Parameters rows;
      rows.set("rows", std::to_string(unpadded.extent(0)));
      expect_same(unpadded, call_operator(*backend_, "unpad_groups", back, rows).at("x"), key);
    }
  }
}

TEST_P(MovementCaptures, GivesThePermutationsThatTorchaoGave) {
  const TensorFile& file = test::capture("layouts");
  const char* const names[] = {"experts", "ranks", "max_len", "alignment"};
  for (int n = 0; n < 5; ++n) {
    const std::string key = "permute." + std::to_string(n) + ".";
    const auto* args = test::tensor_of(file, key + "args").as<std::int64_t>();
    Parameters set;
    for (int i = 0; i < 4; ++i) set.set(names[i], std::to_string(args[i]));
    NamedTensors in;
    in["tokens_per_expert"] = test::tensor_of(file, key + "tokens_per_expert");
    const NamedTensors out = call_operator(*backend_, "permute_indices", in, set);
    expect_same(test::tensor_of(file, key + "out0"), out.at("indices"), key);
    expect_same(test::tensor_of(file, key + "out1"), out.at("sizes"), key);
    expect_same(test::tensor_of(file, key + "out2"), out.at("ends"), key);
  }
}

}  // namespace
}  // namespace mxo
