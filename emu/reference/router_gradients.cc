// The router's gradients, one token after another.
#include "emu/reference/router_gradients.h"

#include "emu/reference/reference_backend.h"
#include "emu/reference/route.h"
#include "formats/softplus.h"

namespace mxo {
namespace {

/// Turns dweights of a token's slots into ds, in place.
void through_weights(const RouteBackward& op, const std::vector<float>& s, std::vector<float>& g) {
  if (!op.normalize || op.score == RouterScore::softmax_of_chosen) return;
  float sum = 0.0f;
  float dot = 0.0f;
  for (std::size_t j = 0; j < g.size(); ++j) {
    sum += s[j];
    dot += g[j] * s[j];
  }
  const float total = sum + 1e-20f;
  const float mean = dot / total;
  for (float& value : g) value = (value - mean) / total;
}

float logit_of(const Operand& logits, Index t, Index e) {
  return visit_wide_float(logits.dtype, [&](auto tag) {
    return to_float(logits.as<const typename decltype(tag)::type, 2>()(t, e));
  });
}

/// The gradient of the logit of expert e, a slot's, of score s and gradient ds.
float through_score(const RouteBackward& op, Index t, Index e, float s, float ds, float dot) {
  if (op.score == RouterScore::sigmoid) return ds * (s * (1.0f - s));
  if (op.score == RouterScore::sqrtsoftplus) {
    return through_sqrtsoftplus(ds, s, logit_of(op.logits, t, e));
  }
  return s * (ds - dot);
}

}  // namespace

void route_token_backward(const RouteBackward& op, Index t, std::vector<float>& score) {
  const auto experts = op.experts.as<const std::int32_t, 2>();
  const auto dweights = op.dweights.as<const float, 2>();
  const auto dlogits = op.dlogits.as<float, 2>();
  score.resize(static_cast<std::size_t>(op.logits.extent[1]));
  if (!score.empty()) score_token(op.logits, op.score, t, score);

  std::vector<float> s;  // of the slots
  std::vector<float> ds;
  for (Index j = 0; j < experts.extent[1]; ++j) {
    s.push_back(score[static_cast<std::size_t>(experts(t, j))]);
    ds.push_back(dweights(t, j) * op.scale);
  }
  if (op.score == RouterScore::softmax_of_chosen) softmax(s);
  through_weights(op, s, ds);

  float dot = 0.0f;
  for (std::size_t j = 0; j < s.size(); ++j) dot += ds[j] * s[j];
  const bool all = op.score == RouterScore::softmax;
  for (Index e = 0; e < op.logits.extent[1]; ++e) {
    const float value = score[static_cast<std::size_t>(e)];
    dlogits(t, e) = all ? rounded<float>(value * (0.0f - dot)) : 0.0f;
  }
  for (std::size_t j = 0; j < s.size(); ++j) {
    const Index e = experts(t, static_cast<Index>(j));
    dlogits(t, e) = rounded<float>(through_score(op, t, e, s[j], ds[j], dot));
  }
}

void ReferenceBackend::run(const RouteBackward& op) {
  std::vector<float> score;
  for (Index t = 0; t < op.logits.extent[0]; ++t) route_token_backward(op, t, score);
}

void ReferenceBackend::run(const RouterGradients& op) {
  if (op.dx.given()) {
    visit_router_dx(op, [&](auto token) {
      for (Index t = 0; t < op.dx.extent[0]; ++t) token(t);
    });
  }
  if (op.drouter.given()) {
    visit_router_dw(op, [&](auto expert) {
      for (Index e = 0; e < op.drouter.extent[0]; ++e) expert(e);
    });
  }
}

}  // namespace mxo
