// Where rows lie, and their sums.
#include "golden/judge/slots_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "formats/error.h"
#include "golden/judge/elements.h"
#include "golden/judge/rounding_cell.h"
#include "golden/judge/sum_error.h"

namespace mxo {
namespace {

constexpr auto kMost = static_cast<double>(std::numeric_limits<float>::max());

std::string of_rank(Index rank, std::string_view part) {
  return "rank" + std::to_string(rank) + "." + std::string(part);
}

class Slots {
 public:
  Slots(std::string_view op, const NamedTensors& inputs, const Parameters& set)
      : op_(op), inputs_(inputs), rows_(op == "combine" ? "y" : "dy") {
    while (inputs.contains(of_rank(ranks_, "experts"))) ++ranks_;
    const Index experts = set.integer("experts", 0);
    need(ranks_ > 0 && experts > 0 && experts <= 1 << 16 && experts % ranks_ == 0, "experts",
         "a multiple of the ranks, 65536 at most");
    local_ = experts / ranks_;
    padded_ = set.text("layout", "rank_major") == "expert_major_padded";
    alignment_ = set.integer("alignment", 32);
    need(alignment_ > 0 && alignment_ <= 1 << 30, "alignment", "1 to 2^30");
    for (Index p = 0; p < ranks_; ++p) {
      const Tensor& chosen = tensor(p, "experts");
      need(chosen.rank() == 2 && size_of(chosen.dtype()) == 4, of_rank(p, "experts"), "i32 [T, k]");
      for (Index i = 0; i < chosen.elements(); ++i) {
        const Index e = chosen.as<std::int32_t>()[i];
        need(e >= -1 && e < experts, of_rank(p, "experts"), "experts from -1 to E - 1");
      }
      place_.emplace_back(static_cast<std::size_t>(chosen.elements()), Index{0});
    }
    for (Index q = 0; q < ranks_; ++q) receive(q);
  }

  /// Gives every product of element i of the output of `rank` to `sum`.
  template <typename Sum>
  void for_each_product(Index rank, Index i, Sum sum) const {
    const Tensor& chosen = tensor(rank, "experts");
    const auto weights = inputs_.find(of_rank(rank, "weights"));
    const Index columns = tensor(0, rows_).extent(1);
    const Index k = chosen.extent(1);
    for (Index at = i / columns * k; at < (i / columns + 1) * k; ++at) {
      const Index expert = chosen.as<std::int32_t>()[at];
      if (expert < 0) continue;  // a slot that is not used
      const Tensor& rows = tensor(expert / local_, rows_);
      const Index from =
          place_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(at)] * columns +
          i % columns;
      const bool weighed = weights != inputs_.end();
      const double w = weighed ? static_cast<double>(weights->second.as<float>()[at]) : 1.0;
      const float x = rows.dtype() == Dtype::f32   ? rows.as<float>()[from]
                      : rows.dtype() == Dtype::f16 ? decode(rows.as<F16>()[from])
                                                   : decode(rows.as<BF16>()[from]);
      sum(w * static_cast<double>(x));  // f32 by f32: exact
    }
  }

  ErrorBound bound(Index rank) const {
    const Tensor& chosen = tensor(rank, "experts");
    const auto weights = inputs_.find(of_rank(rank, "weights"));
    need(weights == inputs_.end() ||
             (weights->second.shape() == chosen.shape() && weights->second.dtype() == Dtype::f32),
         of_rank(rank, "weights"), "f32 of the shape of the experts");
    const Index k = chosen.extent(1);
    const SumError error = SumError::any_order(k);
    ErrorBound bound;
    for (Index i = 0; i < chosen.extent(0) * tensor(0, rows_).extent(1); ++i) {
      double total = 0;
      double magnitude = 0;
      for_each_product(rank, i, [&](double product) {
        total += product;
        magnitude += std::fabs(product);
      });
      const double doubt = up(magnitude * gamma_of(k, 0x1p-52));
      const double stray = error(up(magnitude + doubt), 0);
      const bool overflows = up(up(magnitude + doubt) + stray) > kMost;
      bound.exact.push_back(std::isfinite(magnitude) ? total
                                                     : std::numeric_limits<double>::quiet_NaN());
      bound.stray.push_back(overflows ? std::numeric_limits<double>::infinity() : stray);
      bound.doubt.push_back(doubt);
    }
    return bound;
  }

  Index ranks() const { return ranks_; }

 private:
  void need(bool holds, const std::string& operand, const char* what) const {
    if (holds) return;
    throw Error(Fault::shape, std::string(op_) + ": " + operand + ": gate bound needs " + what);
  }

  const Tensor& tensor(Index rank, std::string_view part) const {
    const auto at = inputs_.find(of_rank(rank, part));
    need(at != inputs_.end(), of_rank(rank, part), "it");
    return at->second;
  }

  /// Places of the rows that rank `q` received: its experts' selections, of all ranks.
  void receive(Index q) {
    Index next = 0;
    const auto take = [&](Index source, Index expert) {
      const Tensor& chosen = tensor(source, "experts");
      for (Index i = 0; i < chosen.elements(); ++i) {
        if (chosen.as<std::int32_t>()[i] != expert) continue;
        place_[static_cast<std::size_t>(source)][static_cast<std::size_t>(i)] = next++;
      }
    };
    if (padded_) {
      for (Index e = q * local_; e < (q + 1) * local_; ++e) {
        const Index start = next;
        for (Index p = 0; p < ranks_; ++p) take(p, e);
        next = start + round_up(std::max<Index>(next - start, 1), alignment_);
      }
    } else {
      for (Index p = 0; p < ranks_; ++p) {
        for (Index e = q * local_; e < (q + 1) * local_; ++e) take(p, e);
      }
    }
    const Tensor& rows = tensor(q, rows_);
    const bool known = rows.dtype() == Dtype::f32 || size_of(rows.dtype()) == 2;
    need(rows.rank() == 2 && known && rows.extent(0) >= next &&
             rows.extent(1) == tensor(0, rows_).extent(1),
         of_rank(q, rows_), "bf16, f16 or f32 [rows, D] with the rows that it received");
  }

  std::string_view op_;
  const NamedTensors& inputs_;
  std::string_view rows_;
  Index ranks_ = 0;
  Index local_ = 0;
  bool padded_ = false;
  Index alignment_ = 32;
  std::vector<std::vector<Index>> place_;  ///< of a rank's selections, where their experts are
};

}  // namespace

bool sums_slots(std::string_view op, std::string_view output) {
  return (op == "combine" && output.ends_with(".out")) ||
         (op == "dispatch_backward" && output.ends_with(".dx"));
}

ErrorBound slots_bound(std::string_view op, std::string_view output, const NamedTensors& inputs,
                       const Parameters& set) {
  const auto slots = std::make_shared<const Slots>(op, inputs, set);
  for (Index rank = 0; rank < slots->ranks(); ++rank) {
    if (!output.starts_with(of_rank(rank, ""))) continue;
    ErrorBound bound = slots->bound(rank);
    bound.terms = [slots, rank](Index i, ExactTerms& sum) {
      slots->for_each_product(rank, i, [&sum](double product) { sum.add(product); });
    };
    return bound;
  }
  throw Error(Fault::argument, std::string(op) + ": " + std::string(output) + ": no such rank");
}

}  // namespace mxo
