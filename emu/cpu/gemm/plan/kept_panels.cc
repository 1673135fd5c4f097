// A registry of weights by address, and the panels packed of each.
#include "emu/cpu/gemm/plan/kept_panels.h"

#include <omp.h>

#include "emu/cpu/gemm/plan/plan.h"
#include "emu/cpu/ieee_thread.h"

namespace mxo::cpu {
namespace {

std::mutex registry_mutex;
std::map<const std::byte*, KeptPanels*>& registry() {  // by the end of the codes
  static std::map<const std::byte*, KeptPanels*> all;
  return all;
}

bool holds(std::span<const std::byte> memory, const void* at) {
  const auto* byte = static_cast<const std::byte*>(at);
  return byte >= memory.data() && byte < memory.data() + memory.size();
}

}  // namespace

/// A panel that is still to be packed.
struct KeptPanels::Packing {
  const Product* product;
  MicroPanel* panel;
};

KeptPanels::KeptPanels(std::span<const std::byte> codes, std::span<const std::byte> scales)
    : codes_(codes), scales_(scales) {
  const std::lock_guard lock(registry_mutex);
  if (!codes.empty()) registry().emplace(codes.data() + codes.size(), this);
}

KeptPanels::~KeptPanels() {
  const std::lock_guard lock(registry_mutex);
  if (!codes_.empty()) registry().erase(codes_.data() + codes_.size());
}

std::size_t KeptPanels::bytes() { return memory_.mapped(); }

KeptPanels* KeptPanels::holder(const Factor& b) {
  const std::lock_guard lock(registry_mutex);
  const auto found = registry().upper_bound(static_cast<const std::byte*>(b.codes.data));
  if (found == registry().end()) return nullptr;
  KeptPanels* kept = found->second;
  if (!holds(kept->codes_, b.codes.data)) return nullptr;
  return !b.scaled() || holds(kept->scales_, b.scales.data) ? kept : nullptr;
}

KeptPanels::Key KeptPanels::key_of(const Kernels& kernels, const Engine& engine,
                                   const Product& product) const {
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  const Factor& b = product.b;
  const auto* codes = static_cast<const std::byte*>(b.codes.data);
  const auto* scales = static_cast<const std::byte*>(b.scales.data);
  return {
      number(kernels.isa),
      number(reinterpret_cast<std::uintptr_t>(&engine)),
      number(product.form),
      number(product.out.dtype),
      product.depth,
      codes - codes_.data() + b.start * number(size_of(b.codes.dtype)),
      b.scaled() ? scales - scales_.data() + b.scales_start * number(size_of(b.scales.dtype)) : -1,
      number(b.codes.dtype),
      b.rows,
      b.row_step,
      b.step,
      b.scales_row_step,
      b.scales_step,
      b.first_row,
      b.row_tile,
      b.block};
}

PanelsOfB KeptPanels::find_or_place(const Kernels& kernels, const Engine& engine,
                                    const Product& product, std::vector<Packing>& packings) {
  const auto [at, is_new] = panels_.try_emplace(key_of(kernels, engine, product));
  std::vector<MicroPanel>& panels = at->second;
  if (is_new) {
    const KBlock whole{0, product.depth};
    const Index bytes_of_panel = static_cast<Index>(engine.bytes(kernels.nr, kMaxNr, whole).all());
    std::byte* memory = memory_.take(
        static_cast<std::size_t>(ceil_div(product.b.rows, Index{kernels.nr}) * bytes_of_panel));
    place_panels_of_b(kernels, engine, 0, product.b.rows, whole, memory, panels);
    for (MicroPanel& panel : panels) packings.push_back({&product, &panel});
  }
  return panels;
}

std::vector<PanelsOfB> KeptPanels::of(const Kernels& kernels, const Engine& engine,
                                      const std::vector<Product>& products, int threads) {
  std::vector<PanelsOfB> found(products.size());
  for (std::size_t i = 0; i < products.size();) {
    KeptPanels* kept = holder(products[i].b);
    if (kept == nullptr) {
      ++i;
      continue;
    }
    const std::lock_guard lock(kept->mutex_);
    std::vector<Packing> packings;
    for (; i < products.size() && holder(products[i].b) == kept; ++i) {
      found[i] = kept->find_or_place(kernels, engine, products[i], packings);
    }
    const auto count = static_cast<Index>(packings.size());
#pragma omp parallel num_threads(threads) firstprivate(ieee_thread)
    {
      const PackScratchPtr scratch = make_pack_scratch();
#pragma omp for schedule(dynamic, 1)
      for (Index k = 0; k < count; ++k) {
        const auto& [product, panel] = packings[static_cast<std::size_t>(k)];
        pack_panel(kernels, engine, *product, product->b, {0, product->depth}, *panel, *scratch);
      }
    }
  }
  return found;
}

}  // namespace mxo::cpu
