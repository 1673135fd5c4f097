// Strips of rows through the kernels; elements that are not adjacent are copied there and back.
#include "emu/cpu/swiglu_rows.h"

#include <algorithm>

namespace mxo::cpu {
namespace {

constexpr Index kStrip = 512;  // elements of a row at a time
constexpr Index kChains = 8;   // independent sums, to hide the latency of an addition

/// The kernels know f32 and bf16: f16 goes through f32.
int strip_index(Dtype dtype) { return float_index(dtype == Dtype::f16 ? Dtype::f32 : dtype); }

/// n elements of row r from column k on, adjacent.
class StripIn {
 public:
  StripIn(const ReadTile& from, Index r, Index k, Index n) : at_(from.from(r, k).tile.data) {
    if (from.dtype == Dtype::f16) {
      const auto* x = reinterpret_cast<const F16*>(at_);
      auto* wide = reinterpret_cast<float*>(copy_);
      for (Index i = 0; i < n; ++i) wide[i] = to_float(x[i * from.tile.stride_k]);
      at_ = copy_;
      return;
    }
    if (from.tile.stride_k == 1) return;
    copy_row(at_, from.tile.stride_k, copy_, 1, n, size_of(from.dtype));
    at_ = copy_;
  }
  const std::byte* data() const { return at_; }

 private:
  const std::byte* at_;
  alignas(64) std::byte copy_[kStrip * 4];
};

class StripOut {
 public:
  StripOut(const WriteTile& to, Index r, Index k, Index n) : to_(to.from(r, k)), n_(n) {}
  std::byte* data() { return in_place() ? to_.tile.data : copy_; }
  void finish() {
    if (in_place()) return;
    if (to_.dtype == Dtype::f16) {
      const auto* wide = reinterpret_cast<const float*>(copy_);
      auto* y = reinterpret_cast<F16*>(to_.tile.data);
      for (Index i = 0; i < n_; ++i) y[i * to_.tile.stride_k] = from_float<F16>(wide[i]);
      return;
    }
    copy_row(copy_, 1, to_.tile.data, to_.tile.stride_k, n_, size_of(to_.dtype));
  }

 private:
  bool in_place() const { return to_.tile.stride_k == 1 && to_.dtype != Dtype::f16; }
  WriteTile to_;
  Index n_;
  alignas(64) std::byte copy_[kStrip * 4];
};

/// totals[r] grows by products[r][0], products[r][1], ..
void add_products(const float (*products)[kStrip], Index rows, Index n, float* totals) {
  if (rows < kChains) {
    for (Index r = 0; r < rows; ++r) {
      for (Index i = 0; i < n; ++i) totals[r] += products[r][i];
    }
    return;
  }
  float sum[kChains];
  std::copy(totals, totals + kChains, sum);
  for (Index i = 0; i < n; ++i) {
    for (Index r = 0; r < kChains; ++r) sum[r] += products[r][i];
  }
  std::copy(sum, sum + kChains, totals);
}

}  // namespace

void gate_rectangle(const FloatKernels& kernels, const ReadTile& a, const ReadTile& b,
                    const RowProbs& probs, const WriteTile& y, Index rows, Index columns) {
  const auto gate = kernels.gate[strip_index(a.dtype)][strip_index(y.dtype)];
  for (Index r = 0; r < rows; ++r) {
    for (Index k = 0; k < columns; k += kStrip) {
      const Index n = std::min(kStrip, columns - k);
      StripOut out(y, r, k, n);
      gate(StripIn(a, r, k, n).data(), StripIn(b, r, k, n).data(), n, probs.of(r), out.data());
      out.finish();
    }
  }
}

void gradient_rectangle(const FloatKernels& kernels, const ReadTile& a, const ReadTile& b,
                        const ReadTile& dy, const RowProbs& probs, const WriteTile& da,
                        const WriteTile& db, float* totals, Index rows, Index columns) {
  const auto gradient =
      kernels.gradient[strip_index(a.dtype)][strip_index(dy.dtype)][strip_index(da.dtype)];
  float products[kChains][kStrip];
  for (Index first = 0; first < rows; first += kChains) {
    const Index count = std::min(kChains, rows - first);
    for (Index k = 0; k < columns; k += kStrip) {
      const Index n = std::min(kStrip, columns - k);
      for (Index i = 0; i < count; ++i) {
        const Index r = first + i;
        StripOut out_a(da, r, k, n);
        StripOut out_b(db, r, k, n);
        gradient(StripIn(a, r, k, n).data(), StripIn(b, r, k, n).data(),
                 StripIn(dy, r, k, n).data(), n, probs.of(r), out_a.data(), out_b.data(),
                 totals != nullptr ? products[i] : nullptr);
        out_a.finish();
        out_b.finish();
      }
      if (totals != nullptr) add_products(products, count, n, totals + first);
    }
  }
}

}  // namespace mxo::cpu
