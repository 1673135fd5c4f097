// A row for every finder.  A new cause is one row here, or one in a list of hypotheses.
#include "golden/explain/finders.h"

#include <iterator>

#include "formats/error.h"
#include "golden/explain/alter/alterations.h"
#include "golden/explain/confirm/score.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/output/slots.h"
#include "golden/explain/find/product/finders.h"
#include "golden/explain/find/quantiser/quantiser.h"

namespace mxo {
namespace {

/// What a finder says of one output.
template <auto kFind>
Claims of_output(const Case& c, Output& o) {
  if constexpr (std::invocable<decltype(kFind), Output&>) {
    return kFind(o);
  } else if constexpr (std::invocable<decltype(kFind), const Call&, Output&>) {
    return kFind(c.call, o);
  } else {
    return kFind(c.backend, c.call, o);
  }
}

/// Of each output by itself; `kPlace`: it is news which elements differ.
template <auto kFind, bool kPlace = false>
Claims each(const Case& c) {
  Claims claims;
  for (Output& o : c.outputs)
    append(claims, named_by(
                       c.outputs, [&] { return of_output<kFind>(c, o); }, kFamily, kPlace));
  return claims;
}

template <auto kFind>
Claims whole(const Case& c) {
  return named_by(c.outputs, [&] { return kFind(c.call, c.outputs); });
}

template <auto kAdd>
void listed(const Case& c, List& list) {
  kAdd(c.call, list);
}

/// Of each output, or of those of all slots together.
template <auto kAdd>
void measured(const Case& c, List& list) {
  const std::size_t first = list.size();
  if constexpr (std::invocable<decltype(kAdd), Backend&, const Call&, std::vector<Output>&,
                               List&>) {
    kAdd(c.backend, c.call, c.outputs, list);
  } else {
    for (const Output& o : c.outputs) kAdd(c.call, o, list);
  }
  for (std::size_t i = first; i < list.size(); ++i) list[i].measured = true;
}

bool codes_are_right(const Case& c) {
  const Output* codes = output_named(c.outputs, "codes");
  return codes != nullptr && codes->differing == 0;
}

/// Rows that moved.  Scales that codes follow were made where they are, whatever they look like.
Claims moved(const Case& c) {
  const bool follow = std::ranges::any_of(c.outputs, [](const Output& o) { return o.follows; });
  Claims claims;
  for (Output& o : c.outputs)
    if (!follow || o.name != "scales")
      append(claims, named_by(c.outputs, [&] { return recover_moved(o); }));
  return claims;
}

/// One cause of the scales, codes and all: it tells which of them differ.  Scales that moved beside
/// codes that are right were made of no other amax.
Claims quantiser_of_all(const Case& c) {
  mark_what_follows(c.call, c.outputs);
  // Where blocks of zeros have a cause, the others have another.
  const auto begun = [](const Output& o) { return o.left != o.differing; };
  if (std::ranges::any_of(c.outputs, begun)) return {};
  const auto find = [&] {
    Claims claims = recover_quantiser(c.call, c.outputs);
    for (Output& o : c.outputs) o.without_rule = claims.empty();
    const bool one =
        claims.size() == 1 && claims.front().kind == FindingKind::cause && left_of(c.outputs) == 0;
    const bool moved = one && codes_are_right(c) && claims.front().id == "scale.amax";
    return one && !moved ? claims : Claims{};
  };
  return named_by(c.outputs, find, kFamily, true);
}

Claims padding(const Case& c) {
  Claims claims;
  for (Output& o : c.outputs) append(claims, recover_padding(c.call, o, c.expected));
  return claims;
}

Claims scales_exchanged(const Case& c) {
  Output* scales = output_named(c.outputs, "scales");
  if (scales == nullptr || !codes_are_right(c)) return {};
  return named_by(c.outputs, [&] { return recover_exchanged(*scales); });
}

/// Of what is left; what no rule gave any part of is not asked again as it is.
Claims quantiser(const Case& c) {
  const auto asked = [](const Output& o) { return o.without_rule && o.left == o.differing; };
  return std::ranges::all_of(c.outputs, asked) ? Claims{} : whole<recover_quantiser>(c);
}

/// A factor of all of a product is no misread scale where no scale is a factor of a whole line, and
/// needs no altered call.
Claims one_factor(const Case& c) {
  const std::optional<Product> p = product_of(c.call);
  if (!p) return {};
  const auto many = [&](const ProductSide& f) {
    if (f.scales == nullptr) return true;
    if (p->wgrad) return p->block < p->k;
    // Of scales that lie flat, more than one a line.
    const bool shaped = f.scales->rank() == f.codes->rank();
    return p->block < p->k && (shaped ? f.scales->shape().back() > 1
                                      : f.scales->elements() * p->k > f.codes->elements());
  };
  return many(p->a) && many(p->b) ? each<recover_one_factor>(c) : Claims{};
}

/// Codes that differ in blocks whose scale differs, too: they follow from it, and look like nothing
/// of their own.
std::vector<Index> codes_of_other_scales(const Case& c, const Output& codes) {
  const Output* scales = output_named(c.outputs, "scales");
  if (codes.name != "codes" || scales == nullptr || scales->differing == 0) return {};
  std::vector<Index> found;
  const std::optional<Blocks> blocks = blocks_of(c.call, codes, *scales->expected);
  for (Index i = 0; blocks && i < codes.compared_rows * codes.columns; ++i) {
    const Index s = blocks->scale_of(i);
    if (codes.differs(i) && s >= 0 && nth(scales->marks, s) != Mark::same) found.push_back(i);
  }
  return found;
}

/// What an output looks like, codes that follow set aside.
template <auto kFind>
Claims looks(const Case& c) {
  Claims claims;
  for (Output& o : c.outputs) {
    const std::vector<Index> aside = codes_of_other_scales(c, o);
    for (const Index i : aside) o.mark_explained(i);
    append(claims, named_by(c.outputs, [&] { return kFind(o); }));
    for (const Index i : aside) nth(o.marks, i) = Mark::differs;
    o.left += static_cast<Index>(aside.size());
  }
  return claims;
}

/// Outputs less the bias of their product: what is measured of them are products.
class WithoutBias {
 public:
  explicit WithoutBias(const Case& c) {
    if (!is_biased_product(c.call)) return;
    Call less = c.call;
    map_values(less, "bias", [](float v, Index) { return -v; });
    outputs_ = c.outputs;
    for (Output& o : outputs_) {
      for (const Tensor** t : {&o.expected, &o.actual}) {
        const Tensor& given = **t;
        wide_.push_back(std::make_unique<Tensor>(with_values(
            Tensor(Dtype::f32, given.shape()), [&](Index i) { return wide_value(given, i); })));
        add_bias(less, *wide_.back());
        *t = wide_.back().get();
      }
    }
  }
  /// The case of those, or as it is where there is no bias.
  Case of(const Case& c) {
    return {c.backend, c.call, c.expected, c.actual, wide_.empty() ? c.outputs : outputs_};
  }

