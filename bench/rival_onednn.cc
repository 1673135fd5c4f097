// oneDNN's matmul primitive, made once per shape.
#include "bench/rival_onednn.h"

#include <map>
#include <tuple>

#include <dnnl.hpp>

namespace mxo::bench {
namespace {

using Shape = std::tuple<Index, Index, Index>;

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

void onednn_matmul(const BF16* x, const BF16* w, BF16* y, Index m, Index n, Index k) {
  static std::map<Shape, dnnl::matmul> made;
  static dnnl::stream stream(engine());
  const auto dx = desc(m, k, k, 1);
  const auto dw = desc(k, n, 1, k);
  const auto dy = desc(m, n, n, 1);
  auto found = made.find({m, n, k});
  if (found == made.end()) {
    const dnnl::matmul::primitive_desc primitive(dnnl::matmul::desc(dx, dw, dy), engine());
    found = made.emplace(Shape{m, n, k}, dnnl::matmul(primitive)).first;
  }
  found->second.execute(stream, {{DNNL_ARG_SRC, memory(dx, x)},
                                 {DNNL_ARG_WEIGHTS, memory(dw, w)},
                                 {DNNL_ARG_DST, memory(dy, y)}});
  stream.wait();
}

}  // namespace mxo::bench
