// A registry of weights by address, and the panels packed of each.
#include "emu/cpu/gemm/plan/kept_panels.h"

#include <utility>

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

KeptPanels::KeptPanels(std::span<const std::byte> codes, std::span<const std::byte> scales)
    : codes_(codes), scales_(scales) {
  const std::lock_guard lock(registry_mutex);
  if (!codes.empty()) registry().emplace(codes.data() + codes.size(), this);
}

KeptPanels::~KeptPanels() {
  const std::lock_guard lock(registry_mutex);
  if (!codes_.empty()) registry().erase(codes_.data() + codes_.size());
}

std::size_t KeptPanels::bytes() {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

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

std::byte* KeptPanels::room_for(std::size_t bytes) {
  constexpr std::size_t kLargePage = std::size_t{2} << 20;
  if (bytes > left_) {
    const std::size_t whole = (bytes + kLargePage - 1) / kLargePage * kLargePage;
    free_ = memory_.take(whole);
    left_ = whole;
  }
  left_ -= bytes;
  bytes_ += bytes;
  return std::exchange(free_, free_ + bytes);
}

PanelsOfB KeptPanels::panels_of(const Kernels& kernels, const Engine& engine,
                                const Product& product, int threads) {
  const std::lock_guard lock(mutex_);
  const Key key = key_of(kernels, engine, product);
  if (const auto at = panels_.find(key); at != panels_.end()) return at->second;
  const KBlock whole{0, product.depth};
  const Index count = ceil_div(product.b.rows, Index{kernels.nr});
  std::vector<MicroPanel> panels;
  place_panels_of_b(
      kernels, engine, 0, product.b.rows, whole,
      room_for(static_cast<std::size_t>(count) * engine.bytes(kernels.nr, kMaxNr, whole).all()),
      panels);
#pragma omp parallel num_threads(threads) firstprivate(ieee_thread)
  {
    const PackScratchPtr scratch = make_pack_scratch();
#pragma omp for schedule(dynamic, 1)
    for (Index i = 0; i < count; ++i) {
      pack_panel(kernels, engine, product, product.b, whole, panels[static_cast<std::size_t>(i)],
                 *scratch);
    }
  }
  return panels_.emplace(key, std::move(panels)).first->second;
}

std::vector<PanelsOfB> KeptPanels::of(const Kernels& kernels, const Engine& engine,
                                      const std::vector<Product>& products, int threads) {
  std::vector<PanelsOfB> found(products.size());
  for (std::size_t i = 0; i < products.size(); ++i) {
    KeptPanels* kept = holder(products[i].b);
    if (kept != nullptr) found[i] = kept->panels_of(kernels, engine, products[i], threads);
  }
  return found;
}

}  // namespace mxo::cpu
