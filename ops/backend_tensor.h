// A contiguous tensor in a backend's own memory.
// Thread safety: as a vector's: any threads read at once, or one writes.
#pragma once

#include <initializer_list>
#include <utility>

#include "formats/any_view.h"
#include "formats/tensor.h"
#include "ops/backend.h"

namespace mxo {

/// Intermediate tensors of composed operators.  Released with the last owner, so before
/// the backend itself goes.  The elements are not zeroed.
class BackendTensor {
 public:
  BackendTensor() = default;
  BackendTensor(Backend& backend, Dtype dtype, const Index* extent, int rank) : backend_(&backend) {
    view_.dtype = dtype;
    view_.rank = rank;
    Index stride = 1;
    for (int i = rank - 1; i >= 0; --i) {
      view_.extent[i] = extent[i];
      view_.stride[i] = stride;
      stride *= extent[i];
    }
    view_.data = backend.allocate(static_cast<std::size_t>(stride) * size_of(dtype));
  }
  BackendTensor(Backend& backend, Dtype dtype, std::initializer_list<Index> shape)
      : BackendTensor(backend, dtype, shape.begin(), static_cast<int>(shape.size())) {}
  BackendTensor(BackendTensor&& other) noexcept
      : backend_(std::exchange(other.backend_, nullptr)), view_(std::exchange(other.view_, {})) {}
  BackendTensor& operator=(BackendTensor&& other) noexcept {
    std::swap(backend_, other.backend_);
    std::swap(view_, other.view_);
    return *this;
  }
  ~BackendTensor() {
    if (backend_ != nullptr) backend_->release(static_cast<std::byte*>(view_.data));
  }

  bool given() const { return backend_ != nullptr; }
  Result result() { return view_; }
  Operand operand() const { return to_read(view_); }

 private:
  Backend* backend_ = nullptr;
  Result view_;
};

/// What a contiguous operand in a backend's memory holds.
Tensor on_host(Backend& backend, const Operand& contiguous);

/// An operand as the host can read it: itself where the backend's memory is the host's, else a
/// copy; then it has to be contiguous.
class HostView {
 public:
  HostView(Backend& backend, const Operand& operand) : view_(operand) {
    if (backend.reads_host_memory()) return;
    copy_ = on_host(backend, operand);
    view_ = copy_.operand();
  }
  const Operand& operand() const { return view_; }

 private:
  Tensor copy_;
  Operand view_;
};

/// A tensor that the host wrote and a backend reads: one, or two copies of it.
class MirroredTensor {
 public:
  MirroredTensor() = default;
  MirroredTensor(Backend& backend, Tensor host) : host_(std::move(host)) {
    if (backend.reads_host_memory()) return;
    const Operand view = host_.operand();
    copy_ = BackendTensor(backend, view.dtype, view.extent, view.rank);
    backend.upload(static_cast<std::byte*>(copy_.result().data), host_.data(), host_.bytes());
  }
  const Tensor& host() const { return host_; }
  bool given() const { return host_.rank() > 0; }
  Index elements() const { return host_.elements(); }
  Operand operand() const { return copy_.given() ? copy_.operand() : host_.operand(); }

 private:
  Tensor host_;
  BackendTensor copy_;
};

}  // namespace mxo
