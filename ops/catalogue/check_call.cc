// A call checked as if it were run: the operators' own checks in front of a backend that idles.
#include <cstring>

#include "formats/error.h"
#include "ops/catalogue.h"

namespace mxo {
namespace {

/// Takes every operator and computes none; its memory is the host's, and zero.
class IdleBackend final : public Backend {
 public:
  std::string_view name() const override { return "check"; }
  bool honours(const Accumulation&) const override { return true; }
  std::byte* allocate(std::size_t bytes) override {
    std::byte* memory = Backend::allocate(bytes);
    std::memset(memory, 0, bytes);
    return memory;
  }

 protected:
#define MXO_IDLE(Op, name) \
  void run(const Op&) override {}
  MXO_OPERATORS(MXO_IDLE)
#undef MXO_IDLE
};

}  // namespace

NamedTensors check_call(std::string_view name, const NamedViews& views,
                        const Parameters& parameters) {
  const CatalogueEntry& entry = catalogue_entry(name);
  check_names(entry, views, parameters);
  if (entry.call_ranks != nullptr) return {};
  IdleBackend idle;
  return entry.call(idle, views, parameters.as_listed(entry.parameters));
}

}  // namespace mxo
