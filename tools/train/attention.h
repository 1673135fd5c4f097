// Causal self-attention of one head of one sequence, and its gradients.
#pragma once

#include <vector>

#include "tools/train/matrix.h"
#include "tools/train/rows.h"

namespace mxo::tools {

/// q, k and v of one head, or gradients of them, or its output: `context` rows of `width`, `stride`
/// apart.
template <typename Real>
struct Head {
  Real* data;
  Index stride;

  Real* row(Index t) const { return data + t * stride; }
};

/// o = softmax(q k^T / sqrt(d), causal) v.  Queries are taken kQueries at a time, so that memory
/// grows with the context and not with its square: a block of scores is q (k of what came before
/// and of the block)^T; a row's softmax has u <= t, and the rest of the block is zero.  Backward
/// makes the same scores again, and dk and dv are chains over t ascending.
template <typename Real>
class Attention {
 public:
  static constexpr Index kQueries = 64;

  Attention(Index context, Index width)
      : context_(context), width_(width), scale_(Real{1} / std::sqrt(static_cast<Real>(width))) {}

  void forward(Head<const Real> q, Head<const Real> k, Head<const Real> v, Head<Real> o) {
    for (Index first = 0; first < context_; first += kQueries) {
      const Index end = std::min(context_, first + kQueries);
      const Block p = chances(q, k, first, end);
      multiply(p.view(), view(v, 0, end), o.row(first), o.stride);
    }
  }

  void backward(Head<const Real> q, Head<const Real> k, Head<const Real> v, Head<const Real> d_o,
                Head<Real> dq, Head<Real> dk, Head<Real> dv) {
    for (Index t = 0; t < context_; ++t) {
      std::fill_n(dk.row(t), width_, Real{0});
      std::fill_n(dv.row(t), width_, Real{0});
    }
    for (Index first = 0; first < context_; first += kQueries) {
      const Index end = std::min(context_, first + kQueries);
      const Block p = chances(q, k, first, end);
      gradients_.resize(p.size());
      const Block ds{gradients_.data(), p.rows, p.columns};
      const View<Real> dout = view(d_o, first, end);
      multiply(dout, view(v, 0, end).transposed(), ds.data, ds.columns);
      multiply(p.view().transposed(), dout, dv.data, dv.stride, true);
      for (Index t = first; t < end; ++t) {
        softmax_backward(p.row(t - first), ds.row(t - first), t + 1, end);
      }
      multiply(ds.view(), view(k, 0, end), dq.row(first), dq.stride);
      multiply(ds.view().transposed(), view(q, first, end), dk.data, dk.stride, true);
    }
  }

 private:
  struct Block {
    Real* data;
    Index rows;
    Index columns;
    Real* row(Index t) const { return data + t * columns; }
    std::size_t size() const { return static_cast<std::size_t>(rows * columns); }
    View<Real> view() const { return {data, rows, columns, columns}; }
  };
  View<Real> view(Head<const Real> head, Index first, Index end) const {
    return {head.row(first), end - first, width_, head.stride};
  }

  Block chances(Head<const Real> q, Head<const Real> k, Index first, Index end) {
    chances_.resize(static_cast<std::size_t>(kQueries * context_));
    const Block p{chances_.data(), end - first, end};
    multiply(view(q, first, end), view(k, 0, end).transposed(), p.data, p.columns);
    for (Index t = first; t < end; ++t) {
      Real* s = p.row(t - first);
      for (Index u = 0; u <= t; ++u) s[u] *= scale_;
      Real top = 0;
      softmax(s, t + 1, &top);
      std::fill(s + t + 1, s + end, Real{0});
    }
    return p;
  }

  void softmax_backward(const Real* p, Real* ds, Index n, Index end) const {
    const Real dot = sum_of<Real>(n, [=](Index u) { return p[u] * ds[u]; });
    for (Index u = 0; u < n; ++u) ds[u] = (p[u] * (ds[u] - dot)) * scale_;
    std::fill(ds + n, ds + end, Real{0});
  }

  Index context_;
  Index width_;
  Real scale_;
  std::vector<Real> chances_;
  std::vector<Real> gradients_;
};

}  // namespace mxo::tools
