// Devices, memory and faults of the CUDA backend: what goes wrong is an Error that says what.
#include "formats/tensor.h"
#include "ops/combine_rows.h"
#include "ops/elementwise.h"
#include "ops/pad_groups.h"
#include "ops/permute.h"
#include "ops/quantize.h"
#include "ops/scale_layouts.h"
#include "ops/scaling_aware_transpose.h"
#include "tests/cuda/twin.h"

namespace mxo::test {
namespace {

class CudaBackendTest : public OnDevice {
 protected:
  /// The Error of `call`, or of waiting for it.
  template <typename Fn>
  void fails(Fault fault, const std::string& words, Fn&& call) {
    try {
      call();
      device_->synchronize();
      ADD_FAILURE() << "no Error; expected: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), fault) << error.what();
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
    EXPECT_NO_THROW(device_->synchronize()) << "a fault is reported once";
  }
};

TEST(CudaWithoutADevice, TellsWhyNot) {
  if (why_no_cuda().empty()) GTEST_SKIP() << "there is a device";
  try {
    make_backend("cuda");
    ADD_FAILURE() << "no Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::unsupported);
    EXPECT_EQ(std::string(error.what()).rfind("cuda: ", 0), 0u) << error.what();
  }
}

TEST_F(CudaBackendTest, RefusesADeviceThatIsNotThere) {
  for (const char* name : {"cuda:4711", "cuda:-1"}) {
    try {
      make_backend(name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::unsupported);
      EXPECT_NE(std::string(error.what()).find("is not available"), std::string::npos) << error.what();
    }
  }
}

TEST_F(CudaBackendTest, IsListedByTheNameOfTheCard) {
  bool listed = false;
  for (const BackendRow& row : list_backends()) {
    listed = listed || (row.name == "cuda:0" && row.available && !cuda_devices().empty() &&
                        row.why.find(cuda_devices()[0]) != std::string::npos);
  }
  EXPECT_TRUE(listed);
}

TEST_F(CudaBackendTest, GivesBackWhatWasUploaded) {
  std::vector<std::byte> bytes(1 << 20);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 >> 3);
  std::byte* memory = device_->allocate(bytes.size());
  device_->upload(memory, bytes.data(), bytes.size());
  device_->fill_zero(memory + 100, 50);
  std::vector<std::byte> back(bytes.size());
  device_->download(back.data(), memory, back.size());
  std::fill_n(bytes.begin() + 100, 50, std::byte{0});
  EXPECT_TRUE(back == bytes);
  device_->release(memory);
}

TEST_F(CudaBackendTest, OutOfMemoryNamesTheCallAndLeavesTheBackendUsable) {
  fails(Fault::unsupported, "cudaMallocAsync of 1099511627776 bytes: out of memory",
        [&] { device_->allocate(std::size_t{1} << 40); });
  std::byte* memory = device_->allocate(1 << 20);
  EXPECT_NE(memory, nullptr);
  device_->release(memory);
}

TEST_F(CudaBackendTest, ReportsEndsThatDecreaseWhenItWaits) {
  for (const auto& bad : {std::vector<std::int32_t>{5, 3, 9}, {5, 9, 11}, {-1, 4, 4}}) {
    Strided x(Dtype::bf16, {10, 4}, {"contiguous"});
    Strided ends = integers(bad);
    Strided y(Dtype::bf16, {padded_rows(10, 3, 4), 4}, {"contiguous"});
    Strided starts(Dtype::i32, {3}, {"contiguous"});
    const Mirror mx(*device_, x), me(*device_, ends), my(*device_, y), ms(*device_, starts),
        mp(*device_, starts);
    fails(Fault::shape, "cuda:0: group_ends: found ends that", [&] {
      pad_groups(*device_, {mx.operand(), me.operand(), my.result(), ms.result(), mp.result(), 4});
    });
  }
}

TEST_F(CudaBackendTest, ReportsIndicesThatPointOutsideOrTwiceAtARow) {
  Strided x(Dtype::f32, {4, 4}, {"contiguous"});
  const Mirror rows(*device_, x), to(*device_, x);
  for (const auto& bad : {std::vector<std::int32_t>{0, 4, 1, 2}, {0, -2, 1, 2}}) {
    Strided indices = integers(bad);
    const Mirror index(*device_, indices);
    fails(Fault::shape, "indices: an entry lies outside", [&] {
      permute(*device_, {rows.operand(), index.operand(), to.result()});
    });
    fails(Fault::shape, "indices: an entry lies outside", [&] {
      unpermute(*device_, {rows.operand(), index.operand(), to.result()});
    });
  }
  Strided twice = integers({0, 3, 3, -1});
  const Mirror index(*device_, twice);
  fails(Fault::shape, "a row is named twice", [&] {
    unpermute(*device_, {rows.operand(), index.operand(), to.result()});
  });
}

TEST_F(CudaBackendTest, ReportsCountsThatDoNotFit) {
  Strided words(Dtype::i32, {2}, {"contiguous"});
  Strided room(Dtype::i32, {8}, {"contiguous"});
  const Mirror sizes(*device_, words), ends(*device_, words), indices(*device_, room);
  for (const auto& bad : {std::vector<std::int32_t>{3, -1}, {9, 0}, {2147483647, 2147483647}}) {
    Strided counts = integers(bad);
    const Mirror given(*device_, counts);
    fails(Fault::shape, "counts: found negative ones", [&] {
      permute_indices(*device_,
                      {given.operand(), indices.result(), sizes.result(), ends.result(), 2, 1, 4});
    });
  }
}

TEST_F(CudaBackendTest, ReportsScalesThatAreNoPowerOfTwo) {
  Strided codes(Dtype::e4m3, {3, 4}, {"contiguous"});
  Strided scales(Dtype::f32, {3, 1}, {"contiguous"});
  for (const float bad : {3.0f, -2.0f, 0x1p-127f, INFINITY, NAN}) {
    for (Index i = 0; i < 3; ++i) std::memcpy(scales.at(i), &bad, sizeof bad);
    Strided ends = integers({3});
    Strided turned(Dtype::e4m3, {4, 3}, {"contiguous"});
    Strided tops(Dtype::f32, {1, 4}, {"contiguous"});
    const Mirror c(*device_, codes), s(*device_, scales), e(*device_, ends), t(*device_, turned),
        o(*device_, tops);
    fails(Fault::shape, "scales: an entry is no power of two", [&] {
      scaling_aware_transpose(*device_,
                              {c.operand(), s.operand(), e.operand(), t.result(), o.result()});
    });
  }
}

/// A tensor whose surroundings are guards.
struct Watched {
  Watched(Backend& backend, Dtype dtype, const std::vector<Index>& shape)
      : host(dtype, shape, {"contiguous"}), there(backend, host) {}
  /// True if no byte before or behind the elements has changed.
  bool unharmed() const {
    const std::vector<std::byte> bytes = there.bytes();
    const std::size_t first = host.first_byte();
    const std::size_t past =
        first + static_cast<std::size_t>(host.elements()) * size_of(host.operand().dtype);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if ((i < first || i >= past) && bytes[i] != std::byte{0xA5}) return false;
    }
    return true;
  }
  Strided host;
  Mirror there;
};

TEST_F(CudaBackendTest, NoEndsMakeAKernelWriteOutsideItsOperands) {
  std::minstd_rand random(1);
  for (int round = 0; round < 60; ++round) {
    const Index rows = 131 + round;
    const auto groups = static_cast<Index>(1 + random() % 40);
    std::vector<std::int32_t> bad;
    for (Index g = 0; g < groups; ++g)
      bad.push_back(static_cast<std::int32_t>(random() % 500) - 99);
    bad.back() = -1;
    const Strided words = integers(bad);
    const Mirror ends(*device_, words);
    const Index width = 12;
    const Watched x(*device_, Dtype::bf16, {rows, width});
    const Watched codes(*device_, Dtype::e4m3, {rows, width});
    const Watched turned(*device_, Dtype::e4m3, {width, rows});
    const Watched tall(*device_, Dtype::bf16, {padded_rows(rows, groups, 32), width});
    const Watched starts(*device_, Dtype::i32, {groups});
    const Watched padded(*device_, Dtype::i32, {groups});
    const Watched per_group(*device_, Dtype::f32, {groups, width});
    const Watched tiles(*device_, Dtype::f32, {2, width});
    const Watched ones(*device_, Dtype::f32, {rows, 1});
    const Watched scales(*device_, Dtype::e8m0, {rows, width});
    const Watched by_rows(*device_, Dtype::e8m0,
                          blocked_shape(ScaleLayout::m_groups, {rows, width}, groups));
    const Watched by_columns(*device_, Dtype::e8m0,
                             blocked_shape(ScaleLayout::k_groups, {rows, width}, groups));
    const std::function<void()> calls[] = {
        [&] {
          pad_groups(*device_, {x.there.operand(), ends.operand(), tall.there.result(),
                                starts.there.result(), padded.there.result()});
        },
        [&] {
          unpad_groups(*device_, {tall.there.operand(), ends.operand(), starts.there.operand(),
                                  x.there.result()});
        },
        [&] {
          quantize(*device_, {x.there.operand(),
                              ends.operand(),
                              {codes.there.result(), per_group.there.result(), kWholeColumn}});
        },
        [&] {
          quantize(*device_, {x.there.operand(),
                              ends.operand(),
                              {codes.there.result(), tiles.there.result(), kColumnBlock}});
        },
        [&] {
          scaling_aware_transpose(*device_,
                                  {codes.there.operand(), ones.there.operand(), ends.operand(),
                                   turned.there.result(), tiles.there.result()});
        },
        [&] {
          column_sum(*device_, {x.there.operand(), ends.operand(), per_group.there.result()});
        },
        [&] {
          swizzle_scales(*device_, {scales.there.operand(), ends.operand(), by_rows.there.result(),
                                    ScaleLayout::m_groups});
        },
        [&] {
          swizzle_scales(*device_, {scales.there.operand(), ends.operand(),
                                    by_columns.there.result(), ScaleLayout::k_groups});
        },
        [&] {
          unswizzle_scales(*device_, {by_rows.there.operand(), ends.operand(),
                                      scales.there.result(), ScaleLayout::m_groups});
        },
        [&] {
          unswizzle_scales(*device_, {by_columns.there.operand(), ends.operand(),
                                      scales.there.result(), ScaleLayout::k_groups});
        },
    };
    for (const auto& call : calls) {
      EXPECT_THROW(
          {
            call();
            device_->synchronize();
          },
          Error);
    }
    for (const Watched* all : {&x, &codes, &turned, &tall, &starts, &padded, &per_group, &tiles,
                               &ones, &scales, &by_rows, &by_columns}) {
      EXPECT_TRUE(all->unharmed()) << "round " << round << ", " << describe(all->host.operand());
    }
  }
}

/// In a process of its own: a fault in a kernel ends the use of the device there.
void read_where_nothing_is() {
  const auto backend = make_cuda_backend(0);
  Operand x{reinterpret_cast<const void*>(std::uintptr_t{0x1000}), Dtype::f32, 1, {256}, {1}};
  std::byte* memory = backend->allocate(1024);
  Result y{memory, Dtype::bf16, 1, {256}, {1}};
  try {
    cast(*backend, {x, y});
    backend->synchronize();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(error.fault() == Fault::internal ? 7 : 8);
  }
  std::exit(9);
}

TEST_F(CudaBackendTest, AFaultInAKernelIsAnErrorWithTheCallsName) {
  device_.reset();
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(read_where_nothing_is(), testing::ExitedWithCode(7),
              "cuda: cuda.*: an illegal memory access was encountered");
}

}  // namespace
}  // namespace mxo::test
