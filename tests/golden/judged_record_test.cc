// A recorded product is judged by the exact product of the backend, not sum by sum.
#include "golden/judged_record.h"

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/files/safetensors.h"
#include "golden/museum/operands.h"
#include "ops/forwarding_backend.h"
#include "tests/golden/scratch.h"
#include "tests/support/products.h"

namespace mxo {
namespace {

class Counting final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  int products = 0;

 protected:
  void around(std::string_view op, const std::function<void()>& run) override {
    products += op == "grouped_matmul";
    run();
  }
};

TEST(JudgedRecord, AsksTheBackendForTheExactProduct) {
  const auto cpu = make_cpu_backend();
  Counting backend(*cpu);
  NamedTensors in;
  in.emplace("x", random_bf16({32, 512}, 1));
  in.emplace("w", random_bf16({1, 32, 512}, 2));
  in.emplace("group_ends", test::ends_of({32}));
  TraceRecord record;
  record.op = "grouped_matmul";
  record.output = "y";
  record.files = {"rows.safetensors"};
  record.parameters.set("out", "f32");
  TensorFile rows{in, {}};
  Parameters other = record.parameters;  // another order of f32
  other.set("sum", "fma_chain");
  rows.tensors.emplace("output.y", std::move(call_operator(*cpu, record.op, in, other).at("y")));
  const Scratch scratch;
  write_safetensors(scratch / "rows.safetensors", rows);
  const JudgedRecord judged = judge_record(backend, scratch.path(), record);
  EXPECT_EQ(judged.distance, Distance::bound);
  EXPECT_GT(judged.differing, judged.elements / 8);
  EXPECT_EQ(backend.products, 2) << "one that is expected, one that the bound is judged by";
}

}  // namespace
}  // namespace mxo
