// Packed panels of B that outlive a product: those of weights that many products read.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "emu/cpu/gemm/tiles/engine.h"
#include "emu/cpu/memory_pool.h"

namespace mxo::cpu {

/// All panels of a product's B, over all of K.
using PanelsOfB = std::span<const MicroPanel>;

/// The panels of codes and scales that do not change; products find them by where B lies.
/// Thread safety: products of any threads may pack at once; none may run while it is destroyed.
class KeptPanels {
 public:
  KeptPanels(std::span<const std::byte> codes, std::span<const std::byte> scales);
  ~KeptPanels();
  KeptPanels(const KeptPanels&) = delete;
  KeptPanels& operator=(const KeptPanels&) = delete;

  /// Of all panels so far.
  std::size_t bytes();

  /// The panels of each product's B, packed by `threads` threads unless an earlier product has;
  /// empty for a product whose B is not kept.
  static std::vector<PanelsOfB> of(const Kernels& kernels, const Engine& engine,
                                   const std::vector<Product>& products, int threads);

 private:
  /// All that packing depends on.
  using Key = std::array<std::int64_t, 16>;

  static KeptPanels* holder(const Factor& b);
  Key key_of(const Kernels& kernels, const Engine& engine, const Product& product) const;

  /// Aligned to a cache line, as all bytes of panels are.
  std::byte* room_for(std::size_t bytes);
  PanelsOfB panels_of(const Kernels& kernels, const Engine& engine, const Product& product,
                      int threads);

  std::span<const std::byte> codes_;
  std::span<const std::byte> scales_;
  std::mutex mutex_;
  MemoryPool memory_;
  std::byte* free_ = nullptr;
  std::size_t left_ = 0;  ///< bytes from there on
  std::size_t bytes_ = 0;
  std::map<Key, std::vector<MicroPanel>> panels_;
};

}  // namespace mxo::cpu