 private:
  std::vector<Output> outputs_;
  std::vector<std::unique_ptr<Tensor>> wide_;
};

constexpr Finder kFinders[] = {
    {"degenerate_blocks", Turn::rule, whole<recover_degenerate_blocks>},
    {"quantiser_of_all", Turn::rule, quantiser_of_all},

    {"counts", Turn::seen, whole<recover_counts>},
    {"by_value", Turn::seen, each<recover_by_value, true>},
    {"stride", Turn::seen, each<recover_stride>},
    {"running", Turn::seen, each<recover_running>},
    {"late", Turn::seen, each<shifted_output>},
    {"padding", Turn::seen, padding},
    {"copied", Turn::seen, whole<recover_copied>},
    {"one_row", Turn::seen, each<recover_one_row>},
    {"unwritten", Turn::seen, each<recover_unwritten>},
    {"row_order", Turn::seen, each<recover_row_order>},
    {"moved", Turn::seen, moved},
    {"moved_runs", Turn::seen, each<recover_moved_runs>},
    {"added", Turn::seen, each<recover_added>},
    {"scales_exchanged", Turn::seen, scales_exchanged},
    {"quantiser", Turn::seen, quantiser},
    {"encoded", Turn::seen, each<recover_encoded>},
    {"one_factor", Turn::seen, one_factor},

    {"indices", Turn::measured, nullptr, measured<add_measured_indices>},
    {"counted_tokens", Turn::measured, nullptr, measured<add_counted_tokens>},
    {"never_chosen", Turn::measured, nullptr, measured<add_never_chosen>},
    {"rows", Turn::measured, nullptr, measured<add_measured_rows>},
    {"scales", Turn::measured, nullptr, measured<add_measured_scales>},
    {"blocks", Turn::measured, nullptr, measured<add_measured_blocks>},
    {"biases", Turn::measured, nullptr, measured<add_measured_biases>},
    {"slots", Turn::measured, nullptr, measured<add_measured_slots>},
    {"slot_rows", Turn::measured, nullptr, measured<add_measured_slot_rows>},
    {"wrapped_tokens", Turn::measured, nullptr, measured<add_wrapped_tokens>},
    {"lost_experts", Turn::measured, nullptr, measured<add_lost_experts>},
    {"factors_of_parts", Turn::measured, nullptr, measured<add_factors_of_parts>},

    {"bytes_as_nan", Turn::listed, nullptr,
     [](const Case& c, List& list) {
       for (const Output& o : c.outputs) add_bytes_as_nan(c.call, o, list);
     }},
    {"known", Turn::listed, nullptr,
     [](const Case& c, List& list) {
       std::ranges::move(hypotheses_about(c.call), std::back_inserter(list));
     }},
    {"quantised_operands", Turn::listed, nullptr,
     [](const Case& c, List& list) { add_quantised_operands(c.backend, c.call, list); }},

    {"layer_routers", Turn::costly, nullptr,
     [](const Case& c, List& list) { add_layer_routers(c.backend, c.call, c.outputs, list); }},
    {"layer_gates", Turn::costly, nullptr, measured<add_layer_gates>},
    {"experts_of_others", Turn::costly, nullptr, measured<add_experts_of_others>},
    {"rules_of_some_experts", Turn::costly, nullptr, measured<add_rules_of_some_experts>},
    {"decoded_codes", Turn::costly, nullptr, measured<add_decoded_codes>},
    {"rows_in_no_order", Turn::costly, nullptr, measured<add_rows_in_no_order>},
    {"misread_parts", Turn::costly, nullptr, measured<add_misread_parts>},
    {"lanes", Turn::costly, nullptr, measured<add_measured_lanes>},
    {"stale_stages", Turn::costly, nullptr, listed<add_stale_stages>},

    {"order", Turn::order, each<recover_order>, nullptr, true},
    {"axes", Turn::order, each<recover_axes>, nullptr, true},
    {"column_order", Turn::order, each<recover_column_order>},
    {"line_function", Turn::order, each<recover_line_function>, nullptr, true},
    {"tiles", Turn::order, each<recover_tiles>},
    {"exchanged", Turn::order, each<recover_exchanged>},

    {"at_random", Turn::look, each<recover_random>},
    {"wild", Turn::look, each<recover_wild>},
    {"one_number", Turn::look, each<recover_one_number>},
    {"named_twice", Turn::look, each<recover_named_twice>},
    {"gradient_rows", Turn::look, each<recover_gradient_rows>},
    {"integers", Turn::look, each<recover_integers>},
    {"moved_entries", Turn::look, each<recover_moved_entries>},
    {"entries_of_others", Turn::look, each<recover_entries_of_others>},
    {"factors", Turn::look, looks<recover_factors>},
    {"mapped", Turn::look, looks<recover_mapped>, nullptr, true},
    {"scaled", Turn::look, looks<recover_scaled>},
    {"replaced", Turn::look, looks<recover_replaced>},
};

}  // namespace

std::span<const Finder> finders() { return kFinders; }

Claims found(const Case& c, Turn turn) {
  Claims claims;
  for (const Finder& finder : kFinders)
    if (finder.turn == turn && finder.find != nullptr && left_of(c.outputs) > 0)
      append(claims, finder.find(c));
  return claims;
}

List proposed(const Case& given, Turn turn) {
  WithoutBias without(given);
  const Case c = without.of(given);
  List list;
  for (const Finder& finder : kFinders) {
    if (finder.turn != turn || finder.propose == nullptr) continue;
    try {
      finder.propose(c, list);
    } catch (const Error&) {
      // A call that it measures is none: what it has not proposed is not tried.
    }
  }
  return list;
}

}  // namespace mxo
