// Where the parts of a panel lie, and the rounding-test data computed from its K-vectors' bounds.
#include "emu/cpu/gemm/pack/panel.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "emu/cpu/gemm/pack/scratch.h"
#include "emu/exact/integer_unit.h"

namespace mxo::cpu {
namespace {

constexpr KVectorBound kEmptyKVector = {0, KVectorBound::kNone, 0, false, false};
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

RowEnd end_of(const Product& product, const Factor& factor, const MicroPanel& panel, int lane) {
  const KVectorBound& bound = panel.bound[lane];
  RowEnd end{0.0, 0.0, bound.roundings, 1.0};
  if (product.form == ScaleForm::rowwise) {
    end.scale = static_cast<double>(factor.k_vector(panel.first + lane).scale(0));
  }
  if (bound.special || !std::isfinite(end.scale)) return {kUnbounded, kUnbounded, 0.0, 1.0};
  if (bound.quantum == KVectorBound::kNone) return end;  // all zero
  end.norm = std::sqrt(bound.norm2) * (1.0 + 0x1p-10);
  const bool near = std::abs(bound.quantum) < 1000;
  end.reach = near ? end.norm * power_f64(-bound.quantum) : std::ldexp(end.norm, -bound.quantum);
  return end;
}

}  // namespace

void PackScratchDelete::operator()(PackScratch* scratch) const { delete scratch; }
PackScratchPtr make_pack_scratch() { return PackScratchPtr(new PackScratch); }

void place_panel(MicroPanel& panel, const PanelBytes& bytes, std::byte* memory) {
  panel.data = memory;
  memory += bytes.data;
  panel.scales = reinterpret_cast<double*>(memory);
  memory += bytes.scales;
  panel.residual_places = reinterpret_cast<std::uint64_t*>(memory);
  memory += bytes.residual_places;
  panel.residual_begin = reinterpret_cast<std::uint32_t*>(memory);
  memory += bytes.residual_begin;
  panel.split = reinterpret_cast<std::uint8_t*>(memory);
}

void begin_bounds(MicroPanel& panel) {
  std::fill(panel.bound, panel.bound + panel.width, kEmptyKVector);
}

void set_ends(const Product& product, const Factor& factor, MicroPanel& panel) {
  panel.ends = {};
  for (int lane = 0; lane < panel.width; ++lane) {
    const RowEnd end = end_of(product, factor, panel, lane);
    panel.ends.reach[lane] = end.reach;
    panel.ends.norm[lane] = end.norm;
    panel.ends.roundings[lane] = end.roundings;
    panel.ends.scale[lane] = end.scale;
  }
}

}  // namespace mxo::cpu
