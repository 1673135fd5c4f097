// What a machine must be able to do.  Callers use the functions in ops/*.h, which check their
// arguments; a backend may take them as checked.
// Thread safety: any threads may call operators on one backend of a CPU at once, where no call
// writes what another reads or writes, and on several backends; a CUDA backend is one stream: one
// thread at a time.  What allocate gave may be released by any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "ops/operators.h"

namespace mxo {

struct Accumulation;

/// A machine that runs operators.  Work may still be under way when an operator returns;
/// synchronize() waits for it and throws what went wrong.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// True if this backend promises the bits that `how` defines.
  virtual bool honours(const Accumulation& how) const = 0;
  /// A backend of the same kind for rank `rank` of several, where each needs one of its own: the
  /// ranks of one process on several devices.  Null: they share this one.
  virtual std::unique_ptr<Backend> for_rank(int rank) const;

  // Memory the operators can read and write; host memory unless a device says otherwise.
  virtual bool reads_host_memory() const { return true; }
  virtual std::byte* allocate(std::size_t bytes);
  virtual void release(std::byte* memory) noexcept;
  virtual void upload(std::byte* to, const std::byte* from_host, std::size_t bytes);
  virtual void download(std::byte* to_host, const std::byte* from, std::size_t bytes);
  virtual void fill_zero(std::byte* memory, std::size_t bytes);
  virtual void synchronize() {}

 protected:
  friend struct Checked;  // ops/checked.h: the only caller of run()
  // An operator that a backend does not override is Error(unsupported), by name.
#define MXO_RUN(Op, name) virtual void run(const Op&);
  MXO_OPERATORS(MXO_RUN)
#undef MXO_RUN

  /// Throws Error(unsupported): "<backend>: <operator> is not available".
  [[noreturn]] void lacks(std::string_view op) const;
};

}  // namespace mxo
