// Operators by name on views: strides, the caller's memory, a device's memory.
#include "emu/communicators.h"
#include "ops/backend_tensor.h"
#include "tests/support/far_backend.h"
#include "tests/support/random_tensors.h"
#include "tests/support/refusal.h"
#include "tests/support/same.h"

namespace mxo::test::catalogue_views_test {
namespace {

/// Numbers of many sizes, each its own.
Tensor numbers(std::vector<Index> shape) {
  Tensor t(Dtype::f32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i)
    t.as<float>()[i] = static_cast<float>((i * 37 + 11) % 1021 - 510) / 64.0f;
  return t;
}

Operand transposed_2d(const Tensor& t) {
  Operand view = t.operand();
  std::swap(view.extent[0], view.extent[1]);
  std::swap(view.stride[0], view.stride[1]);
  return view;
}

/// Every other column of `wide`.
template <typename View>
View every_other_column(View wide) {
  wide.extent[1] /= 2;
  wide.stride[1] = 2;
  return wide;
}

Tensor packed(const Operand& view) {
  Tensor t(view.dtype, {view.extent, view.extent + view.rank});
  copy_elements(view, t.result());
  return t;
}

/// A backend of the host that counts what is allocated and moved.
class Counting : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::byte* allocate(std::size_t bytes) override {
    ++moves;
    return inner().allocate(bytes);
  }
  void upload(std::byte* to, const std::byte* from, std::size_t bytes) override {
    ++moves;
    inner().upload(to, from, bytes);
  }
  void download(std::byte* to, const std::byte* from, std::size_t bytes) override {
    ++moves;
    inner().download(to, from, bytes);
  }
  int moves = 0;

