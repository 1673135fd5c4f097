// Planted causes must come back first and in their place; what has no cause gets no name.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "emu/backends.h"
#include "formats/philox.h"
#include "golden/explain/explain.h"
#include "golden/museum/operands.h"

namespace mxo {
namespace {

std::unique_ptr<Backend> cpu() { return make_cpu_backend(); }

TEST(Explain, GivesNoNameToNoise) {
  const auto backend = cpu();
  for (const std::uint64_t seed : {1u, 2u}) {
    const Planted p = spoiled(*backend, mx_product(*backend, seed), [&](NamedTensors& out) {
      Tensor& y = out.at("y");
      for (Index i = 0; i < y.elements(); ++i) {
        auto& word = y.as<std::uint16_t>()[i];
        const auto noise = philox(static_cast<std::uint64_t>(i), 1, seed).word[0] & 7;
        word = static_cast<std::uint16_t>(word ^ noise);
      }
    });
    const Explanation e = explain(*backend, p.call, p.expected, p.actual);
    EXPECT_EQ(e.verdict, ExplainVerdict::unknown) << e.sentence();
    EXPECT_TRUE(e.causes.empty()) << e.sentence();
    EXPECT_NE(e.pattern, "");
  }
}

/// Gradients that run on from expert to expert are no groups that end before their first row.
TEST(Explain, MovesNoEndOutOfTheRows) {
  const auto backend = cpu();
  NamedTensors in;
  in.emplace("dy", random_floats({96, 48}, 7));
  in.emplace("x", random_floats({96, 64}, 8));
  in.emplace("group_ends", ends_of({32, 64, 96}));
  const Call call = make_call("grouped_matmul_wgrad", in, {});
  const Planted p = spoiled(*backend, call, [&](NamedTensors& out) {
    Call all = call;
    all.replace("group_ends", ends_of({0, 0, 96}));
    out.at("dw") = run_call(*backend, all).at("dw");
  });
  const Explanation e = explain(*backend, p.call, p.expected, p.actual);
  EXPECT_EQ(e.sentence().find("groups end"), std::string::npos) << e.sentence();
}

/// Spoils `n` random elements of `t`, or of some random rows of it, with random bits.
void corrupt(Tensor& t, std::uint64_t seed) {
  const auto word = [&](std::uint64_t i) { return philox(i, 3, seed).word[0]; };
  const std::size_t size = size_of(t.dtype());
  const Index n = t.elements();
  if (n == 0) return;
  const Index count = Index{1} << word(0) % 12;
  const Index columns = t.shape().back();
  const Index row = word(1) % 2 == 0 ? -1 : static_cast<Index>(word(2)) % (n / columns);
  for (Index i = 0; i < count; ++i) {
    const Index at = row < 0 ? static_cast<Index>(word(static_cast<std::uint64_t>(2 * i + 4))) % n
                             : row * columns + i % columns;
    const std::uint32_t bits = word(static_cast<std::uint64_t>(2 * i + 5)) | 3u;
    for (std::size_t b = 0; b < size; ++b) {
      t.data()[static_cast<std::size_t>(at) * size + b] ^= static_cast<std::byte>(bits >> (8 * b));
    }
  }
}

TEST(Explain, GivesNoNameToRandomCorruption) {
  const auto backend = cpu();
  NamedTensors x;
  x.emplace("x", random_floats({96, 256}, 8));
  NamedTensors padded;
  padded.emplace("x", random_bf16({100, 64}, 8));
  padded.emplace("group_ends", ends_of({33, 33, 70, 100}));
  const Call calls[] = {
      mx_product(*backend, 4),      bf16_product(4),
      make_call("quantize", x, {}), make_call("quantize", x, with({{"block", "1x128"}})),
      mx_wgrad(*backend, 4),        make_call("pad_groups", padded, {})};
  int named = 0;
  for (std::uint64_t seed = 0; seed < 18; ++seed) {
    const Call& call = calls[seed % std::size(calls)];
    const Planted p = spoiled(*backend, call, [&](NamedTensors& out) {
      corrupt(seed / 6 % 2 == 0 ? out.begin()->second : std::prev(out.end())->second, seed);
    });
    const Explanation e = explain(*backend, p.call, p.expected, p.actual);
    if (e.causes.empty()) continue;
    ++named;
    ADD_FAILURE() << call.op << " " << seed << ": " << e.sentence();
  }
  EXPECT_EQ(named, 0);
}

TEST(Explain, NamesOneCausePerPart) {
  const auto backend = cpu();
  Call call = rowwise_product(*backend, 5);
  call.set.set("out", "f32");
  call.set.set("sum", "h200_wgmma_fast");
  Call other = call;
  other.set.set("sum", "h200_wgmma_promote4");
  Planted p = planted(*backend, call, other);
  Tensor& y = p.actual.at("y");
  for (Index r = 28; r < 32; ++r) std::memset(row_of(y, r), 0xFF, row_bytes(y));
  const Explanation e = explain(*backend, call, p.expected, p.actual);
  EXPECT_EQ(e.verdict, ExplainVerdict::explained) << e.sentence();
  ASSERT_EQ(e.causes.size(), 2u) << e.sentence();
  EXPECT_NE(e.causes[0].sentence.find("h200_wgmma_promote4"), std::string::npos) << e.sentence();
  EXPECT_EQ(e.causes[1].where.rows, "28-31");
  EXPECT_NEAR(e.causes[0].share + e.causes[1].share, 1.0, 1e-9);
}

TEST(Explain, ReadsAFlatTensor) {
  const auto backend = cpu();
  Planted p = spoiled(*backend, bf16_product(3), [](NamedTensors& out) {
    std::memset(row_of(out.at("y"), 28), 0xFF, 4 * row_bytes(out.at("y")));
  });
  Tensor flat(Dtype::bf16, {p.actual.at("y").elements()});
  std::memcpy(flat.data(), p.actual.at("y").data(), flat.bytes());
  p.actual.insert_or_assign("y", flat);
  EXPECT_EQ(explain(*backend, p.call, p.expected, p.actual).verdict, ExplainVerdict::explained);
}

}  // namespace
}  // namespace mxo
