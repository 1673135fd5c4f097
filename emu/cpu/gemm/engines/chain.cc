// The engine of fma_chain: one chain of fused steps in f32 for each output.
#include <cmath>
#include <cstring>

#include "emu/cpu/gemm/pack/scratch.h"
#include "emu/cpu/gemm/tiles/engine.h"
#include "emu/exact/code_tables.h"

namespace mxo::cpu {
namespace {

void pack(const Kernels& kernels, const Product& product, const Factor& factor,
          const KBlock& k_block, MicroPanel& panel, PackScratch& scratch) {
  for (int lane = panel.width; lane < panel.step; ++lane) {
    std::memset(scratch.k_vectors[lane], 0, sizeof(scratch.k_vectors[lane]));
  }
  for (Index run = 0; run < k_block.runs(); ++run) {
    const Index start = k_block.start + run * kRun;
    const int count = k_block.run_count(run);
    if (product.form == ScaleForm::none) {
      scratch.words.fetch(kernels.isa, factor, panel.first, panel.width, start, count);
    } else {
      scratch.codes.fetch(kernels.isa, factor, panel.first, panel.width, start, count);
    }
    for (int lane = 0; lane < panel.width; ++lane) {
      auto* values = reinterpret_cast<float*>(scratch.k_vectors[lane]);
      if (product.form == ScaleForm::none) {
        widen_words(scratch.words.lane(lane), values);
        continue;
      }
      const float* decoded = code_values(factor.codes.dtype);
      const std::uint8_t* codes = scratch.codes.lane(lane);
      const KVector vector = factor.k_vector(panel.first + lane);
      const bool scaled = product.form == ScaleForm::mx;
      for (int c = 0; c < count; c += kBlock) {
        const float scale = scaled ? vector.scale(start + c) : 1.0f;
        for (int i = c; i < c + kBlock; ++i) values[i] = decoded[codes[i]] * scale;
      }
    }
    kernels.interleave(panel.step, static_cast<int>(round_up(count, 16)), scratch.k_vectors[0],
                       kRun, static_cast<std::uint32_t*>(panel.data) + run * kRun * panel.step,
                       panel.step);
  }
}

// y = fma(p * scale_a, scale_b, y) for one block of K, p being the chain over its codes.
void add_scaled_chain(const Kernels& kernels, const Product& product, const MicroPanel& a,
                      const MicroPanel& b, Index at, const float* p, float* y) {
  for (int m = 0; m < a.width; ++m) {
    const float scale_a = product.a.k_vector(a.first + m).scale(at);
    for (int n = 0; n < b.width; ++n) {
      const float scale_b = product.b.k_vector(b.first + n).scale(at);
      float& out = y[m * kernels.nr + n];
      out = std::fma(p[m * kernels.nr + n] * scale_a, scale_b, out);
    }
  }
}

void sum_chain(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  const Product& product = tile.product();
  for (Index run = 0; run < tile.k_block.runs(); ++run) {
    const int count = tile.k_block.run_count(run);
    for (int j = 0; j < tile.wide(); ++j) {
      const MicroPanel& b = tile.b[j];
      const auto* from_b = static_cast<const float*>(b.data) + run * kRun * b.step;
      for (int i = 0; i < tile.tall(); ++i) {
        const MicroPanel& a = tile.a[i];
        const auto* from_a =
            static_cast<const float*>(a.data) + (tile.first_of_a + run) * kRun * a.step;
        auto* sums = reinterpret_cast<float*>(block_of(*tile.tile, scratch, i, j));
        if (product.form != ScaleForm::blockwise) {
          kernels.chain_f32(a.step, count, from_a, from_b, sums);
          continue;
        }
        alignas(64) float p[kBlockSums] = {};
        kernels.chain_f32(a.step, count, from_a, from_b, p);
        add_scaled_chain(kernels, product, a, b, tile.k_block.start + run * kRun, p, sums);
      }
    }
  }
}

void write_chain(const Kernels& kernels, const Product& product, const MicroPanel& a,
                 const MicroPanel& b, const float* sums) {
  const Writer writer(product);
  for (int m = 0; m < a.width; ++m) {
    for (int n = 0; n < b.width; ++n) {
      float value = sums[m * kernels.nr + n];
      if (product.form == ScaleForm::rowwise) {
        value = value * product.a.k_vector(a.first + m).scale(0) *
                product.b.k_vector(b.first + n).scale(0);
      }
      writer.put_f32(a.first + m, b.first + n, value);
    }
  }
}

PanelBytes bytes(int step, int, const KBlock& k_block) {
  return {whole_lines(round_up(k_block.count, 16) * step * 4)};
}

void compute(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  if (tile.begins_k()) clear_sums(tile, scratch);
  sum_chain(kernels, tile, scratch);
  for (int j = 0; j < tile.wide() && tile.ends_k(); ++j) {
    for (int i = 0; i < tile.tall(); ++i) {
      write_chain(kernels, tile.product(), tile.a[i], tile.b[j],
                  reinterpret_cast<const float*>(block_of(*tile.tile, scratch, i, j)));
    }
  }
}

bool suits(const Product&) { return true; }

}  // namespace

const Engine kChainEngine = {suits, false, false, &Kernels::mr, bytes, pack, compute};

}  // namespace mxo::cpu
