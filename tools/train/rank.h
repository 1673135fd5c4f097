// What every part of a model has of the rank that computes it.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "ops/backend_tensor.h"
#include "ops/communicator.h"
#include "ops/elementwise.h"
#include "tools/train/matrix.h"
#include "tools/train/options.h"
#include "tools/train/recipe.h"

namespace mxo::tools {

struct Rank {
  const TrainOptions& options;
  const TrainRecipe& recipe;
  Backend& backend;
  Communicator& communicator;
  int threads = 1;
  bool recompute = false;

  /// Where the part of rank `rank` of `count` things begins.
  Index first_of(Index count, int rank) const { return count * rank / communicator.size(); }
  Index begin_of(Index count) const { return first_of(count, communicator.rank()); }
  Index end_of(Index count) const { return first_of(count, communicator.rank() + 1); }

  /// Every rank's floats, in rank order.
  template <typename Real>
  std::vector<Real> gathered(std::span<const Real> mine) const {
    std::vector<Real> all;
    for (const auto& part : communicator.all_gather(std::as_bytes(mine))) {
      const std::size_t at = all.size();
      all.resize(at + part.size() / sizeof(Real));
      if (!part.empty()) std::memcpy(all.data() + at, part.data(), part.size());
    }
    return all;
  }

  /// The rows of all ranks; on one rank `mine` itself.
  const Matrix<float>& rows_of_all(const Matrix<float>& mine, Matrix<float>& copy) const {
    if (communicator.size() == 1) return mine;
    const std::vector<float> all =
        gathered(std::span(mine.data(), static_cast<std::size_t>(mine.size())));
    copy.resize(static_cast<Index>(all.size()) / mine.cols(), mine.cols());
    std::copy(all.begin(), all.end(), copy.data());
    return copy;
  }

  /// `whole` of `count` floats, of which each rank has computed those from `size` * begin on.
  void share(float* whole, Index begin, Index end, Index size) const {
    if (communicator.size() == 1) return;
    const auto all = gathered(std::span<const float>(
        whole + begin * size, static_cast<std::size_t>((end - begin) * size)));
    std::copy(all.begin(), all.end(), whole);
  }

  /// f32 on the host to bf16 where the backend has it.
  BackendTensor rounded(const float* from, std::initializer_list<Index> shape) const {
    BackendTensor narrow(backend, Dtype::bf16, shape);
    Operand host = narrow.operand();
    host.data = from;
    host.dtype = Dtype::f32;
    if (backend.reads_host_memory()) {
      cast(backend, {host, narrow.result()});
      return narrow;
    }
    BackendTensor wide(backend, Dtype::f32, shape);
    backend.upload(static_cast<std::byte*>(wide.result().data),
                   reinterpret_cast<const std::byte*>(from),
                   static_cast<std::size_t>(host.elements()) * sizeof(float));
    cast(backend, {wide.operand(), narrow.result()});
    return narrow;
  }

  /// Rows of bf16 back to f32.
  Matrix<float> widened(const Operand& rows) const {
    Matrix<float> matrix(rows.extent[0], rows.extent[1]);
    if (backend.reads_host_memory()) {
      Result host{matrix.data(), Dtype::f32, 2, {matrix.rows(), matrix.cols()}, {matrix.cols(), 1}};
      cast(backend, {rows, host});
      return matrix;
    }
    BackendTensor wide(backend, Dtype::f32, {rows.extent[0], rows.extent[1]});
    cast(backend, {rows, wide.result()});
    fetch(wide, matrix.data());
    return matrix;
  }

  /// A contiguous f32 tensor of the backend to the host.
  void fetch(const BackendTensor& from, float* to) const {
    backend.download(reinterpret_cast<std::byte*>(to),
                     static_cast<const std::byte*>(from.operand().data),
                     static_cast<std::size_t>(from.operand().elements()) * sizeof(float));
  }
};

}  // namespace mxo::tools
