// oneDNN's matmul primitive, made once per shape.
#include "bench/rival_onednn.h"

#include <map>
#include <tuple>

#include <dnnl.hpp>

namespace mxo::bench {
namespace {

/// m, n, k, and which of both lie in columns; steps follow.
using Shape = std::tuple<Index, Index, Index, bool, bool>;

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::memory::desc desc(Index rows, Index columns, Index row_step, Index column_step) {
  return {{rows, columns}, dnnl::memory::data_type::bf16, {row_step, column_step}};
}

dnnl::memory memory(const dnnl::memory::desc& d, const BF16* data) {
  return {d, engine(), const_cast<BF16*>(data)};
}

}  // namespace

bool have_onednn() { return true; }

void onednn_product(const Laid& a, const Laid& b, BF16* y, Index m, Index n, Index k) {
  static std::map<Shape, dnnl::matmul> made;
  static dnnl::stream stream(engine());
  const auto da = desc(m, k, a.row_step, a.column_step);
  const auto db = desc(k, n, b.row_step, b.column_step);
  const auto dy = desc(m, n, n, 1);
  const Shape shape{m, n, k, a.row_step == 1, b.row_step == 1};
  auto found = made.find(shape);
  if (found == made.end()) {
    const dnnl::matmul::primitive_desc primitive(dnnl::matmul::desc(da, db, dy), engine());
    found = made.emplace(shape, dnnl::matmul(primitive)).first;
  }
  found->second.execute(stream, {{DNNL_ARG_SRC, memory(da, a.data)},
                                 {DNNL_ARG_WEIGHTS, memory(db, b.data)},
                                 {DNNL_ARG_DST, memory(dy, y)}});
  stream.wait();
}

}  // namespace mxo::bench
