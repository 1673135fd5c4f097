// swiglu_quantize and its gradients: a rectangle of swiglu at a time, quantised while it is cached.
#include "ops/swiglu_quantize.h"

#include <algorithm>

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/swiglu_quantize_tiles.h"
#include "emu/cpu/swiglu_tiles.h"
#include "formats/tensor.h"

namespace mxo::cpu {
namespace {

/// A rectangle between the two steps.
class Between {
 public:
  Between(Dtype dtype, Index elements)
      : dtype_(dtype), bytes_(static_cast<std::size_t>(elements) * size_of(dtype)) {}
  /// Memory for [rows, columns].
  Operand matrix(Index rows, Index columns) const {
    Operand m{bytes_.data(), dtype_, 2, {}, {}};
    m.extent[0] = rows;
    m.extent[1] = m.stride[0] = columns;
    m.stride[1] = 1;
    return m;
  }
  WriteTile tile(const Operand& matrix) { return {{bytes_.data(), matrix.stride[0], 1}, dtype_}; }

 private:
  Dtype dtype_;
  std::vector<std::byte> bytes_;
};

/// The view without its first rows.
template <typename View>
View rows_from(View view, Index first) {
  const Index bytes = first * view.stride[0] * static_cast<Index>(size_of(view.dtype));
  using Byte = std::conditional_t<std::is_same_v<View, Operand>, const std::byte, std::byte>;
  view.data = static_cast<Byte*>(view.data) + bytes;
  view.extent[0] -= first;
  return view;
}

}  // namespace

void CpuBackend::run(const SwigluQuantize& op) {
  // A block of all rows cannot be cut, and one without elements still has a scale: both steps.
  const bool whole = op.to.block.rows == kWhole || op.x.extent[1] == 0;
  if (whole || !op.gate.plain()) return ReferenceBackend::run(op);
  const FloatKernels& kernels = float_kernels(isa());
  const SwigluOperands in(op.x, op.probs, op.gate.halves);
  const QuantizedTiles tiles(op.to, op.group_ends, op.x.extent[0], in.width);
  const Index panel = std::min(tiles.panel(), in.width);
#pragma omp parallel num_threads(threads_) firstprivate(ieee_thread)
  {
    Between between(op.rounding, tiles.most_rows() * panel);
#pragma omp for schedule(static)
    for (std::size_t i = 0; i < tiles.bands().size(); ++i) {
      const RowBand& band = tiles.bands()[i];
      const Index rows = band.past - band.first;
      for (Index k = 0; k < in.width; k += panel) {
        const Operand y = between.matrix(rows, std::min(panel, in.width - k));
        gate_rectangle(kernels, in.a.from(band.first, k), in.b.from(band.first, k),
                       in.probs.from(band.first), between.tile(y), rows, y.extent[1]);
        run(Quantize{y, {}, tiles.part(band, k, y.extent[1]), op.rule});
      }
    }
  }
}

void CpuBackend::run(const SwigluQuantizeBackward& op) {
  const bool whole = op.to.block.rows == kWhole || op.x.extent[1] == 0;
  if (whole || op.gate != GateRule{}) return ReferenceBackend::run(op);
  const FloatKernels& kernels = float_kernels(isa());
  const SwigluOperands in(op.x, op.probs, op.gate.halves);
  const ReadTile dy = tile_of(op.dy);
  const QuantizedTiles tiles(op.to, op.group_ends, op.x.extent[0], 2 * in.width);
  // Panel by panel if no block spans both halves; else whole rows of both at once.
  const bool apart = in.width % tiles.block_columns() == 0;
  const Index panel = apart ? std::min(tiles.panel(), in.width) : in.width;
#pragma omp parallel num_threads(threads_) firstprivate(ieee_thread)
  {
    const Index room = tiles.most_rows() * panel;
    Between da(op.rounding, apart ? room : 2 * room);
    Between db(op.rounding, apart ? room : 0);
    std::vector<float> totals(static_cast<std::size_t>(tiles.most_rows()));
#pragma omp for schedule(static)
    for (std::size_t i = 0; i < tiles.bands().size(); ++i) {
      const RowBand& band = tiles.bands()[i];
      const Index rows = band.past - band.first;
      std::fill(totals.begin(), totals.end(), 0.0f);
      for (Index k = 0; k < in.width; k += panel) {
        const Index n = std::min(panel, in.width - k);
        const Operand first = da.matrix(rows, apart ? n : 2 * n);
        const Operand second = db.matrix(rows, n);
        gradient_rectangle(kernels, in.a.from(band.first, k), in.b.from(band.first, k),
                           dy.from(band.first, k), in.probs.from(band.first), da.tile(first),
                           apart ? db.tile(second) : da.tile(first).from(0, n),
                           op.dprobs.given() ? totals.data() : nullptr, rows, n);
        run(Quantize{first, {}, tiles.part(band, k, first.extent[1]), op.rule});
        if (apart) run(Quantize{second, {}, tiles.part(band, in.width + k, n), op.rule});
      }
      if (op.dprobs.given()) write_totals(totals.data(), rows, op.dprobs, band.first);
    }
  }
  if (op.dprobs.given()) finish_dprobs(op, tiles.past());
}

/// Rows past the last group have no codes, but they have a probability.
void CpuBackend::finish_dprobs(const SwigluQuantizeBackward& op, Index first) {
  const Index rows = op.x.extent[0] - first;
  if (rows == 0) return;
  Tensor dx(op.rounding, {rows, op.x.extent[1]});
  run(SwigluBackward{rows_from(op.x, first), rows_from(op.probs, first), rows_from(op.dy, first),
                     dx.result(), rows_from(op.dprobs, first)});
}

}  // namespace mxo::cpu