 protected:
  void around(std::string_view, const std::function<void()>& run) override { run(); }
};

class CatalogueViews : public testing::Test {
 protected:
  std::unique_ptr<Backend> cpu_ = make_backend("cpu", 2);
  FarBackend far_;
};

TEST_F(CatalogueViews, StridesGiveTheBitsOfPackedOperands) {
  const Tensor x = numbers({96, 64});
  const Operand turned = transposed_2d(x);
  const NamedTensors want = call_operator(*cpu_, "quantize", {{"x", packed(turned)}}, {});
  for (Backend* backend : {cpu_.get(), static_cast<Backend*>(&far_)}) {
    const NamedTensors got = call_operator(*backend, "quantize", {{"x", turned}}, {});
    expect_same(got.at("codes"), want.at("codes"));
    expect_same(got.at("scales"), want.at("scales"));
  }
}

TEST_F(CatalogueViews, OutputsGoToTheCallersStrides) {
  const Tensor x = numbers({8, 64});
  const NamedTensors want = call_operator(*cpu_, "quantize", {{"x", x}}, {});
  for (Backend* backend : {cpu_.get(), static_cast<Backend*>(&far_)}) {
    Tensor wide(Dtype::u8, {8, 128});
    std::memset(wide.data(), 0x5A, wide.bytes());
    NamedViews views{{"x", x}};
    views.write_to("codes", every_other_column(wide.result()));
    const NamedTensors got = call_operator(*backend, "quantize", views, {});
    EXPECT_FALSE(got.contains("codes"));
    expect_same(got.at("scales"), want.at("scales"));
    expect_same(packed(every_other_column(wide.operand())), [&] {
      Tensor bytes = want.at("codes");
      bytes.reinterpret_as(Dtype::u8);
      return bytes;
    }());
    for (Index i = 1; i < wide.elements(); i += 2) ASSERT_EQ(wide.as<std::uint8_t>()[i], 0x5A);
  }
}

TEST_F(CatalogueViews, NothingIsCopiedOnTheHost) {
  Counting counting(*cpu_);
  const Tensor x = numbers({64, 64});
  Tensor codes(Dtype::e4m3, {64, 64});
  Tensor scales(Dtype::e8m0, {64, 2});
  NamedViews views{{"x", transposed_2d(x)}};
  views.write_to("codes", codes);
  views.write_to("scales", scales);
  EXPECT_TRUE(call_operator(counting, "quantize", views, {}).empty());
  EXPECT_EQ(counting.moves, 0);
}

TEST_F(CatalogueViews, MemoryOfTheBackendIsUsedWhereItLies) {
  const Tensor x = numbers({32, 64});
  const NamedTensors want = call_operator(*cpu_, "quantize", {{"x", x}}, {});
  BackendTensor there(far_, Dtype::f32, {32, 64});
  BackendTensor codes(far_, Dtype::e4m3, {32, 64});
  BackendTensor scales(far_, Dtype::e8m0, {32, 2});
  far_.upload(static_cast<std::byte*>(there.result().data), x.data(), x.bytes());
  Counting counting(far_);
  NamedViews views{{"x", {there.operand(), Memory::backend}}};
  views.write_to("codes", {codes.result(), Memory::backend});
  views.write_to("scales", {scales.result(), Memory::backend});
  EXPECT_TRUE(call_operator(counting, "quantize", views, {}).empty());
  EXPECT_EQ(counting.moves, 0);
  expect_same(on_host(far_, codes.operand()), want.at("codes"));
  expect_same(on_host(far_, scales.operand()), want.at("scales"));
}

TEST_F(CatalogueViews, WideIndicesWithStridesAreNarrowed) {
  const Tensor x = numbers({6, 4});
  Tensor wide(Dtype::i64, {3, 2});
  for (Index i = 0; i < 6; ++i) wide.as<std::int64_t>()[i] = i % 2 == 0 ? 5 - i : -77;
  Operand indices = wide.operand();
  indices.rank = 1;
  indices.stride[0] = 2;
  Tensor narrow(Dtype::i32, {3});
  for (Index i = 0; i < 3; ++i) narrow.as<std::int32_t>()[i] = static_cast<std::int32_t>(5 - 2 * i);
  const Tensor want = call_operator(*cpu_, "permute", {{"x", x}, {"indices", narrow}}, {}).at("y");
  for (Backend* backend : {cpu_.get(), static_cast<Backend*>(&far_)}) {
    const NamedViews views{{"x", x}, {"indices", indices}};
    expect_same(call_operator(*backend, "permute", views, {}).at("y"), want);
  }
}

TEST_F(CatalogueViews, RowsOfNoGroupStayAsTheyWere) {
  const Tensor y = numbers({5, 4});
  const Tensor bias = numbers({2, 4});
  const Tensor ends = test::group_ends_of({1, 3});
  const Parameters set(std::map<std::string, std::string, std::less<>>{{"out", "f32"}});
  for (Backend* backend : {cpu_.get(), static_cast<Backend*>(&far_)}) {
    Tensor out(Dtype::f32, {5, 4});
    std::fill_n(out.as<float>(), 20, 7.5f);
    NamedViews views{{"y", y}, {"bias", bias}, {"group_ends", ends}};
    views.write_to("out", out);
    call_operator(*backend, "add_bias", views, set);
    EXPECT_EQ(out.as<float>()[0], y.as<float>()[0] + bias.as<float>()[0]);
    for (Index i = 12; i < 20; ++i) EXPECT_EQ(out.as<float>()[i], 7.5f);
  }
}

TEST_F(CatalogueViews, OutputsOfRanksAreDelivered) {
  const std::unique_ptr<World> world = make_world("in_process");
  NamedTensors in;
  Tensor bits(Dtype::bf16, {4, 8});
  Tensor experts(Dtype::i32, {4, 1});
  in.emplace("rank0.y", bits);
  in.emplace("rank0.experts", experts);
  const Parameters set(std::map<std::string, std::string, std::less<>>{{"experts", "1"}});
  Tensor out(Dtype::u16, {4, 8});
  std::memset(out.data(), 0xFF, out.bytes());
  NamedViews views(in);
  views.write_to("rank0.out", out);
  EXPECT_TRUE(call_operator(*cpu_, "combine", views, set, world.get()).empty());
  for (Index i = 0; i < 32; ++i) EXPECT_EQ(out.as<std::uint16_t>()[i], 0);
  NamedViews wrong(in);
  wrong.write_to("rank1.out", out);
  EXPECT_THROW(call_operator(*cpu_, "combine", wrong, set, world.get()), Error);
}

TEST_F(CatalogueViews, OutputsThatACallLacksAreRefusedBeforeItWrites) {
  const Tensor x = numbers({4, 8});
  const Tensor dy = numbers({4, 4});
  Tensor dx(Dtype::f32, {4, 8});
  Tensor dprobs(Dtype::f32, {4});
  NamedViews views{{"x", x}, {"dy", dy}};
  views.write_to("dx", dx);
  views.write_to("dprobs", dprobs);
  EXPECT_EQ(refusal([&] { call_operator(*cpu_, "swiglu_backward", views, {}); }),
            "swiglu_backward: dprobs: found memory for an output that this call does not have");
  for (Index i = 0; i < dx.elements(); ++i) ASSERT_EQ(dx.as<float>()[i], 0.0f);
}

}  // namespace
}  // namespace mxo::test::catalogue_views_test
