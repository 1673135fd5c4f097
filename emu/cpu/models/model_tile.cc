// A tile loops over K chunk by chunk; its accumulators stay in L2.
#include "emu/cpu/models/model_tile.h"

#include <bit>

#include "emu/cpu/models/model_pack.h"
#include "emu/cpu/models/tile_accumulators.h"

namespace mxo::cpu {
namespace {

/// Whether operands are 8-bit codes whose exponents are their own.
bool plain_bytes(const ContractionView& product) {
  const bool scaled = scales_in_terms(product, product.a) || scales_in_terms(product, product.b);
  return !scaled && is_minifloat8(product.a.codes.dtype) && is_minifloat8(product.b.codes.dtype);
}

/// One chunk of one output by the scalar engine, which reads the operands again.
class ScalarChunk {
 public:
  ScalarChunk(const ContractionView& product, const OperandReader& a, const OperandReader& b)
      : how_(product.sum),
        a_(a),
        b_(b),
        row_(static_cast<std::size_t>(how_.chunk)),
        column_(row_.size()) {}

  float operator()(Index i, Index j, std::span<const Index> ks, float c) {
    a_.read(i, ks, row_.data());
    b_.read(j, ks, column_.data());
    return dot_step(how_, a_.fraction() + b_.fraction(), row_.data(), column_.data(), c);
  }

 private:
  const Accumulation& how_;
  const OperandReader& a_;
  const OperandReader& b_;
  std::vector<DotOperand> row_;
  std::vector<DotOperand> column_;
};

void store_tile(const ContractionView& product, const ModelTile& tile,
                const TileAccumulators& acc) {
  for (Index r = 0; r < tile.rows; ++r) {
    for (Index j = 0; j < tile.columns; ++j) {
      const Index i = tile.row + r;
      store_output(product, i, tile.column + j,
                   machine_epilogue(product, i, tile.column + j, acc.result(r, j)));
    }
  }
}

template <typename Real>
void run_vectors(const ContractionView& product, const ModelKernels& kernels,
                 void (*kernel)(const ModelChunk<Real>&) noexcept, const DotSchedule& schedule,
                 const ModelTile& tile) {
  constexpr int kColumns = ModelLayout<Real>::columns;
  const OperandReader a(product, product.a);
  const OperandReader b(product, product.b);
  const auto terms = static_cast<std::size_t>(schedule.chunk);
  const auto rows = static_cast<std::size_t>(tile.rows);
  TileAccumulators acc(product, schedule, tile, kColumns);
  ScalarChunk scalar(product, a, b);

  std::vector<ModelElement<Real>> packed_a(rows * terms);
  std::vector<std::uint8_t> special_rows(rows);
  std::vector<ModelValue<Real>> vector(terms);
  ValueReader<Real> a_values(a, schedule.chunk);
  ValueReader<Real> b_values(b, schedule.chunk);
  CacheLines<Real> packed_b(terms * 2 * kColumns);
  CacheLines<typename ModelLayout<Real>::Exponent> exponents(terms * kColumns);
  std::vector<std::uint64_t> left(rows);

  ModelChunk<Real> chunk;
  chunk.rows = static_cast<int>(tile.rows);
  chunk.terms = schedule.chunk;
  chunk.a = packed_a.data();
  chunk.b = packed_b.data();
  chunk.b_exponents = exponents.data();
  chunk.c_stride = kColumns;
  chunk.left = left.data();
  chunk.bits = product.sum.bits;
  chunk.floor = product.sum.exponent_floor;
  chunk.mantissa = product.sum.mantissa;
  chunk.rounding = product.sum.rounding;
  chunk.parity = product.sum.order == ChunkOrder::parity_apart;

  for (Index step = 0; step < schedule.chunks(); ++step) {
    const std::span<const Index> ks(schedule.k.data() + step * schedule.chunk, terms);
    for (std::size_t r = 0; r < rows; ++r) {
      a_values.read(tile.row + static_cast<Index>(r), ks, vector.data());
      special_rows[r] = pack_row<Real>(vector, &packed_a[r * terms]);
    }
    for (Index j = 0; j < tile.columns; j += kColumns) {
      const Index width = std::min<Index>(kColumns, tile.columns - j);
      std::uint64_t odd = 0;
      for (int column = 0; column < kColumns; ++column) {
        if (column < width) {
          b_values.read(tile.column + j + column, ks, vector.data());
        } else {
          std::fill(vector.begin(), vector.end(), ModelValue<Real>{});
        }
        const bool special = pack_column<Real>(vector, kernels.signs_apart, column, packed_b.data(),
                                               exponents.data());
        odd |= static_cast<std::uint64_t>(special) << column;
      }
      for (std::size_t r = 0; r < rows; ++r) left[r] = special_rows[r] ? ~std::uint64_t{0} : odd;
      chunk.c = acc.chunk(j);
      kernel(chunk);
      const std::uint64_t inside =
          width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::uint64_t redo = left[r] & inside; redo != 0; redo &= redo - 1) {
          const int lane = std::countr_zero(redo);
          float& c = chunk.c[static_cast<Index>(r) * kColumns + lane];
          c = scalar(tile.row + static_cast<Index>(r), tile.column + j + lane, ks, c);
        }
      }
    }
    const std::uint8_t what = schedule.after[static_cast<std::size_t>(step)];
    if (what != 0) acc.after(what);
  }
  store_tile(product, tile, acc);
}

void run_scalar(const ContractionView& product, const DotSchedule& schedule,
                const ModelTile& tile) {
  const OperandReader a(product, product.a);
  const OperandReader b(product, product.b);
  const auto terms = static_cast<std::size_t>(schedule.chunk);
  const int fraction = a.fraction() + b.fraction();
  TileAccumulators acc(product, schedule, tile, tile.columns);
  std::vector<DotOperand> rows(static_cast<std::size_t>(tile.rows) * terms);
  std::vector<DotOperand> column(terms);
  for (Index step = 0; step < schedule.chunks(); ++step) {
    const std::span<const Index> ks(schedule.k.data() + step * schedule.chunk, terms);
    for (Index r = 0; r < tile.rows; ++r) {
      DotOperand* row = rows.data() + r * schedule.chunk;
      a.read(tile.row + r, ks, row);
    }
    for (Index j = 0; j < tile.columns; ++j) {
      b.read(tile.column + j, ks, column.data());
      for (Index r = 0; r < tile.rows; ++r) {
        float& c = acc.chunk(0)[r * tile.columns + j];
        c = dot_step(product.sum, fraction, rows.data() + r * schedule.chunk, column.data(), c);
      }
    }
    const std::uint8_t what = schedule.after[static_cast<std::size_t>(step)];
    if (what != 0) acc.after(what);
  }
  store_tile(product, tile, acc);
}

}  // namespace

void run_tile(const ContractionView& product, const ModelKernels* kernels, const ModelTile& tile) {
  const DotSchedule schedule = make_schedule(product.sum, product.depth);
  if (kernels == nullptr || !fits_f64(product.sum)) {
    run_scalar(product, schedule, tile);
  } else if (product.sum.family == SumFamily::cdna3_dot) {
    run_vectors<double>(product, *kernels, kernels->cdna3_f64, schedule, tile);
  } else if (plain_bytes(product) && fits_f32(product.sum)) {
    run_vectors<float>(product, *kernels, kernels->fused_f32, schedule, tile);
  } else {
    run_vectors<double>(product, *kernels, kernels->fused_f64, schedule, tile);
  }
}

}  // namespace mxo::cpu
