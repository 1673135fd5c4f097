// Heads onto threads.
#include "tools/train/attention_block.h"

namespace mxo::tools {

AttentionBlock::AttentionBlock(const Rank& rank, const std::string& name,
                               const Rotary<float>& rotary)
    : rank_(rank),
      rotary_(rotary),
      norm_(rank, name + ".gain"),
      qkv_(rank, name + ".qkv", linears_call(rank.options, rank.recipe)),
      out_(rank, name + ".out", linears_call(rank.options, rank.recipe)) {}

template <typename Task>
void AttentionBlock::each_head(const Task& task) const {
  const Index heads = rank_.options.heads;
  const Index context = rank_.options.context;
  for_each_task(rows_.rows() / context * heads, rank_.threads,
                [&](Index i) { task(i / heads * context, i % heads); });
}

template <typename Real>
Head<Real> AttentionBlock::part(Real* rows, Index token, Index which, Index head) const {
  const Index width = rank_.options.width;
  return {rows + token * 3 * width + which * width + head * head_width(), 3 * width};
}

void AttentionBlock::turn(float* rows, Index token, Index head, float sign) const {
  for (const Index which : {0, 1}) {
    const Head<float> x = part(rows, token, which, head);
    for (Index t = 0; t < rank_.options.context; ++t) rotary_.turn(x.row(t), t, sign);
  }
}

Matrix<float> AttentionBlock::forward(const Matrix<float>& x, Parameters& parameters) {
  rows_ = qkv_.forward(norm_.forward(x, parameters), parameters);
  Matrix<float> mixed(x.rows(), x.cols());
  each_head([&](Index token, Index head) {
    turn(rows_.data(), token, head, 1.0f);
    const float* rows = rows_.data();
    Attention<float>(rank_.options.context, head_width())
        .forward(part(rows, token, 0, head), part(rows, token, 1, head), part(rows, token, 2, head),
                 {row_of(mixed, token) + head * head_width(), mixed.cols()});
  });
  return out_.forward(std::move(mixed), parameters);
}

void AttentionBlock::backward(Matrix<float>& dx, Parameters& parameters) {
  const Matrix<float> dmixed = out_.backward(dx, parameters);
  Matrix<float> drows(rows_.rows(), rows_.cols());
  each_head([&](Index token, Index head) {
    const float* rows = rows_.data();
    float* d = drows.data();
    Attention<float>(rank_.options.context, head_width())
        .backward(part(rows, token, 0, head), part(rows, token, 1, head),
                  part(rows, token, 2, head),
                  {row_of(dmixed, token) + head * head_width(), dmixed.cols()},
                  part(d, token, 0, head), part(d, token, 1, head), part(d, token, 2, head));
    turn(d, token, head, -1.0f);
  });
  norm_.backward(qkv_.backward(drows, parameters), dx, parameters);
}

}  // namespace mxo::tools
